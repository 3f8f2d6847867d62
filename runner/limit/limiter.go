package limit

import (
	"time"
)

// Ticket is a reservation. The zero Ticket is none.
type Ticket struct{ n, gen uint32 }

// Wait says when to ask again; the zero Wait means granted. Whatever it says, every Settle and
// Cancel is a reason to ask again too.
type Wait struct {
	Until  time.Time
	Reason Reason
}

// Far is the Until of a wait that ends when a call is settled, not at a moment.
func (w Wait) Far(now time.Time) bool { return w.Until.Sub(now) >= far }

// far stands for never in a Wait, and longest is the longest pause that a server can ask for.
const (
	far     = 10_000 * time.Hour
	longest = far - 1000*time.Hour
)

// ticket is a reservation's record; it is reused when the call is settled.
type ticket struct {
	gen    uint32
	live   bool
	onWire bool
	probe  bool
	cold   bool // sent before any answer had come
	epoch  uint32
	gotAt  int64 // when it was granted
	sentAt int64
	second int64 // requests sent in the second that ended with it
	step   *step // of the audit; nil = there is none
	late   bool  // output is charged when it is settled
	cost   amounts
	sent   amounts // each budget's sent and use just after this call
	near   amounts // what of sent the server may have seen after this call
	used   amounts
	slots  amounts // where the log holds the charge; -1 = nowhere
}

// Limiter decides when the calls of one limit group may go. It reads no clock and starts no
// goroutine: every method is told the time, and time never runs backwards for it. It is not safe
// for concurrent use: one dispatcher owns it. See the package comment for what it guarantees.
type Limiter struct {
	start time.Time
	now   int64
	cfg   Config
	b     [dims]budget
	conc  *Concurrency

	tickets []ticket
	unused  []uint32

	second window // requests sent in the last second
	turned window // requests refused in the last minute
	denied int64  // and in all

	spread  int64 // when the spread of sends within a round trip allows the next
	bursts  bool  // the server has been seen to take bursts
	rhythm        // the even pace's scale and growth
	episode       // pauses
	audit   audit // of how the server charges calls
}

// New returns a limiter with all budgets unused.
func New(c Config, now time.Time) *Limiter {
	split := c.Accounting == Split
	l := &Limiter{start: now, cfg: c, conc: newConcurrency(c.Concurrency)}
	l.cfg.Burst = clamp(c.Burst)
	l.b = [dims]budget{
		dReq:    newBudget("rpm", minute, c.RPM, false),
		dTok:    newBudget("tpm", minute, c.TPM, false),
		dIn:     newBudget("itpm", minute, c.ITPM, false),
		dOut:    newBudget("otpm", minute, c.OTPM, split),
		dReqDay: newBudget("rpd", day, c.RPD, false),
		dTokDay: newBudget("tpd", day, c.TPD, false),
	}
	l.second = window{hold: int64(time.Second + time.Second/100), grain: int64(time.Millisecond)}
	l.turned = window{hold: int64(minute + guard), grain: int64(10 * time.Millisecond)}
	l.rhythm.reset()
	l.audit.now = As(c.Accounting)
	return l
}

// tick moves the limiter's time to now, or leaves it if the clock went backwards.
func (l *Limiter) tick(now time.Time) int64 {
	l.now = max(l.now, int64(now.Sub(l.start)))
	for d := range l.b {
		l.b[d].log.expire(l.now)
	}
	l.second.expire(l.now)
	l.turned.expire(l.now)
	l.expirePause(now)
	return l.now
}

func (l *Limiter) time(at int64) time.Time {
	if at >= l.now+int64(far) {
		at = l.now + int64(far)
	}
	return l.start.Add(time.Duration(at))
}

// Reserve takes c from every budget at once, or from none and says when to ask again. A granted
// ticket holds its charge until Sent, Settle or Cancel. The reservation also takes one of the calls
// that may be on the wire.
func (l *Limiter) Reserve(now time.Time, c Cost) (Ticket, Wait) {
	l.tick(now)
	cost := c.amounts()
	if w := l.ask(&cost); w.Reason != Granted {
		return Ticket{}, w
	}
	return l.grant(cost), Wait{}
}

// ask says what keeps cost back, and remembers it: what bound decides what may grow.
func (l *Limiter) ask(cost *amounts) Wait {
	at, why := l.blocked(cost)
	switch why {
	case Granted:
		return Wait{}
	case AtSpread:
	case AtCeiling:
		l.conc.full = true
	default:
		l.conc.mixed = true
		l.bound = l.bound || why == AtEvenPace
	}
	return Wait{l.time(at), why}
}

// blocked is what keeps cost back, and until when; Granted if nothing does.
func (l *Limiter) blocked(cost *amounts) (int64, Reason) {
	if until, why := l.paused(); why != Granted {
		return until, why
	}
	if !l.conc.room() {
		return never, AtCeiling
	}
	until, why := l.now, Granted
	later := func(at int64, r Reason) {
		if at > until {
			until, why = at, r
		}
	}
	later(l.spread, AtSpread)
	if l.even {
		later(l.slice(), AtEvenPace)
	}
	for d := range l.b {
		b := &l.b[d]
		if cost[d] > 0 && b.span == int64(minute) {
			later(b.due(l.scale, l.burst(d)), AtEvenPace)
		}
		at, told := b.ready(l.now, cost[d])
		if told {
			later(at, AtServer)
		} else {
			later(at, Reason(b.name))
		}
	}
	return until, why
}

// slice is when the even pace's share of a second allows another request. Calls that are granted and
// not yet sent count too: a slow write to disk may let them go together.
func (l *Limiter) slice() int64 {
	b := &l.b[dReq]
	if b.base == 0 {
		return l.now
	}
	share := max(int64(b.rate(l.scale)/evenly/60+1e-9), 1)
	if over := l.second.sum + b.held + 1 - share; over > 0 {
		return l.second.frees(over)
	}
	return l.now
}

// burst is the user's burst where it applies: to requests.
func (l *Limiter) burst(d int) int64 {
	if d == dReq {
		return l.cfg.Burst
	}
	return 0
}

func (l *Limiter) grant(cost amounts) Ticket {
	var n uint32
	if last := len(l.unused) - 1; last >= 0 {
		n, l.unused = l.unused[last], l.unused[:last]
	} else {
		n = uint32(len(l.tickets))
		l.tickets = append(l.tickets, ticket{})
	}
	t := &l.tickets[n]
	*t = ticket{gen: t.gen + 1, live: true, cost: cost, epoch: l.epoch, gotAt: l.now, probe: l.takeProbe()}
	for d := range l.b {
		l.b[d].held += cost[d]
		if l.b[d].span == int64(minute) {
			l.b[d].pay(l.now, cost[d], l.scale, l.burst(d))
		}
	}
	l.spread = max(l.spread, l.now-int64(10*time.Millisecond)) + l.spacing()
	l.conc.wire++
	return Ticket{n, t.gen}
}

// spacing spreads sends within a round trip, at a small multiple of what the ceiling can sustain (as
// TCP pacing does), so that a first refusal is back before many more calls are out. Before the first
// answer the round trip is unknown; and until the server has been seen to take a burst, calls go at
// no more than three times their even share.
func (l *Limiter) spacing() int64 {
	n := l.b[dReq].limit()
	gap := int64(50 * time.Millisecond)
	switch {
	case l.conc.rtt == 0:
	case n == 0:
		gap = l.conc.rtt / int64(2*l.conc.Ceiling())
	default:
		gap = l.conc.rtt / int64(4*l.conc.Ceiling())
	}
	if n > 0 && !l.bursts && !l.even {
		share := min(int64(minute)/(3*n), int64(250*time.Millisecond))
		if l.conc.rtt == 0 {
			return share
		}
		gap = max(gap, share)
	}
	return max(gap, l.ease)
}

// find returns the record of a live ticket, nil for any other.
func (l *Limiter) find(t Ticket) *ticket {
	if int(t.n) < len(l.tickets) && l.tickets[t.n].live && l.tickets[t.n].gen == t.gen {
		return &l.tickets[t.n]
	}
	return nil
}

// Sent says that the call's request was written at the given time: from then on its charge leaves
// the window after a minute and the guard.
func (l *Limiter) Sent(at time.Time, t Ticket) {
	now := l.tick(at)
	if r := l.find(t); r != nil && !r.onWire {
		l.charge(r, min(now, max(r.gotAt, int64(at.Sub(l.start)))))
	}
}

func (l *Limiter) charge(r *ticket, at int64) {
	r.onWire, r.sentAt, r.cold = true, at, l.conc.rtt == 0
	l.second.add(at, r.cost[dReq])
	r.second = l.second.sum
	r.step, r.late = l.audit.sent(at), l.b[dOut].late
	for d := range l.b {
		if b := &l.b[d]; !b.late {
			r.near[d] = b.log.since(at - reorder)
			r.slots[d] = b.put(at, r.cost[d], r.cost[d])
			b.wire += r.cost[d]
			r.sent[d], r.used[d] = b.sent, b.log.sum
		}
	}
	if r.probe {
		l.probeSent(at)
	}
}

// Cancel ends a reservation whose request was not sent and gives everything back. After Sent it is
// Settle of a failed call: the server may have counted it.
func (l *Limiter) Cancel(now time.Time, t Ticket) {
	r := l.find(t)
	if r == nil {
		return
	}
	if r.onWire {
		l.Settle(now, t, Answer{Outcome: Failed})
		return
	}
	l.tick(now)
	for d := range l.b {
		l.b[d].held -= r.cost[d]
	}
	if r.probe {
		l.probeLost()
	}
	l.release(t, r)
}

// Crowded is Cancel where this machine has no room for as many calls: it lowers the ceiling as well.
func (l *Limiter) Crowded(now time.Time, t Ticket) {
	if r := l.find(t); r != nil && !r.onWire {
		l.tick(now)
		l.conc.cut(l.now, 0.8)
	}
	l.Cancel(now, t)
}

func (l *Limiter) release(t Ticket, r *ticket) {
	r.live = false
	l.unused = append(l.unused, t.n)
	l.conc.wire--
}

// Settle ends a reservation with the call's outcome. A call never reported as sent counts as sent now.
func (l *Limiter) Settle(now time.Time, t Ticket, a Answer) {
	at := l.tick(now)
	r := l.find(t)
	if r == nil {
		return
	}
	if !r.onWire {
		l.charge(r, at)
	}
	if r.cold {
		l.recharge(r)
	}
	l.correct(r, &a)
	for d, w := range a.Report.windows() {
		b := &l.b[d]
		if d == dOut && r.late {
			r.sent[d], r.used[d] = b.sent, b.log.sum
		} else {
			b.wire -= r.cost[d]
		}
		if d == dTok && a.Report.Input.said() || b.none() {
			continue // the overall window repeats the tighter of the two
		}
		if a.Outcome.refused() {
			b.srv.stated = clamp(w.Limit)
			continue
		}
		b.srv.hear(w, r.sentAt, b.span, r.sent[d], r.near[d], r.used[d])
	}
	l.audit.answered(r.step, at, &a, &l.b[dTok])
	l.b[dOut].late = l.b[dOut].late || l.audit.now.Form == Split
	if a.Outcome == OK {
		l.succeeded(r, at)
	} else {
		l.failed(now, r, &a)
	}
	if a.Outcome.refused() {
		l.turned.add(at, r.cost[dReq])
		l.denied += r.cost[dReq]
	} else if !l.even && l.sliced() {
		l.evenKnown()
	}
	l.release(t, r)
}

// recharge counts a call of the first flight from its answer. A server that has just started, or meets
// us for the first time, may take longer than the guard before it looks at its limits. It costs
// nothing: later calls leave the window no sooner than that.
func (l *Limiter) recharge(r *ticket) {
	for d := range l.b {
		b := &l.b[d]
		if !(d == dOut && r.late) && r.slots[d] >= 0 && b.log.adjust(r.slots[d], -r.cost[d]) {
			r.slots[d] = b.log.add(l.now, r.cost[d])
		}
	}
}

// correct brings the charge to what was used: up always, down where the provider gives it back.
func (l *Limiter) correct(r *ticket, a *Answer) {
	used := a.Used.amounts()
	for d := range l.b {
		b := &l.b[d]
		if d == dOut && r.late {
			n := r.cost[d]
			if a.Known {
				n = used[d]
			}
			b.put(l.now, r.cost[d], n)
			continue
		}
		delta := used[d] - r.cost[d]
		if !a.Known || d == dReq || d == dReqDay || delta == 0 || r.slots[d] < 0 || delta < 0 && !l.cfg.Refund {
			continue
		}
		b.log.adjust(r.slots[d], delta)
		b.sent += delta
	}
}

// Seed charges an attempt of an earlier run. It belongs before the first Reserve. An attempt is recorded
// before it is sent, and the server may have been slow to see it, so it counts from a second later.
func (l *Limiter) Seed(at time.Time, c Cost) {
	sent := min(int64(at.Add(time.Second).Sub(l.start)), l.now)
	cost := c.amounts()
	for d := range l.b {
		if b := &l.b[d]; cost[d] > 0 && sent+b.log.hold > l.now {
			b.log.seed(sent, cost[d])
		}
	}
}
