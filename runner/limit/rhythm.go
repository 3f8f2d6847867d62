package limit

import "time"

const (
	// steadily is how long an even pace at a stated limit runs before it is tried higher.
	steadily = int64(time.Minute)
	// quickly is the same for a pace that no one stated.
	quickly = int64(15 * time.Second)
	// soon is how long after the first refusal the next one tells how fast the server makes room: no window of
	// a minute is likely to have ended between the two.
	soon      = int64(10 * time.Second)
	firstStep = 0.05
	lastStep  = 0.5
	// slowStep a minute is half as much again in 15 minutes, the growth that slow_down asks for.
	slowStep = 0.0274
	// easing is the share of the gap between sends that a success takes away after the first refusal.
	easing = 32
)

// rhythm is the even pace: the scale of every evenly paced budget's base, and how it grows. It is
// off while no budget has a base.
type rhythm struct {
	even   bool
	slow   bool // after SlowDown
	scale  float64
	step   float64
	bad    float64 // the scale at which it was refused last; 0 = never
	every  int64
	since  int64 // of the last change
	good   int   // successes since then
	bound  bool  // the pace held something back since then
	strike int64 // when a refusal came that no burst explains; 0 = none
	mark   mark  // of the first refusal, while the pace after it comes of it
	ease   int64 // the least time between two sends since then
}

// mark is a moment at which the server had no room left. The zero mark is none.
type mark struct {
	at       int64 // when the refused call was sent
	admitted int64 // requests before it
}

func (r *rhythm) reset() { r.scale, r.step, r.every = evenly, firstStep, steadily }

// stretch starts a new stretch at the present scale.
func (r *rhythm) stretch(now int64) { r.since, r.good, r.bound = now, 0, false }

// grow raises the pace after a stretch that only knew successes and in which the pace was what
// bound. Steps double while nothing is refused; towards a scale that was refused they halve the rest.
func (l *Limiter) grow(now int64) {
	if !l.even {
		return
	}
	l.good++
	if now-l.since < l.every || l.good < 5 || !l.bound {
		return
	}
	up := l.scale * (1 + l.step)
	if l.slow {
		up = l.scale * (1 + slowStep)
	} else if l.bad > l.scale*1.01 && up > l.bad {
		up = (l.scale + l.bad) / 2
	}
	l.step = min(2*l.step, lastStep)
	l.scale = up
	l.stretch(now)
}

// slower is told of the first refusal of an episode and decides the pace that follows.
func (l *Limiter) slower(r *ticket, a *Answer, hint time.Duration) {
	switch {
	case a.Outcome == SlowDown && l.slow && l.even:
		l.scale = max(l.scale/2, 0.01)
		l.stretch(l.now)
	case a.Outcome == SlowDown:
		l.slow = true
		if n := l.b[dReq].limit(); n > 0 {
			l.evenAt(dReq, float64(n)/2)
		} else {
			l.evenAt(dReq, l.rate(r)/2)
		}
	case l.even && !r.probe:
		l.cutPace(r)
	case r.probe:
		// The window is still spent: that says nothing about the pace.
	case l.burstRefused(r, a, hint):
		l.evenKnown()
	case l.evenStated(a):
	case !l.known() && l.strike == 0:
		// The first refusal may have come by chance, or from a window that others have spent, and what
		// a young run has been admitted so far says little. The pause and a fresh start with few calls have
		// to do; the next one counts.
		l.strike = max(l.now, 1)
		l.mark = mark{max(r.sentAt, 1), l.admitted(r)}
		l.conc.restart(l.now)
		l.ease = l.halved()
	case !l.known():
		l.every = quickly
		l.evenSeen(r)
	case l.strike > 0 && l.now-l.strike < 150*int64(time.Second) && l.now > int64(minute):
		l.evenAt(dReq, l.lately(r)) // twice within our limits: the server's is lower, or shared
	default:
		l.strike = max(l.now, 1)
	}
}

// lately is how many requests the server admitted in the minute before r, what is unanswered
// taken for admitted.
func (l *Limiter) lately(r *ticket) float64 {
	return float64(max(r.used[dReq]-r.cost[dReq]-l.turned.sum, 1))
}

// admitted is how many it admitted before r in all, likewise.
func (l *Limiter) admitted(r *ticket) int64 { return r.sent[dReq] - r.cost[dReq] - l.denied }

// refilled is how many requests a minute the server has made room for since the mark: there was none left then,
// and there is none now. ok is false if there is no mark, or it is a minute old.
func (l *Limiter) refilled(r *ticket) (n float64, ok bool) {
	since := r.sentAt - l.mark.at
	if l.mark == (mark{}) || since <= 0 || since >= int64(minute) {
		return 0, false
	}
	return float64(l.admitted(r)-l.mark.admitted) * float64(int64(minute)) / float64(since), true
}

// evenSeen paces evenly at what the last minute admitted, or at what came since the mark if that is more: of a
// bucket that is refilled fast, a run of a few seconds has not had a minute's worth.
func (l *Limiter) evenSeen(r *ticket) {
	m, seen := l.mark, l.lately(r)
	n, ok := l.refilled(r)
	if ok && n > seen && r.sentAt-m.at <= soon {
		l.evenAt(dReq, n)
		l.mark = m
		return
	}
	l.evenAt(dReq, seen)
}

// halved is the time between two sends at half the rate of the last second; 0 if there is no telling.
func (l *Limiter) halved() int64 {
	s := &l.second
	if s.sum < 2 {
		return 0
	}
	first := s.slots[s.head].until - s.hold
	return 2 * (l.now - first) / s.sum
}

// rate is how many requests a minute the server has been admitting, by the time since the start
// if that is less than a minute ago.
func (l *Limiter) rate(r *ticket) float64 {
	since := min(max(r.sentAt, int64(time.Second)), int64(minute))
	return l.lately(r) * float64(int64(minute)) / float64(since)
}

// known says that some limit of a minute is known, the user's or the server's.
func (l *Limiter) known() bool {
	for d := range l.b {
		if l.b[d].span == int64(minute) && l.b[d].limit() > 0 {
			return true
		}
	}
	return false
}

// burstRefused tells a server that does not accept bursts from one whose window is spent (by other
// processes, or in another phase): our own minute was far from full, the second before was fuller
// than its share, or it is the second refusal within seconds (a server may take no two calls within a tenth of
// one), and neither the hint nor the remaining figure speaks of a spent window.
func (l *Limiter) burstRefused(r *ticket, a *Answer, hint time.Duration) bool {
	n := l.b[dReq].limit()
	again := l.strike > 0 && l.now-l.strike < soon
	if n == 0 || r.second*60 <= n && !again || hint > distant {
		return false
	}
	for d, w := range a.Report.windows() {
		b := &l.b[d]
		if w.said() && w.Remaining == 0 && w.ResetAfter > 2*time.Second {
			return false
		}
		if b.span == int64(minute) && b.limit() > 0 && 5*r.used[d] > 4*b.limit() {
			return false
		}
	}
	return true
}

// sliced says that the headers show the user's request limit kept in slices of about a second.
func (l *Limiter) sliced() bool {
	b := &l.b[dReq]
	return b.cap.Set && b.srv.limit > 0 && b.srv.limit*30 <= b.cap.N
}

// evenKnown paces every known limit of a minute evenly.
func (l *Limiter) evenKnown() {
	for d := range l.b {
		if b := &l.b[d]; b.span == int64(minute) && b.limit() > 0 {
			l.evenAt(d, float64(b.limit()))
		}
	}
}

// evenStated paces evenly at the limits that a refusal states: those with nothing left, or all of
// them if it does not say. They count as per minute unless their reset is longer. Limits that are
// no tighter than the known ones say nothing new.
func (l *Limiter) evenStated(a *Answer) bool {
	found := false
	for _, left := range []bool{false, true} {
		for d, w := range a.Report.windows() {
			b := &l.b[d]
			if w.Limit <= 0 || (w.Remaining > 0) != left || b.none() ||
				b.span != int64(minute) || w.ResetAfter > 90*time.Second {
				continue
			}
			if n := b.limit(); n == 0 || 5*clamp(w.Limit) < 4*n {
				l.evenAt(d, float64(clamp(w.Limit)))
				found = true
			}
		}
		if found {
			return true
		}
	}
	return false
}

// evenAt paces one budget evenly around n a span, at the safe share of it.
func (l *Limiter) evenAt(d int, n float64) {
	l.even, l.scale, l.step, l.bad = true, evenly, firstStep, 0
	l.mark, l.ease = mark{}, 0
	l.b[d].base = max(n, 1)
	l.b[d].tat = max(l.b[d].tat, l.now)
	l.stretch(l.now)
}

// cutPace answers a refusal at an even pace: down to what was admitted in the last minute, if the
// pace is that old, or since the mark that it comes of; else by a fifth.
func (l *Limiter) cutPace(r *ticket) {
	to := 0.8 * l.scale
	if base := l.b[dReq].base; base > 0 && l.now-l.since >= int64(minute) {
		to = min(max(to, evenly*l.lately(r)/base), evenly*l.scale)
	} else if n, ok := l.refilled(r); ok {
		to = min(evenly*max(n, l.lately(r))/base, evenly*l.scale)
	}
	l.bad, l.scale, l.step = l.scale, max(to, 0.01), firstStep
	if !l.slow {
		l.every = min(2*l.every, 4*steadily)
	}
	l.stretch(l.now)
}
