package fake

// rolling sums what happened in the last length: an event counts in the half-open window (now-length, now], so two
// events exactly one length apart are never in one window. It is exact as long as fewer than exactEvents moments lie in
// a window; beyond that, events within a millisecond are kept as one at the time of the last, which can overstate a
// peak by what happened in that millisecond and never understates it. The zero value with a length is ready.
type rolling struct {
	length int64
	events []event // events[head:] are live
	head   int
	sum    int64
	peak   int64 // largest sum seen
	opened int64 // first moment of the last event, when it stands for several
}

type event struct{ at, n int64 }

const (
	exactEvents = 1 << 18
	coarse      = 1_000_000 // ns
)

func (r *rolling) add(now, n int64) {
	r.expire(now)
	last := len(r.events) - 1
	merge := last >= r.head && (r.events[last].at == now || last-r.head >= exactEvents && now-r.opened < coarse)
	if merge {
		r.events[last].at = now
		r.events[last].n += n
	} else {
		r.events = append(r.events, event{now, n})
		r.opened = now
	}
	r.sum += n
	r.peak = max(r.peak, r.sum)
}

func (r *rolling) expire(now int64) {
	for r.head < len(r.events) && r.events[r.head].at <= now-r.length {
		r.sum -= r.events[r.head].n
		r.head++
	}
	if r.head > 1024 && r.head*2 > len(r.events) { // more dead than live: move the live ones to the front
		n := copy(r.events, r.events[r.head:])
		r.events, r.head = r.events[:n], 0
	}
}
