package limit

import "time"

// Call is what a server may have charged one call for. The zero Call says nothing and is not looked at.
type Call struct {
	Prompt, Billed int64 // tokens of the prompt: as reckoned, and as the answer states them (0 = it does not)
	Characters     int64 // the prompt by characters
	Reserved       int64 // output: the cap, or what is reserved without one
	Output         int64 // output: as the answer states it
	Capped         bool
}

const (
	// agreeing is how many answers it takes to leave a form for another. Calls with a cap and calls without
	// one count together, but each kind moves only when more of its own speak for the new form than for the old.
	agreeing = 20
	// exact is how far apart two ways to count may be and still be the same: they round differently.
	exact = 2
	// settled is how long a bucket's reports have to fit before they count as one's, full as it may be. The
	// reset of a fixed window would have moved by that much.
	settled = int64(5 * time.Second)
	// jitter is by how much the time between two calls may differ for the server.
	jitter = int64(10 * time.Millisecond)
	// maxTrail bounds the calls that wait for an older one's answer; maxBetween the answers between two calls.
	maxTrail, maxBetween = 4096, 6
)

// step is one call of the trail.
type step struct {
	sentAt, doneAt int64
	done, ok       bool // answered, and with a report
	call           Call
	limit, remain  int64
	resetAt        int64
}

// audit finds out how the server charges calls, from what its remaining figure lost between each two
// that followed each other. Only such pairs count of which the figure before the second is known; what
// others take from the account fits no form and says nothing. It is off until Follow.
type audit struct {
	on    bool
	moved bool // since it was asked last
	now   Charging
	trail []*step // by the time of sending; those before have been looked at
	ended []*step // by the time of their answer, as far as they matter

	votes [2][None + 1]int // for each form, of calls without and with a cap
	unit  int              // for characters, against tokens
	back  int              // for giving back, against keeping
	split int              // reports of separate budgets alone
}

// Follow lets the limiter find out how the server charges calls, by headers. Answers have to bring their
// Call. It belongs before the first Reserve.
func (l *Limiter) Follow() { l.audit.on = true }

// Take is told how the server charges calls, where more is known than the configured accounting. It belongs
// before the first Reserve.
func (l *Limiter) Take(c Charging) {
	l.audit.now = c
	l.b[dOut].late = c.Form == Split
}

// Charging is how the server charges calls: as configured, until twenty answers have agreed on something else.
func (l *Limiter) Charging() Charging { return l.audit.now }

// Moved says whether Charging has changed since Moved was asked last.
func (l *Limiter) Moved() bool {
	moved := l.audit.moved
	l.audit.moved = false
	return moved
}

// sent notes a call that was written at the given time.
func (a *audit) sent(at int64) *step {
	if !a.on {
		return nil
	}
	s := &step{sentAt: at}
	a.trail = append(a.trail, s)
	for i := len(a.trail) - 1; i > 0 && a.trail[i-1].sentAt > at; i-- {
		a.trail[i-1], a.trail[i] = a.trail[i], a.trail[i-1]
	}
	return s
}

// answered notes the end of a call and looks at every pair that is complete by now. tok is what the
// server said of its token budget.
func (a *audit) answered(s *step, now int64, ans *Answer, tok *budget) {
	if s == nil {
		return
	}
	w := ans.Report.Tokens
	s.done, s.doneAt, s.call = true, now, ans.Call
	if s.ok = ans.Outcome == OK && ans.Call != (Call{}) && w.said() && w.Limit > 0 && !ans.Report.Input.said(); s.ok {
		s.limit, s.remain = clamp(w.Limit), clamp(w.Remaining)
		if w.ResetAfter > 0 {
			s.resetAt = s.sentAt + int64(min(w.ResetAfter, 2*day))
		}
	}
	a.ended = append(a.ended, s)
	a.apart(ans)
	for len(a.trail) > 1 && (a.trail[0].done && a.trail[1].done || len(a.trail) > maxTrail) {
		if a.trail[0].done && a.trail[1].done {
			a.look(a.trail[0], a.trail[1], tok)
		}
		a.trail = a.trail[1:]
	}
	for len(a.ended) > 0 && (a.ended[0].doneAt <= a.trail[0].sentAt || len(a.ended) > maxTrail) {
		a.ended = a.ended[1:]
	}
}

// apart notices a server that states budgets for input and output and none for both.
func (a *audit) apart(ans *Answer) {
	r := &ans.Report
	if ans.Outcome != OK || !r.Input.said() && !r.Tokens.said() {
		return
	}
	if !r.Input.said() || !r.Output.said() || a.now.Form == Split {
		a.split = 0
		return
	}
	if a.split++; a.split >= agreeing {
		a.become(Charging{Form: Split, Bare: Split, Unit: a.now.Unit})
	}
}

func (a *audit) become(c Charging) { a.now, a.moved = c, true }

// loss is what the remaining figure lost by a call: between low and high, each off by as much. With whole
// the limit was whole before, whatever had been given back.
type loss struct {
	low, high, off int64
	whole          bool
}

func (d loss) is(charge int64) bool {
	off := d.off + exact + charge/100
	return charge >= d.low-off && charge <= d.high+off
}

// lossOf is what the figure lost by q, which followed p; ok is false if that cannot be told.
func lossOf(p, q *step, tok *budget) (d loss, ok bool) {
	since := q.sentAt - p.sentAt
	if !p.ok || !q.ok || p.limit != q.limit || q.remain == 0 || since <= 0 || tok.srv.long {
		return d, false
	}
	s, rate := &tok.srv, float64(p.limit)/float64(tok.span)
	full := min(p.limit, p.remain+int64(rate*float64(min(since, tok.span))))
	bucket := s.refill == continuous || s.bucketAt > 0 && s.misses == 0 && s.at-s.bucketAt >= settled
	switch {
	case since >= tok.span+int64(guard):
		full = p.limit
		d.low = full
	case bucket:
		if d.low = full; full < p.limit {
			d.off = int64(rate*float64(jitter)) + 1
		}
	case s.refill == atReset && q.sentAt < p.resetAt-resetSlop:
		d.low, full = p.remain, p.remain
	case s.refill == atReset && p.resetAt > 0 && q.sentAt > p.resetAt+resetSlop:
		d.low, full = p.limit, p.limit
	case s.refill == atReset, q.sentAt >= tok.span:
		return d, false // in doubt, or older calls may have left its window
	default:
		d.low = p.remain
	}
	d.whole = d.low == p.limit
	d.low, d.high = d.low-q.remain, full-q.remain
	return d, true
}

// look takes a pair for the forms that it fits and against those that it does not.
func (a *audit) look(p, q *step, tok *budget) {
	d, ok := lossOf(p, q, tok)
	if !ok {
		return
	}
	var in answers
	if !d.whole {
		if in, ok = a.between(p, q); !ok {
			return
		}
	}
	kind := 0
	if q.call.Capped {
		kind = 1
	}
	form := a.now.Of(q.call.Capped)
	if form == Split {
		form = Input
	}
	if len(in.calls) > 0 && d.high == d.low && a.returns(d, form, q, in) {
		return
	}
	if !a.now.Back {
		in = answers{}
	}
	var explains [None + 1]bool
	byTokens, byCharacters := false, false
	for _, f := range []Accounting{Sum, Max, Input, None} {
		t := fits(d, f, Tokens, q, in)
		c := fits(d, f, Characters, q, in)
		explains[f] = t || c
		byTokens, byCharacters = byTokens || t, byCharacters || c
	}
	a.count(kind, form, &explains)
	switch {
	case byCharacters && !byTokens:
		a.unit = min(a.unit+1, agreeing)
	case byTokens && !byCharacters:
		a.unit = max(a.unit-1, -agreeing)
	}
	a.decide()
}

// count takes one pair into the votes.
func (a *audit) count(kind int, form Accounting, explains *[None + 1]bool) {
	any := false
	for _, ok := range explains {
		any = any || ok
	}
	if !any {
		return // others were at it
	}
	votes := &a.votes[kind]
	for f := range votes {
		switch {
		case !explains[f]:
			votes[f] /= 2
		case Accounting(f) == form || !explains[form]:
			votes[f]++
		}
	}
}

// decide moves to what enough answers agree on.
func (a *audit) decide() {
	c := a.now
	for kind := range a.votes {
		form := c.Of(kind == 1)
		best, most := form, 0
		for _, f := range []Accounting{Sum, Max, Input, None} { // the dearest first
			n := a.votes[kind][f]
			if all := a.votes[0][f] + a.votes[1][f]; f != form && all >= agreeing && n > most && n > a.votes[kind][form] {
				best, most = f, n
			}
		}
		if kind == 1 {
			c.Form = best
		} else {
			c.Bare = best
		}
	}
	switch a.unit {
	case agreeing:
		c.Unit = Characters
	case -agreeing:
		c.Unit = Tokens
	}
	if c != a.now {
		a.become(c)
	}
}

// returns looks whether the answers between two calls gave back what they had not used, and whether that
// explains the pair: it is then no sign of another form.
func (a *audit) returns(d loss, form Accounting, q *step, in answers) bool {
	kept, given := false, false
	for _, u := range []Unit{Tokens, Characters} {
		kept = kept || fits(d, form, u, q, answers{})
		given = given || fits(d, form, u, q, in)
	}
	switch {
	case given && !kept:
		a.back = min(a.back+1, agreeing)
	case kept && !given:
		a.back = max(a.back-1, -agreeing)
	}
	c := a.now
	switch a.back {
	case agreeing:
		c.Back = true
	case -agreeing:
		c.Back = false
	}
	if c != a.now {
		a.become(c)
	}
	return given && !kept && !a.now.Back
}

// answers are the calls that were answered between two others were sent. The server may have seen the
// first doubtful ones ahead of both, and those from sure on after both.
type answers struct {
	calls          []*step
	doubtful, sure int
}

// between lists the answers between two calls. ok is false where one of them failed, since nobody knows
// what that gave back.
func (a *audit) between(p, q *step) (in answers, ok bool) {
	for _, s := range a.ended {
		switch {
		case s.doneAt <= p.sentAt || s.doneAt > q.sentAt+reorder:
			continue
		case !s.ok:
			return in, false
		}
		in.calls = append(in.calls, s)
		if s.doneAt <= p.sentAt+reorder {
			in.doubtful++
		}
		if s.doneAt <= q.sentAt {
			in.sure++
		}
	}
	if len(in.calls) > maxBetween {
		return answers{}, true
	}
	return in, true
}

// fits says whether a form explains what the figure lost by q, less what answers gave back.
func fits(d loss, f Accounting, u Unit, q *step, in answers) bool {
	for _, charge := range q.call.charges(f, u) {
		for i := range in.doubtful + 1 {
			rest := charge
			for j := i; j <= len(in.calls); j++ {
				if j >= in.sure && d.is(rest) {
					return true
				}
				if j < len(in.calls) {
					rest -= in.calls[j].call.unused(f, u)
				}
			}
		}
	}
	return false
}

// charges are what a call may be charged under a form: tokens as reckoned, or as they were billed.
func (c *Call) charges(f Accounting, u Unit) []int64 {
	of := func(prompt int64) int64 { return f.Charge(prompt, c.Reserved).Tokens }
	switch {
	case u == Characters:
		return []int64{of(c.Characters)}
	case c.Billed > 0 && c.Billed != c.Prompt:
		return []int64{of(c.Prompt), of(c.Billed)}
	}
	return []int64{of(c.Prompt)}
}

// unused is the part of a call's charge that its answer leaves over.
func (c *Call) unused(f Accounting, u Unit) int64 {
	charge := c.charges(f, u)[0]
	if u == Tokens && c.Billed > 0 {
		charge = f.Charge(c.Billed, c.Reserved).Tokens
	}
	return max(charge-c.Billed-c.Output, 0)
}
