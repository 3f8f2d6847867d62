package fake

import (
	"math"
	"sort"
)

// A window keeps one limit. Times are nanoseconds since the Unix epoch and never go back. Not safe for concurrent use.
type window interface {
	// wait says how long until n fits; 0 = it fits now.
	wait(now, n int64) int64
	take(now, n int64)
	// giveBack returns n of what was taken at the moment at, as far as that still counts.
	giveBack(now, at, n int64)
	left(now int64) int64
	// full says how long until the whole limit is free again.
	full(now int64) int64
}

// eps absorbs the rounding of the float credits: they stay below 2^31, where a float64 is exact to 2^-21.
const eps = 1e-6

// bucket is a token bucket with continuous refill.
type bucket struct {
	rate, capacity, level float64 // rate a nanosecond
	floor                 float64 // lowest level: below zero, what was taken beyond it is owed
	last                  int64
}

func newBucket(limit, capacity, length, now int64) *bucket {
	return &bucket{rate: float64(limit) / float64(length), capacity: float64(capacity), level: float64(capacity), last: now}
}

func (b *bucket) refill(now int64) {
	b.level = min(b.capacity, b.level+float64(now-b.last)*b.rate)
	b.last = now
}

func (b *bucket) wait(now, n int64) int64 {
	b.refill(now)
	return b.until(float64(n))
}

func (b *bucket) until(n float64) int64 {
	if b.level+eps >= n {
		return 0
	}
	return int64(math.Ceil((n - b.level) / b.rate))
}

func (b *bucket) take(now, n int64) {
	b.refill(now)
	b.level = max(b.floor, b.level-float64(n))
}

func (b *bucket) giveBack(now, _, n int64) {
	b.refill(now)
	b.level = min(b.capacity, b.level+float64(n))
}

func (b *bucket) left(now int64) int64 {
	b.refill(now)
	return max(0, int64(b.level+eps))
}

func (b *bucket) full(now int64) int64 {
	b.refill(now)
	return b.until(b.capacity)
}

// fixed counts anew in each window.
type fixed struct {
	limit, length, phase int64
	atFirst              bool
	start, used          int64
}

func (f *fixed) roll(now int64) {
	if now < f.start+f.length {
		return
	}
	f.used = 0
	if !f.atFirst {
		f.start = now - (now-f.phase)%f.length
	}
}

func (f *fixed) wait(now, n int64) int64 {
	f.roll(now)
	if f.used+n <= f.limit {
		return 0
	}
	return f.start + f.length - now
}

func (f *fixed) take(now, n int64) {
	f.roll(now)
	if now >= f.start+f.length { // atFirst: this call opens the window
		f.start = now
	}
	f.used += n
}

func (f *fixed) giveBack(now, at, n int64) {
	f.roll(now)
	if at >= f.start {
		f.used = max(0, f.used-n)
	}
}

func (f *fixed) left(now int64) int64 {
	f.roll(now)
	return max(0, f.limit-f.used)
}

func (f *fixed) full(now int64) int64 {
	f.roll(now)
	if f.used == 0 {
		return 0
	}
	return f.start + f.length - now
}

// sliding is the exact rolling log.
type sliding struct {
	limit int64
	log   rolling
}

func (s *sliding) wait(now, n int64) int64 {
	s.log.expire(now)
	over := s.log.sum + n - s.limit
	if over <= 0 {
		return 0
	}
	for i := s.log.head; i < len(s.log.events); i++ {
		if over -= s.log.events[i].n; over <= 0 {
			return s.log.events[i].at + s.log.length - now
		}
	}
	return s.full(now)
}

func (s *sliding) take(now, n int64) { s.log.add(now, n) }

func (s *sliding) giveBack(now, at, n int64) {
	s.log.expire(now)
	live := s.log.events[s.log.head:]
	i := sort.Search(len(live), func(i int) bool { return live[i].at >= at })
	if i < len(live) && at > now-s.log.length {
		n = min(n, live[i].n)
		live[i].n -= n
		s.log.sum -= n
	}
}

func (s *sliding) left(now int64) int64 {
	s.log.expire(now)
	return max(0, s.limit-s.log.sum)
}

func (s *sliding) full(now int64) int64 {
	s.log.expire(now)
	if s.log.sum == 0 {
		return 0
	}
	return s.log.events[len(s.log.events)-1].at + s.log.length - now
}

// sliced keeps the limit in short slices; the rule is at the constant Slices.
type sliced struct {
	share, top float64 // credit a slice gets, and what it may hold: the next whole unit
	length     int64
	credit     float64
	index      int64
	minute     fixed // what the headers state
}

func newSlices(limit, length, slice, now int64) *sliced {
	share := float64(limit) * float64(slice) / float64(length)
	top := math.Ceil(share - eps)
	return &sliced{share: share, top: top, length: slice, credit: top, index: now / slice, minute: fixed{limit: limit, length: length}}
}

func (s *sliced) roll(now int64) {
	i := now / s.length
	s.credit = min(s.top, s.credit+float64(i-s.index)*s.share)
	s.index = i
}

func (s *sliced) wait(now, n int64) int64 {
	s.roll(now)
	need := min(float64(n), s.top)
	if s.credit+eps >= need {
		return 0
	}
	k := int64(math.Ceil((need-s.credit)/s.share - eps))
	return (s.index+max(k, 1))*s.length - now
}

func (s *sliced) take(now, n int64) {
	s.roll(now)
	s.credit -= float64(n)
	s.minute.take(now, n)
}

func (s *sliced) giveBack(now, at, n int64) {
	s.roll(now)
	if at >= s.index*s.length { // later slices have had their own credit
		s.credit = min(s.top, s.credit+float64(n))
	}
	s.minute.giveBack(now, at, n)
}

func (s *sliced) left(now int64) int64 { return s.minute.left(now) }
func (s *sliced) full(now int64) int64 { return s.minute.full(now) }
