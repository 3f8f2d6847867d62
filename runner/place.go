package runner

import (
	"fmt"
	"slices"
	"time"

	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/route"
)

// view is how much of what hinders a target counts.
type view uint8

const (
	asItIs   view = iota // everything
	waitedOn             // not what passes with time: limits, pauses, the breaker
	atAll                // nor that the job is too large for it
)

// state is what hinders the lane from taking a job.
func (l *lane) state(now time.Time, j *job, v view) route.State {
	s := route.State{Halted: l.halted, Unusable: l.down != nil && l.halted == provider.KindNone}
	if v == atAll {
		return s
	}
	c, _ := l.costOf(j)
	_, _, s.Waits = l.limiter.Never(l.chargeOf(j, int64(j.tokens.MaxOutput)))
	if v == asItIs {
		if s.Open = now.Before(l.paused) || l.breaker.State(now) == route.Open; s.Open && l.down == nil {
			s.Halted = l.failing
		}
		s.Waits = s.Waits || l.waits(now, c) || l.crowded(now)
	}
	return s
}

// waits says that the limiter keeps a call back for longer than calls are
// spread within a round trip. A place on the wire is none of its limits.
func (l *lane) waits(now time.Time, c limit.Cost) bool {
	switch w := l.limiter.Peek(now, c); w.Reason {
	case limit.Granted, limit.AtCeiling:
		return false
	case limit.AtSpread:
		conc := l.limiter.Concurrency()
		return w.Until.Sub(now) > max(conc.RTT()/time.Duration(2*conc.Ceiling()), shortSpread)
	default:
		return true
	}
}

// crowded says that more is queued than the limits still admit in their
// windows: some of it would have to wait for the next.
func (l *lane) crowded(now time.Time) bool {
	n := int64(l.ready.Len())
	if n == 0 {
		return false
	}
	lightest, _ := l.ready.Lightest()
	for _, u := range l.limiter.State(now).Uses {
		need := n
		switch u.Name {
		case "tpm", "itpm", "tpd":
			need *= lightest
		case "otpm":
			need = 0
		}
		if u.Limit > 0 && need > u.Limit-u.Used {
			return true
		}
	}
	return false
}

// shortSpread is what a call waits for its turn without going elsewhere.
const shortSpread = 100 * time.Millisecond

// tooLong says that a job's tokens, by the lane's own tokenizer, do not fit
// its model's window.
func (s *scheduler) tooLong(l *lane, j *job) bool {
	if l.Context == 0 {
		return false
	}
	from, to := s.lane(j).factor(j.rec.Model), l.factor(j.rec.Model)
	prompt := int64(j.tokens.Prompt) * to.Num * from.Den / (to.Den * from.Num)
	return prompt+int64(j.tokens.MaxOutput) > l.Context
}

// factor is what the lane's tokens are to those that are reckoned.
func (l *lane) factor(model string) Factor {
	if l.Factor.Den > 0 {
		return l.Factor
	}
	if l.Model != "" {
		model = l.Model
	}
	num, den := estimate.Factor(model)
	return Factor{num, den}
}

// choose asks the job's route which target takes it. A job that only waits at
// home leaves for the smaller model when that can send it, not before.
func (s *scheduler) choose(now time.Time, j *job, v view) (at int, reason string, ok bool) {
	ask := route.Ask{Met: j.way.met, Tried: j.way.tried, States: make([]route.State, len(j.way.Lanes))}
	if v == asItIs || s.lane(j).down != nil {
		ask.Level = s.press.level
	}
	for i := range j.way.Lanes {
		l := s.lanes[s.laneAt(j, i)]
		ask.States[i] = l.state(now, j, v)
		ask.States[i].Unfit = j.unfit.Has(i)
		ask.States[i].TooLong = v < atAll && s.tooLong(l, j)
	}
	return j.way.Next(ask)
}

// move points a job that is in no queue at another target.
func (s *scheduler) move(now time.Time, j *job, at int, reason string) bool {
	if at == j.way.at {
		return true
	}
	from, model := s.lane(j), j.rec.Model
	if s.steer(j, at) != nil {
		return false // the body has no model to replace: it stays where it is
	}
	s.look(j)
	if from.down != nil {
		j.state.FreeSince = time.Time{} // the outage was the other target's
	}
	if at > 0 {
		s.count.Fallbacks[fallback{from.name(), s.lane(j).name(), reason}]++
		s.tell(now, j, Event{What: FellBack, FromProvider: from.Provider, FromModel: model, Reason: reasonName(reason)})
	}
	return true
}

// fallback is a kind of move from one target to another.
type fallback struct{ From, To, Reason string }

// doubtful says that the present target may have been paid for the job's
// answer: no other is asked for as long as this run may retry.
func (s *scheduler) doubtful(now time.Time, j *job) bool {
	for i := range j.op.Attempts {
		a := &j.op.Attempts[i]
		if a.Class != ClassUnknown || a.Provider != s.lane(j).Provider {
			continue
		}
		since := a.At
		if since.Before(s.began) {
			since = s.began
		}
		return now.Sub(since) < s.policyOf(j).OrDefaults().MaxTotal
	}
	return false
}

// assign finds a lane for a job whose own is down, or which has none yet: the
// first that can take it now or later. A job that may have been paid for waits
// for its own. Without a lane it stays pending.
func (s *scheduler) assign(now time.Time, j *job) bool {
	if j.way.choice() && !s.doubtful(now, j) {
		for _, v := range []view{waitedOn, atAll} {
			if at, reason, ok := s.choose(now, j, v); ok {
				return s.move(now, j, at, reason)
			}
		}
	}
	down := s.lane(j).down
	if down == nil && j.unfit.Has(j.way.at) {
		down = s.carrier(j).down
	}
	if down == nil {
		return true
	}
	s.leave(down)
	return false
}

// carrier is the lane of the first target that can carry the job's request and
// takes over from its primary for that.
func (s *scheduler) carrier(j *job) *lane {
	for i := range j.way.Lanes {
		if !j.unfit.Has(i) && (i == 0 || j.way.When[i].Has(route.PrimaryUnavailable)) {
			return s.lanes[s.laneAt(j, i)]
		}
	}
	return s.lane(j)
}

// spillDepth is how many jobs of a lane are asked whether they may go elsewhere.
const spillDepth = 32

// spill lets another target take a job over from a lane that makes it wait. One
// goes at a time, and only when the other can send it at once: until then it
// keeps its place, so that whichever target is free first serves it. Without a
// grant it returns when to look again.
func (s *scheduler) spill(now time.Time, l *lane) (*job, time.Time) {
	able, wake := s.others(now, l)
	if !able {
		return nil, wake
	}
	var at int
	var reason string
	j, ok := l.ready.Take(spillDepth, func(j *job) (ok bool) {
		if !j.way.choice() || s.doubtful(now, j) {
			return false
		}
		if at, reason, ok = s.choose(now, j, asItIs); !ok || at == j.way.at {
			return false
		}
		to := s.lanes[s.laneAt(j, at)]
		c, _ := to.costOf(j)
		w := to.limiter.Peek(now, c)
		if w.Reason != limit.Granted && !w.Far(now) {
			wake = earliest(wake, w.Until)
		}
		return !to.full() && w.Reason == limit.Granted && s.money.affords(to.Price, j)
	})
	if !ok {
		return nil, wake
	}
	s.size -= len(j.rec.Body)
	moved := s.move(now, j, at, reason)
	if s.serves(j) {
		s.tell(now, j, Event{What: Left})
		return nil, now
	}
	s.size += len(j.rec.Body)
	if !moved {
		l.enqueue(j)
		return nil, time.Time{}
	}
	to := s.lane(j)
	to.charge(j)
	var w limit.Wait
	if j.ticket, w = to.limiter.Reserve(now, j.cost); w.Reason != limit.Granted {
		to.back(j) // its tokens turned out to be more for this model
		return nil, now
	}
	return j, time.Time{}
}

// others says whether any other lane could send a small call now, and else when
// to ask again.
func (s *scheduler) others(now time.Time, l *lane) (able bool, wake time.Time) {
	for _, o := range s.lanes {
		if o == l || o.down != nil || o.full() {
			continue
		}
		if until := o.closedUntil(now); !until.IsZero() {
			wake = earliest(wake, until)
			continue
		}
		switch w := o.limiter.Peek(now, limit.Cost{Requests: 1, Tokens: 1}); {
		case w.Reason == limit.Granted:
			return true, time.Time{}
		case !w.Far(now):
			wake = earliest(wake, w.Until)
		}
	}
	return false, wake
}

// closedUntil is when a lane that is paused, or whose circuit is open, may send
// again; zero = it may. While a probe is out that is not known, and its end is
// an event: an hour stands for it.
func (l *lane) closedUntil(now time.Time) time.Time {
	var until time.Time
	if l.breaker.State(now) == route.Open {
		if until = l.breaker.Until(); until.IsZero() {
			until = now.Add(time.Hour)
		}
	}
	if now.Before(l.paused) && l.paused.After(until) {
		until = l.paused
	}
	return until
}

// shutUnusable leaves out the targets that no call can go to, and names them.
func (s *scheduler) shutUnusable() (unusable []string) {
	for _, l := range s.lanes {
		if l.Client == nil {
			unusable = append(unusable, fmt.Sprintf("%s cannot be used: %v; its part falls to the other targets", l.name(), l.Fault))
			s.shut(s.began, l, &Stop{
				Kind: StopProvider, Reason: fmt.Sprintf("%s cannot be used: %v", l.name(), l.Fault),
				Hint: "mend what is missing, or let the route have a fallback with when: [primary_unavailable]",
			}, provider.KindNone)
		}
	}
	return unusable
}

// shut ends sending on a lane for this run: what may go elsewhere does, the
// rest stays pending. With the last lane the run ends.
func (s *scheduler) shut(now time.Time, l *lane, stop *Stop, kind provider.Kind) {
	if l.down != nil {
		return
	}
	l.down, l.halted = stop, kind
	if accountWide(kind) {
		for _, o := range s.siblings(l) {
			s.shut(now, o, stop, kind)
		}
	}
	for _, j := range slices.Concat(l.ready.Drain(), l.delayed.Drain(), l.release()) {
		s.size -= len(j.rec.Body)
		if j.after != nil {
			s.leave(stop) // it waits for a look-up alone
			s.tell(now, j, Event{What: Left})
			continue
		}
		if s.assign(now, j) && !s.serves(j) {
			s.size += len(j.rec.Body)
			s.lane(j).enqueue(j)
		} else {
			s.tell(now, j, Event{What: Left})
		}
	}
	for _, other := range s.lanes {
		if other.down == nil {
			return
		}
	}
	if s.stop == nil {
		s.leave(stop)
		s.stop = s.stays
	}
}

// leave notes why operations stay pending. What the user has to mend goes
// ahead of what time mends.
func (s *scheduler) leave(why *Stop) {
	switch have := s.stays; {
	case have == nil, have.Kind == StopBound && why.Kind == StopProvider:
		s.stays = why
	case have.Kind == StopBound && why.Kind == StopBound && earliest(have.Until, why.Until) != have.Until:
		s.stays = why
	}
}
