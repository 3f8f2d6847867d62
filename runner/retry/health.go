package retry

import (
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// recent is the number of outcomes that tell a route's health.
const recent = 20

// Health follows the outcomes of one route. The zero value is a route not yet
// tried. Not safe for concurrent use: the dispatcher owns it.
type Health struct {
	ring   [recent]bool // true = a failure of the route
	seen   int          // outcomes ever observed
	bad    int          // trues in ring
	lost   int          // connect failures among the last outcomes, up to the last answer of any kind
	passed int          // successes ever

	failing time.Time // first failure of the route since the last success; zero = none
	refused time.Time // first refusal since the last success; zero = none
	pauses  int       // pauses of this outage
	until   time.Time // end of the last pause

	alike    int // items that failed alike with nothing else before them
	template string
	mixed    bool // something else has happened
}

// Observe records the outcome of one attempt: nil is a success. Call it once
// an attempt, ahead of Decide.
func (h *Health) Observe(now time.Time, e *provider.Error) {
	if e == nil {
		*h = Health{ring: h.ring, seen: h.seen, bad: h.bad, passed: h.passed + 1, mixed: true}
		h.push(false)
		return
	}
	switch group(e.Kind) {
	case routeWide:
		if h.failing.IsZero() {
			h.failing = now
		}
		if notSent(e.Kind) {
			h.lost++
		} else {
			h.lost = 0
		}
		h.push(true)
	case refusal:
		if h.refused.IsZero() {
			h.refused = now
		}
		h.lost = 0
		h.push(false)
	case ignored:
	default:
		h.lost = 0
		h.push(false)
		h.countAlike(e)
	}
}

func (h *Health) push(bad bool) {
	slot := &h.ring[h.seen%recent]
	if *slot {
		h.bad--
	}
	if bad {
		h.bad++
	}
	*slot = bad
	h.seen++
}

// countAlike counts the items that fail alike from the first on.
func (h *Health) countAlike(e *provider.Error) {
	switch e.Kind {
	case provider.KindInvalid, provider.KindUnsupportedParam, provider.KindRedirectRefused, provider.KindOther:
	default:
		h.mixed = true
		return
	}
	sign := e.Kind.String() + " " + e.Code
	if h.template != "" && h.template != sign {
		h.mixed = true
	}
	h.template = sign
	h.alike++
}

// badTemplate reports that the first items have all failed alike.
func (h *Health) badTemplate() bool { return !h.mixed && h.alike >= alikeItems }

// Down reports that failures are the route's and not the items': most of the
// last 20 outcomes, or, where nothing could even be sent, all so far or the
// last few.
func (h *Health) Down() bool {
	return h.bad > recent/2 || h.lost > 0 && (h.lost == h.seen || h.lost >= 3)
}

// pause returns until when a route that is down rests. All failures that come
// in during a pause share it; each pause after that may be longer, but for the
// last: it ends with the time that an outage may take.
func (h *Health) pause(now time.Time, rnd func() float64, p Policy) time.Time {
	if now.Before(h.until) {
		return h.until
	}
	// Never shorter than half: the one probe after it should have a chance.
	c := p.ceiling(h.pauses + 1)
	h.pauses++
	h.until = h.within(now, now.Add(c/2+time.Duration(rnd()*float64(c/2))), p)
	return h.until
}

// Tried reports that an attempt has ended.
func (h *Health) Tried() bool { return h.seen > 0 }

// End is when the present outage has lasted too long; zero = there is none.
func (h *Health) End(p Policy) time.Time {
	if h.failing.IsZero() {
		return time.Time{}
	}
	return h.failing.Add(p.OrDefaults().MaxOutage)
}

// within is at, or the end of the time that an outage may take if that is ahead
// and comes first.
func (h *Health) within(now, at time.Time, p Policy) time.Time {
	if end := h.End(p); end.After(now) && end.Before(at) {
		return end
	}
	return at
}
