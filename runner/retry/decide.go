package retry

import (
	"fmt"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// groups of classes by whose failure they are.
type kindGroup uint8

const (
	own       kindGroup = iota // the item's: never passes as it stands
	refusal                    // the server admits no more for now; nothing was done
	routeWide                  // the route's, if most attempts end so
	doubtful                   // an attempt whose answer did not come or was none
	sample                     // the model's: another sample may do
	fatal                      // the account's or the route's: nothing passes
	ignored                    // ours: says nothing of the route
)

func group(k provider.Kind) kindGroup {
	switch k {
	case provider.KindRateLimited, provider.KindSlowDown, provider.KindSharedPool, provider.KindConcurrency,
		provider.KindInFlightBudget, provider.KindDailyLimit:
		return refusal
	case provider.KindConnect, provider.KindConnectTimeout, provider.KindServer, provider.KindOverloaded,
		provider.KindBadGateway, provider.KindServerTimeout, provider.KindLoading:
		return routeWide
	case provider.KindTimeoutBeforeHeaders, provider.KindTimeoutMidBody, provider.KindTimeoutMidStream, provider.KindBroken,
		provider.KindTruncated, provider.KindBadContentType, provider.KindConflict, provider.KindOutcomeUnknown:
		return doubtful
	case provider.KindEmptyAnswer, provider.KindToolCallMalformed:
		return sample
	case provider.KindQuotaExhausted, provider.KindNoQuota, provider.KindAuth, provider.KindRegion,
		provider.KindModelNotFound, provider.KindTLS:
		return fatal
	case provider.KindNone, provider.KindLocal, provider.KindCancelled:
		return ignored
	default:
		return own
	}
}

// clientClosed is the status of a server that takes us for gone, which an
// answer that reached us belies.
const clientClosed = 499

// RouteWide reports the classes that are a failure of the route, if most of its
// attempts end so, and not of the operation.
func RouteWide(k provider.Kind) bool { return group(k) == routeWide }

// notSent reports the classes of a connection that never stood.
func notSent(k provider.Kind) bool {
	return k == provider.KindConnect || k == provider.KindConnectTimeout
}

// Decide says what becomes of an operation after a failed attempt, and brings
// s up to date. h must have observed e already; it may be shared by all
// operations of the route. never marks an operation that must not be sent
// again once a server may have worked on it. rnd returns numbers in [0,1).
func (p Policy) Decide(now time.Time, rnd func() float64, s *State, h *Health, e *provider.Error, never bool) Decision {
	p = p.OrDefaults()
	d := Decision{Kind: e.Kind, Reason: e.Error()}
	if d.Kind != provider.KindServer {
		s.Same, s.Server = 0, ""
	}
	if e.Unknown() && (never || p.HoldUnknown || e.Kind == provider.KindCancelled) {
		d.Action = Hold
		return d
	}
	g := group(e.Kind)
	if e.Kind == provider.KindCancelled && e.StatusCode == clientClosed {
		g = doubtful // the server's word, not ours
	}
	if never && e.Sent && (g == routeWide && e.Kind != provider.KindLoading || g == doubtful || g == sample) {
		d.Action = Hold
		return d
	}
	if e.Kind == provider.KindDailyLimit || e.HasRetryAfter && e.RetryAfter > p.MaxWait && (g == refusal || g == routeWide) {
		if d.Action, d.NotBefore = Park, comeBack(now, e); provider.Endless(d.NotBefore.Sub(now)) {
			d.NotBefore = time.Time{}
			d.Reason = "the wait that is asked for is longer than any sensible time: " + d.Reason
		}
		return d
	}
	switch g {
	case fatal, own:
		return p.permanent(now, rnd, s, h, e, d)
	case sample:
		if s.Empty++; s.Empty > allowed(e.Kind) {
			d.Action = DeadLetter
			return d
		}
		return p.counted(now, rnd, s, e, d)
	case refusal:
		return p.afterRefusal(now, rnd, s, h, e, d)
	case routeWide:
		return p.afterRouteFailure(now, rnd, s, h, e, d)
	case doubtful:
		return p.counted(now, rnd, s, e, d)
	default: // ignored
		if e.Kind == provider.KindCancelled {
			d.Action = Leave
			return d
		}
		return p.free(now, rnd, s, e, d)
	}
}

func allowed(k provider.Kind) int {
	if k == provider.KindToolCallMalformed {
		return recheckRetries
	}
	return emptyRetries
}

// comeBack is when a limit lets the route go on, as far as is known.
func comeBack(now time.Time, e *provider.Error) time.Time {
	switch {
	case !e.Reset.IsZero():
		return e.Reset
	case e.HasRetryAfter:
		return now.Add(e.RetryAfter)
	default:
		return time.Time{}
	}
}

// permanent ends the route or the item, but for the doubtful refusals that
// get one more try.
func (p Policy) permanent(now time.Time, rnd func() float64, s *State, h *Health, e *provider.Error, d Decision) Decision {
	recheck := e.Recheck && s.Rechecks < recheckRetries && (e.Kind != provider.KindAuth || h.passed > 0)
	switch {
	case recheck:
		s.Rechecks++
		if d = p.counted(now, rnd, s, e, d); e.Kind == provider.KindAuth && d.Action == Retry {
			// Nothing else leaves until it is known whether the key still holds.
			d.NotBefore = now.Add(recheckDelay)
			d.Pause = d.NotBefore
		}
		return d
	case group(e.Kind) == fatal:
		// A Retry-After says nothing here: waiting pays no bill.
		d.Action, d.NotBefore = Stop, e.Reset
	case h.badTemplate():
		d.Action = Stop
		d.Reason = fmt.Sprintf("the first %d operations all failed alike: %s", h.alike, e.Error())
	default:
		d.Action = DeadLetter
	}
	return d
}

// afterRefusal waits for the server's reset, if it named one, at no cost to the
// item; the whole route waits.
func (p Policy) afterRefusal(now time.Time, rnd func() float64, s *State, h *Health, e *provider.Error, d Decision) Decision {
	if !h.refused.IsZero() && now.Sub(h.refused) >= p.MaxOutage {
		d.Action = Stop
		d.Reason = fmt.Sprintf("nothing but refusals for %s: %s", now.Sub(h.refused).Round(time.Second), e.Error())
		return d
	}
	if e.HasRetryAfter && e.RetryAfter > 0 {
		d = p.free(now, rnd, s, e, d)
		d.Pause = now.Add(e.RetryAfter)
	} else if d = p.counted(now, rnd, s, e, d); d.Action == Retry && e.Kind != provider.KindConcurrency {
		d.Pause = d.NotBefore
	}
	return d
}

// afterRouteFailure pauses a route that is down at no cost to the item, and
// stops it after too long; else the failure is the item's.
func (p Policy) afterRouteFailure(now time.Time, rnd func() float64, s *State, h *Health, e *provider.Error, d Decision) Decision {
	down := h.Down() && !s.Suspect(e.Kind) || e.Kind == provider.KindLoading
	if out := now.Sub(h.failing); down && !h.failing.IsZero() && out >= p.MaxOutage {
		d.Action = Stop
		d.Reason = fmt.Sprintf("no success for %s: %s", out.Round(time.Second), e.Error())
		return d
	}
	if down && !s.freeSpent(now, p) {
		probe := !now.Before(h.until)
		d.Pause = h.pause(now, rnd, p)
		if hinted := now.Add(hint(rnd, e)); hinted.After(d.Pause) {
			d.Pause = hinted
		}
		s.Free++
		// The one that begins a pause goes right after it, so that the last probe goes
		// when the outage has lasted too long, and no later.
		if d.Action, d.NotBefore = Retry, d.Pause; !probe {
			d.NotBefore = d.Pause.Add(time.Duration(rnd() * float64(p.ceiling(h.pauses)) / 2))
		}
		return d
	}
	if h.passed > s.passed && !notSent(e.Kind) {
		s.Own, s.passed = s.Own+1, h.passed
	}
	if e.Kind == provider.KindServer {
		sign := fmt.Sprint(e.StatusCode, " ", e.Code, " ", e.Message)
		if sign != s.Server {
			s.Same, s.Server = 0, sign
		}
		if s.Same++; s.Same >= sameServer {
			d.Action = DeadLetter
			d.Reason = fmt.Sprintf("%d identical server errors: %s", s.Same, e.Error())
			return d
		}
	}
	return p.counted(now, rnd, s, e, d)
}

// freeSpent reports that the item has failed at no cost for as long as an
// outage may last: one that fails while others pass must end some time.
func (s *State) freeSpent(now time.Time, p Policy) bool {
	if s.FreeSince.IsZero() {
		s.FreeSince = now
	}
	return now.Sub(s.FreeSince) >= p.MaxOutage
}

// free tries again without counting the attempt, until freeSpent.
func (p Policy) free(now time.Time, rnd func() float64, s *State, e *provider.Error, d Decision) Decision {
	if s.freeSpent(now, p) {
		return p.counted(now, rnd, s, e, d)
	}
	backoff := time.Duration(rnd() * float64(p.ceiling(s.Free)))
	s.Free++
	d.Action, d.NotBefore = Retry, now.Add(max(backoff, hint(rnd, e)))
	return d
}

// counted tries again after backoff, if attempts and time are left.
func (p Policy) counted(now time.Time, rnd func() float64, s *State, e *provider.Error, d Decision) Decision {
	s.Attempts++
	s.Free = 0
	backoff := time.Duration(rnd() * float64(p.ceiling(s.Attempts-1)))
	if s.Attempts >= p.MaxAttempts || s.Backoff+backoff > p.MaxTotal {
		d.Action = DeadLetter
		d.Reason = fmt.Sprintf("given up after attempt %d: %s", s.Attempts, e.Error())
		if e.Unknown() {
			d.Kind = provider.KindOutcomeUnknown
		}
		return d
	}
	s.Backoff += backoff
	d.Action, d.NotBefore = Retry, now.Add(max(backoff, hint(rnd, e)))
	if e.Unknown() {
		// An answer may still be on its way to a store that the key finds.
		if ready := e.SentAt.Add(ReconcileDelay); ready.After(d.NotBefore) {
			d.NotBefore = ready
		}
	}
	return d
}

// hint is the server's lower bound with up to a tenth added, or 0.
func hint(rnd func() float64, e *provider.Error) time.Duration {
	if !e.HasRetryAfter {
		return 0
	}
	return e.RetryAfter + time.Duration(rnd()*spread*float64(e.RetryAfter))
}
