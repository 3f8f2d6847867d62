package queue

import "math"

// item is one waiting operation.
type item[T any] struct {
	v       T
	w       Weight
	entered int64 // the line's count of picks when it came into view
}

// line is the operations of one priority, in order: the ones in view, and the rest behind them.
type line[T any] struct {
	view     []item[T]
	head     int // view[:head] has left
	rest     []item[T]
	restHead int
	picks    int64  // taken from this line, or from a lower one past it
	taken    int64  // when the last one taken had come into view
	min      Weight // a lower bound of each figure in view, exact if fresh
	fresh    bool
	ties     struct{ tokens, output int } // how many in view weigh min, if fresh
	max      int64                        // an upper bound of the tokens in view
	looked   int64                        // picks when max was last found by a scan
}

func (l *line[T]) len() int { return len(l.view) - l.head + len(l.rest) - l.restHead }

func (l *line[T]) push(x item[T]) {
	if len(l.view)-l.head < LookAhead {
		l.see(x)
		return
	}
	l.rest = append(l.rest, x)
}

// see brings x into view.
func (l *line[T]) see(x item[T]) {
	x.entered = l.picks
	if l.head > LookAhead {
		n := copy(l.view, l.view[l.head:])
		clear(l.view[n:])
		l.view, l.head = l.view[:n], 0
	}
	l.view = append(l.view, x)
	l.note(x.w)
}

// note keeps the bounds when something of weight w comes into view.
func (l *line[T]) note(w Weight) {
	l.max = max(l.max, w.Tokens)
	lower(&l.min.Tokens, &l.ties.tokens, w.Tokens)
	lower(&l.min.Output, &l.ties.output, w.Output)
}

func lower(least *int64, ties *int, n int64) {
	if n < *least {
		*least, *ties = n, 0
	}
	if n == *least {
		*ties++
	}
}

// pushFront puts the last one taken back; it keeps its age.
func (l *line[T]) pushFront(x item[T]) {
	x.entered = l.taken
	if l.head > 0 {
		l.head--
		l.view[l.head] = x
	} else {
		l.view = append(l.view, x)
		copy(l.view[1:], l.view)
		l.view[0] = x
	}
	l.note(x.w)
}

// least is the lightest of each figure in view. It is found by a scan at most once between two picks, and only when the last one that
// weighed so little has left.
func (l *line[T]) least() Weight {
	if !l.fresh {
		l.min, l.fresh = Weight{math.MaxInt64, math.MaxInt64}, true
		for i := range l.view[l.head:] {
			w := &l.view[l.head+i].w
			lower(&l.min.Tokens, &l.ties.tokens, w.Tokens)
			lower(&l.min.Output, &l.ties.output, w.Output)
		}
	}
	return l.min
}

// bounds are bounds of the tokens in view. They get exact again every so many picks: a scan at each
// would cost more than what it is good for.
func (l *line[T]) bounds() (low, high int64) {
	if l.picks-l.looked >= LookAhead/8 {
		l.looked, l.max = l.picks, 0
		for i := range l.view[l.head:] {
			l.max = max(l.max, l.view[l.head+i].w.Tokens)
		}
		l.least()
	}
	return l.min.Tokens, l.max
}

// overdue says that the first operation has been passed too often.
func (l *line[T]) overdue() bool { return l.picks-l.view[l.head].entered > patience }

// pick is the index in view of the best operation that fits; -1 if none does.
func (l *line[T]) pick(f *Fit) int {
	first := l.view[l.head].w
	fits := f.admits(first)
	if l.overdue() || fits && (!f.Balance || distance(first.Tokens, f.Want) <= f.Slack) {
		if fits {
			return l.head
		}
		return -1
	}
	if !fits && !f.admits(l.least()) {
		return -1
	}
	best, off := -1, int64(math.MaxInt64)
	want := f.Tokens
	if f.Balance {
		want = f.Want
	}
	for i := l.head; i < len(l.view); i++ {
		if w := l.view[i].w; f.admits(w) {
			if d := distance(w.Tokens, want); d < off {
				best, off = i, d
			}
		}
	}
	return best
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// take removes the operation at index i of the view and brings the next one into view.
func (l *line[T]) take(i int) T {
	x := l.view[i]
	if x.w.Tokens == l.min.Tokens {
		l.ties.tokens--
	}
	if x.w.Output == l.min.Output {
		l.ties.output--
	}
	l.fresh = l.fresh && l.ties.tokens > 0 && l.ties.output > 0
	copy(l.view[l.head+1:i+1], l.view[l.head:i])
	l.view[l.head] = item[T]{}
	l.head++
	l.picks++
	l.taken = x.entered
	if l.restHead < len(l.rest) {
		l.see(l.rest[l.restHead])
		l.rest[l.restHead] = item[T]{}
		if l.restHead++; l.restHead == len(l.rest) {
			l.rest, l.restHead = l.rest[:0], 0
		}
	}
	return x.v
}
