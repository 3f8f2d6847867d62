package limit

import (
	"time"
)

// Outcome is how a call ended, as far as limits are concerned. The zero Outcome is a success.
type Outcome uint8

const (
	OK             Outcome = iota
	Failed                 // no success, but nothing to do with limits
	RateLimit              // more than the server's limit of a minute
	SlowDown               // the rate rose too fast: halve it, grow by half in 15 minutes at most
	Concurrent             // too many calls at once
	InFlightBudget         // the open calls together are too dear
	Day                    // the day's quota is used up
	SharedPool             // the pool behind the server is full, whoever filled it
	Overloaded             // the server is overloaded
)

// refused says that the server turned the call away on account of a limit.
func (o Outcome) refused() bool { return o >= RateLimit }

// Answer is what a call's end tells the limiter.
type Answer struct {
	Outcome    Outcome
	RetryAfter time.Duration // the server's hint, a lower bound; counts if Hinted
	Hinted     bool
	Reset      time.Time // of a Day refusal; zero = not said
	Used       Cost      // what the call really cost; counts if Known
	Known      bool
	Report     Report
	Call       Call // for Follow: what the call may have been charged
}

const (
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 30 * time.Second
	// distant is a hint that no burst limit would give: that window is spent.
	distant = 10 * time.Second
)

// episode is the state of the limiter's pauses. All refusals of the calls that were out when the
// first one came are one episode, however many they are.
type episode struct {
	epoch     uint32 // the episode's number; calls carry the one in which they were reserved
	streak    int    // episodes since the last success
	until     int64  // end of the pause
	wall      time.Time
	why       Reason // Granted = no pause
	probing   probing
	patience  int64 // how long an unanswered probe holds the others
	probeEnds int64
}

// probing is the state of the one call that goes first after a pause.
type probing uint8

const (
	noProbe probing = iota
	probeDue
	probeOut
)

// paused is the pause in force, and the probe after it.
func (l *Limiter) paused() (int64, Reason) {
	switch {
	case l.why != Granted:
		return l.until, l.why
	case l.probing == probeOut && l.now < l.probeEnds:
		return l.probeEnds, BehindProbe
	}
	return 0, Granted
}

// expirePause ends a pause when its time has come by the monotonic or by the wall clock: after a
// suspend the first may be late, and one probe too early does no harm.
func (l *Limiter) expirePause(now time.Time) {
	if l.why != Granted && (l.now >= l.until || !now.Round(0).Before(l.wall)) {
		if l.why == UntilNewDay {
			l.b[dReqDay].log.clear()
			l.b[dTokDay].log.clear()
		}
		l.why, l.probing = Granted, probeDue
		l.punctual()
	}
	if l.probing == probeOut && l.now >= l.probeEnds {
		l.probed()
	}
}

// punctual says that the even pace has nothing to catch up with: a pause is no lateness.
func (l *Limiter) punctual() {
	for d := range l.b {
		l.b[d].tat = max(l.b[d].tat, l.now)
	}
}

// pause stops everything until the given time, or later if a pause in force ends later.
func (l *Limiter) pause(now time.Time, d time.Duration, why Reason) {
	d = min(max(d, 0), longest)
	if until := l.now + int64(d); l.why == Granted || until > l.until {
		l.until, l.wall, l.why = until, now.Round(0).Add(d), why
	}
}

func (l *Limiter) takeProbe() bool {
	if l.probing != probeDue {
		return false
	}
	l.probing, l.probeEnds = probeOut, never
	return true
}

// probeSent bounds the wait for a probe's answer: refusals come fast, answers of models slowly.
func (l *Limiter) probeSent(at int64) { l.probeEnds = at + l.patience }

// probed lets the others go after a probe, at the pace and not in a burst.
func (l *Limiter) probed() {
	l.probing = noProbe
	l.punctual()
}

func (l *Limiter) probeLost() {
	if l.probing == probeOut {
		l.probing = probeDue
	}
}

// succeeded is called with each answer that is a success.
func (l *Limiter) succeeded(r *ticket, at int64) {
	if r.probe && l.probing == probeOut {
		l.probed()
	}
	if r.epoch == l.epoch {
		l.streak = 0
		l.ease -= l.ease / easing
	}
	// More than two slices of a second could hold: the server does not count in slices.
	if n := l.b[dReq].limit(); n > 0 && r.second*60 > 2*n+60 {
		l.bursts = true
	}
	l.conc.succeeded(r.sentAt, at)
	l.grow(l.now)
}

// failed is called with each answer that is none.
func (l *Limiter) failed(now time.Time, r *ticket, a *Answer) {
	if !a.Outcome.refused() {
		if r.probe && l.probing == probeOut {
			l.probed()
		}
		return
	}
	l.patience = min(max(3*(l.now-r.sentAt), int64(250*time.Millisecond)), int64(2*time.Second))
	switch a.Outcome {
	case Concurrent, InFlightBudget, Overloaded:
		if a.Outcome == Overloaded {
			l.conc.overloaded(l.now)
		} else {
			l.conc.cut(l.now, 0.8)
		}
		if a.Hinted && a.RetryAfter > 0 {
			l.pause(now, l.jitter(a.RetryAfter), AfterHint)
		}
		if r.probe {
			l.probeLost()
		}
		return
	case Day:
		l.epoch++
		l.pause(now, dayPause(now, a), UntilNewDay)
		return
	}
	fresh := r.epoch == l.epoch
	if fresh {
		l.epoch++
		l.streak++
	}
	hint, hinted := l.hint(a)
	switch {
	case hinted:
		l.pause(now, l.jitter(hint), AfterHint)
	case fresh:
		l.pause(now, l.backoff(), AfterRefusal)
	}
	if fresh && a.Outcome != SharedPool {
		l.slower(r, a, hint)
	}
}

// hint is the server's own word on when to come back: the hint, else the reset of a window with
// nothing left (unless that is only when a bucket will be full). Refused again and again, our own
// backoff is the other bound.
func (l *Limiter) hint(a *Answer) (time.Duration, bool) {
	hint, hinted := a.RetryAfter, a.Hinted && a.RetryAfter > 0
	if !hinted {
		for d, w := range a.Report.windows() {
			if w.said() && w.Remaining == 0 && w.ResetAfter > 0 && l.b[d].srv.refill != continuous {
				hint, hinted = max(hint, w.ResetAfter), true
			}
		}
	}
	if hinted && l.streak > 1 {
		hint = max(hint, l.backoff())
	}
	return hint, hinted
}

// jitter spreads the end of a wait over a tenth of it.
func (l *Limiter) jitter(d time.Duration) time.Duration {
	d = min(max(d, 0), longest)
	return d + time.Duration(l.random()*float64(d)/10)
}

// backoff is full jitter over a bound that doubles with each episode.
func (l *Limiter) backoff() time.Duration {
	bound := lastBackoff
	if n := max(l.streak-1, 0); n < 6 {
		bound = min(firstBackoff<<n, lastBackoff)
	}
	return time.Duration(l.random() * float64(bound))
}

func (l *Limiter) random() float64 {
	if l.cfg.Rand == nil {
		return 0.5
	}
	return l.cfg.Rand.Float64()
}

// dayPause is how long a spent day's quota parks the limiter: to the reset, to the hint, or to the
// next midnight UTC, when most providers start a new day.
func dayPause(now time.Time, a *Answer) time.Duration {
	switch {
	case !a.Reset.IsZero():
		return max(a.Reset.Sub(now.Round(0)), time.Second)
	case a.Hinted && a.RetryAfter > 0:
		return a.RetryAfter
	}
	u := now.UTC()
	midnight := time.Date(u.Year(), u.Month(), u.Day()+1, 0, 0, 0, 0, time.UTC)
	return midnight.Sub(u.Round(0))
}
