package limit

import (
	"slices"
	"time"
)

// Horizon is how long it takes until the last of so much is answered, if calls go as soon as limits,
// pace and ceiling allow and take the given time each. It takes what is left for evenly spread over
// the requests, and knows nothing of refusals to come. Nothing is taken by it.
func (l *Limiter) Horizon(now time.Time, left Cost, trip time.Duration) time.Duration {
	at := l.tick(now)
	start := at
	if until, why := l.paused(); why != Granted && until < at+int64(far) {
		start = until
	}
	rtt := int64(trip)
	if left.Requests <= 0 {
		return time.Duration(start - at)
	}
	spread := 0.0
	if !l.even && (rtt > 0 || l.b[dReq].limit() > 0) {
		spread = float64(l.spacing())
	}
	end := start + min(int64(spread*float64(left.Requests)), int64(far))
	for d, n := range left.amounts() {
		if b := &l.b[d]; n > 0 && !b.none() {
			end = max(end, b.horizon(start, n, n/left.Requests, spread*float64(left.Requests)/float64(n), l.scale, l.burst(d)))
		}
	}
	return time.Duration(min(max(float64(end+rtt), l.answered(start, left.Requests, rtt))-float64(at), float64(far)))
}

// horizon is when the last of n may be taken, one at a time and each after a spread.
func (b *budget) horizon(start, n, each int64, spread, scale float64, burst int64) int64 {
	end := start
	reach := func(at float64) { end = max(end, int64(min(at, float64(start+int64(far))))) }
	if gap := b.gap(scale, burst); gap > 0 {
		reach(float64(max(start, b.due(scale, burst))) + gap*float64(n-1))
	}
	most := b.limit()
	switch {
	case most == 0:
	case b.bucket():
		reach(float64(start) + float64(n-max(b.room(start), 0))/float64(most)*float64(b.span))
	default:
		if each > 0 && each < most {
			most = most / each * each // what is left of a window takes no other
		}
		reach(b.window(start, n, most, spread))
	}
	if room, said := b.srv.room(start, b.span, b.sent, b.log.sum, b.wire); said && !b.bucket() {
		if lack := min(n, max(most, 1)) - (room - b.held); lack > 0 {
			reach(float64(b.srv.opens(start, b.span, lack, &b.log)))
		}
	}
	return end
}

// window is when the last of n enters the rolling window of most. What leaves it makes room for as
// much, which leaves a span later in turn: so the pattern of the log comes again and again.
func (b *budget) window(start, n, most int64, spread float64) float64 {
	over := n + b.use() - most
	if over <= 0 {
		return float64(start) + spread*float64(n)
	}
	turns := (over - 1) / most
	first := over - turns*most
	at := float64(max(b.log.frees(min(first, b.log.sum)), start))
	if first > b.log.sum {
		// Behind what is about to be sent.
		at = float64(start+b.log.hold) + spread*float64(first-b.log.sum)
	}
	return at + float64(turns)*float64(b.log.hold)
}

// answered is when the last of n more calls is answered, if nothing but the ceiling holds them back: a
// call goes when another ends, and so the pattern of those on the wire comes again and again.
func (l *Limiter) answered(start, n, trip int64) float64 {
	c := l.conc
	if c.slow && c.stuckAt == 0 && c.ceiling < float64(c.max) {
		return float64(start) + c.trips(n)*float64(trip)
	}
	var sent []int64
	for i := range l.tickets {
		switch t := &l.tickets[i]; {
		case !t.live:
		case t.onWire:
			sent = append(sent, t.sentAt)
		default:
			sent = append(sent, t.gotAt)
		}
	}
	slices.Sort(sent)
	at := int64(c.ceiling)
	after := n + int64(len(sent)) - at // so many have to end before the last may go
	if after <= 0 {
		return float64(start + trip)
	}
	end := start + trip
	if i := (after - 1) % at; i < int64(len(sent)) {
		end = max(sent[i]+trip, start)
	}
	return float64(end+trip) + float64((after-1)/at)*float64(trip)
}

// trips is how many round trips it takes until n more calls are answered, while the ceiling doubles.
func (c *Concurrency) trips(n int64) (trips float64) {
	left, at := float64(n+int64(c.wire)), c.ceiling
	for left > at && at < float64(c.max) {
		left -= at
		trips++
		at = min(2*at, float64(c.max))
	}
	return max(trips+left/at, 1)
}
