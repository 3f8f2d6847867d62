package route

import (
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/retry"
)

const (
	breakerRun    = 5  // failures in a row that open it
	breakerRecent = 20 // outcomes of which half must be failures, too
	probeFirst    = time.Second
	probeMost     = 30 * time.Second
)

// BreakerState is what a Breaker lets through.
type BreakerState uint8

// The states.
const (
	Closed   BreakerState = iota // everything
	Open                         // nothing
	HalfOpen                     // one call, the probe
)

// Breaker keeps calls away from a target that fails. It opens at five failures
// in a row that are also half of the last twenty outcomes. After a second one
// probe may go; each that fails doubles the wait, up to 30 s, and one that gets
// any answer closes the breaker.
//
// Only failures of the route count. An answer that refuses or rejects a request
// shows a server that is alive; a call that was lost on the way shows nothing,
// but for a probe, which has then failed.
//
// The zero value is closed. Not safe for concurrent use: the dispatcher owns it.
type Breaker struct {
	ring  [breakerRecent]bool // true = a failure
	seen  int                 // outcomes ever put into it
	bad   int                 // trues in ring
	run   int                 // failures in a row
	state BreakerState
	since time.Time // of the last change: calls granted before it tell nothing new
	wait  time.Duration
	until time.Time // Open: when a probe may go
}

// State tells what the breaker lets through at now. While a probe is out, that
// is nothing.
func (b *Breaker) State(now time.Time) BreakerState {
	switch {
	case b.state == Closed:
		return Closed
	case b.state == Open && !now.Before(b.until):
		return HalfOpen
	default:
		return Open
	}
}

// Until is when the next probe may go; zero if the breaker is closed or a probe
// is out.
func (b *Breaker) Until() time.Time {
	if b.state != Open {
		return time.Time{}
	}
	return b.until
}

// Allow reports whether a call may go now. After a grant the outcome must be
// observed: an open breaker waits for that of its probe. Calls that came to
// nothing are observed as cancelled.
func (b *Breaker) Allow(now time.Time) bool {
	switch b.State(now) {
	case Closed:
		return true
	case HalfOpen:
		b.state, b.since = HalfOpen, now
		return true
	default:
		return false
	}
}

// Observe records the outcome of a call that was granted at a certain time;
// KindNone is a success. Outcomes of calls from before the breaker's last change
// are ignored.
func (b *Breaker) Observe(now, granted time.Time, kind provider.Kind) {
	if granted.Before(b.since) || b.state == Open {
		return
	}
	bad, alive := retry.RouteWide(kind), answered(kind)
	if b.state == HalfOpen {
		switch {
		case alive:
			*b = Breaker{since: now}
		case kind == provider.KindCancelled, kind == provider.KindLocal:
			b.state = Open // it was no probe: another may go at once
		default:
			b.open(now, min(2*b.wait, probeMost))
		}
		return
	}
	if !bad && !alive {
		return
	}
	b.push(bad)
	if bad {
		b.run++
	} else {
		b.run = 0
	}
	if b.run >= breakerRun && 2*b.bad >= min(b.seen, breakerRecent) {
		b.open(now, probeFirst)
	}
}

// Hurry lets the next probe go at a certain time, if that is ahead and it would go
// later.
func (b *Breaker) Hurry(now, by time.Time) {
	if b.state == Open && by.After(now) && by.Before(b.until) {
		b.until = by
	}
}

func (b *Breaker) open(now time.Time, wait time.Duration) {
	b.state, b.since, b.wait, b.until = Open, now, wait, now.Add(wait)
}

func (b *Breaker) push(bad bool) {
	slot := &b.ring[b.seen%breakerRecent]
	if *slot {
		b.bad--
	}
	if bad {
		b.bad++
	}
	*slot = bad
	b.seen++
}

// answered reports the classes in which the server itself has spoken, and is
// not down: nothing was lost, and nothing failed on this machine.
func answered(k provider.Kind) bool {
	switch k {
	case provider.KindCancelled, provider.KindLocal, provider.KindTLS,
		provider.KindTimeoutBeforeHeaders, provider.KindTimeoutMidBody, provider.KindTimeoutMidStream,
		provider.KindBroken, provider.KindTruncated, provider.KindBadContentType, provider.KindOutcomeUnknown:
		return false
	default:
		return !retry.RouteWide(k)
	}
}
