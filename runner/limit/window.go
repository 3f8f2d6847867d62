package limit

import (
	"slices"
	"sort"
)

// slot is charges that leave the window together.
type slot struct {
	first int64 // when the earliest of them could have left
	until int64 // when the latest of them leaves, and so all of them do
	n     int64
}

// window is a log of charges, each of which counts until hold after it was sent. Charges that were
// sent within one grain share a slot and leave with its last one: later than they might, never
// sooner. So the log holds at most hold/grain slots, whatever the rate, and adding and expiring
// are amortised O(1).
type window struct {
	hold, grain int64 // nanoseconds
	slots       []slot
	head        int   // slots before it have left
	base        int64 // sequence number of slots[0]
	sum         int64
}

// add logs n as sent at the time at and returns the number of its slot. A time older than the last
// one counts as the last one.
func (w *window) add(at, n int64) int64 {
	until := at + w.hold
	if last := len(w.slots) - 1; last >= w.head {
		s := &w.slots[last]
		until = max(until, s.until)
		if until-s.first <= w.grain {
			s.until, s.n, w.sum = until, s.n+n, w.sum+n
			return w.base + int64(last)
		}
	}
	w.slots = append(w.slots, slot{until, until, n})
	w.sum += n
	return w.base + int64(len(w.slots)-1)
}

// seed logs a charge of any age. It renumbers slots, so it belongs before the first add.
func (w *window) seed(at, n int64) {
	until := at + w.hold
	live := w.slots[w.head:]
	i := w.head + sort.Search(len(live), func(i int) bool { return live[i].until >= until })
	w.sum += n
	if i < len(w.slots) && w.slots[i].until-until <= w.grain {
		w.slots[i].n += n
		return
	}
	w.slots = slices.Insert(w.slots, i, slot{until, until, n})
}

// expire lets go of what has left the window by now.
func (w *window) expire(now int64) {
	for w.head < len(w.slots) && w.slots[w.head].until <= now {
		w.sum -= w.slots[w.head].n
		w.head++
	}
	if w.head == len(w.slots) || w.head >= 256 && 2*w.head >= len(w.slots) {
		w.base += int64(w.head)
		w.slots = w.slots[:copy(w.slots, w.slots[w.head:])]
		w.head = 0
	}
}

// since is what was sent after the time at, or shortly before it.
func (w *window) since(at int64) (n int64) {
	for i := len(w.slots) - 1; i >= w.head && w.slots[i].until > at+w.hold; i-- {
		n += w.slots[i].n
	}
	return n
}

// adjust changes the charge logged under seq; false if it has left the window.
func (w *window) adjust(seq, delta int64) bool {
	i := int(seq - w.base)
	if i < w.head || i >= len(w.slots) {
		return false
	}
	delta = max(delta, -w.slots[i].n)
	w.slots[i].n += delta
	w.sum += delta
	return true
}

// frees says when at least need of the log will have left; never if there is not so much in it.
func (w *window) frees(need int64) int64 {
	for _, s := range w.slots[w.head:] {
		if need -= s.n; need <= 0 {
			return s.until
		}
	}
	return never
}

// clear forgets everything.
func (w *window) clear() {
	w.base += int64(len(w.slots))
	w.slots, w.head, w.sum = w.slots[:0], 0, 0
}
