package queue

import "math"

const (
	// LookAhead is how many operations of one priority a pick may choose from.
	LookAhead = 2000
	// patience is how many picks may pass the first operation before it goes next whatever its
	// weight. With both budgets binding, heavy operations must be passed often to keep the budgets
	// in step, so it is several times the look-ahead; but it is a bound, so nothing starves.
	patience = 4 * LookAhead
	// ageing is how many of higher priorities go past a lower one before one of it does.
	ageing = LookAhead
)

// Priority is the order between operations. The zero Priority is Normal.
type Priority uint8

const (
	Normal Priority = iota
	High
	Low
	priorities
)

// served is the order in which priorities are served.
var served = []Priority{High, Normal, Low}

// Weight is what an operation takes of the budgets that calls share unequally.
type Weight struct{ Tokens, Output int64 }

// Fit is what a pick has to suit.
type Fit struct {
	Tokens, Output int64 // no more than this
	// With Balance set, the pick that leaves requests and tokens in step is best: the first in order if
	// it weighs Want within Slack, else the one nearest to Want.
	Balance     bool
	Want, Slack int64
}

func (f *Fit) admits(w Weight) bool { return w.Tokens <= f.Tokens && w.Output <= f.Output }

// Ready holds the operations that may start, by priority and then first come, first served. When the
// first does not fit, or would put the budgets out of step, another of the first LookAhead
// goes in its place. Of a lower priority one goes for every so many of higher ones. The zero Ready is empty.
type Ready[T any] struct {
	lines [priorities]line[T]
	n     int

	// By priority, how many of higher ones have gone past those that wait, since the last of its own
	// went; and as it was ahead of the last pick.
	passed, before [priorities]int
}

// Len is how many operations wait.
func (r *Ready[T]) Len() int { return r.n }

// Push adds v at the end of its priority's line.
func (r *Ready[T]) Push(v T, p Priority, w Weight) {
	r.lines[p%priorities].push(item[T]{v: v, w: w})
	r.n++
}

// PushFront puts v, the last one popped, back at the head of its line: a pick that could not be used.
func (r *Ready[T]) PushFront(v T, p Priority, w Weight) {
	r.passed = r.before
	r.lines[p%priorities].pushFront(item[T]{v: v, w: w})
	r.n++
}

// Pop takes the best operation that fits; ok is false if none does. A lower priority goes only when
// nothing in view of a higher one fits, or when it is its turn by age, and not past one that has been
// passed too often.
func (r *Ready[T]) Pop(f Fit) (v T, ok bool) {
	for i, p := range served {
		if r.passed[p] >= ageing && r.lines[p].len() > 0 {
			if at := r.lines[p].pick(&f); at >= 0 {
				return r.pop(i, at), true
			}
		}
	}
	for i, p := range served {
		l := &r.lines[p]
		if l.len() == 0 {
			continue
		}
		if at := l.pick(&f); at >= 0 {
			return r.pop(i, at), true
		}
		if l.overdue() {
			break
		}
	}
	return v, false
}

// pop takes the operation at an index of the view of the i-th line that is served.
func (r *Ready[T]) pop(i, at int) T {
	r.n--
	r.before = r.passed
	for _, higher := range served[:i] {
		r.lines[higher].picks++
	}
	r.passed[served[i]] = 0
	for _, lower := range served[i+1:] {
		if r.lines[lower].len() > 0 {
			r.passed[lower]++
		}
	}
	return r.lines[served[i]].take(at)
}

// Heads yields the first of each priority.
func (r *Ready[T]) Heads(yield func(T) bool) {
	for _, p := range served {
		if l := &r.lines[p]; l.len() > 0 && !yield(l.view[l.head].v) {
			return
		}
	}
}

// Take removes the first of the next n, in the order of service, that suits; ok is false if none does.
func (r *Ready[T]) Take(n int, suits func(T) bool) (v T, ok bool) {
	return r.take(served, n, suits)
}

// TakeLeast is Take from the lowest priority up, with n of each.
func (r *Ready[T]) TakeLeast(n int, suits func(T) bool) (v T, ok bool) {
	for i := range served {
		if v, ok = r.take([]Priority{served[len(served)-1-i]}, n, suits); ok {
			break
		}
	}
	return v, ok
}

func (r *Ready[T]) take(order []Priority, n int, suits func(T) bool) (v T, ok bool) {
	for _, p := range order {
		l := &r.lines[p]
		for i := l.head; i < len(l.view) && n > 0; i, n = i+1, n-1 {
			if suits(l.view[i].v) {
				r.n--
				return l.take(i), true
			}
		}
	}
	return v, false
}

// Lightest is the lightest weight, in tokens, that a pick could choose now; ok is false if the queue
// is empty. The dispatcher asks the limiter with it when nothing fits.
func (r *Ready[T]) Lightest() (tokens int64, ok bool) {
	tokens = math.MaxInt64
	for _, p := range served {
		l := &r.lines[p]
		switch {
		case l.len() == 0:
		case l.overdue():
			return min(tokens, l.view[l.head].w.Tokens), true
		default:
			tokens, ok = min(tokens, l.least().Tokens), true
		}
	}
	return tokens, ok
}

// Spread is a range that the tokens of what a pick could choose lie in; it may be wider than they are.
func (r *Ready[T]) Spread() (low, high int64) {
	low = math.MaxInt64
	for _, p := range served {
		if l := &r.lines[p]; l.len() > 0 {
			a, b := l.bounds()
			low, high = min(low, a), max(high, b)
		}
	}
	return low, high
}

// Each shows every operation, in order. It must not change the queue.
func (r *Ready[T]) Each(show func(T)) {
	for _, p := range served {
		l := &r.lines[p]
		for i := l.head; i < len(l.view); i++ {
			show(l.view[i].v)
		}
		for i := l.restHead; i < len(l.rest); i++ {
			show(l.rest[i].v)
		}
	}
}

// Drain takes everything, in order.
func (r *Ready[T]) Drain() []T {
	out := make([]T, 0, r.n)
	for _, p := range served {
		for r.lines[p].len() > 0 {
			out = append(out, r.lines[p].take(r.lines[p].head))
		}
	}
	r.n = 0
	return out
}
