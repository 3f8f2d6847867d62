package runner

import (
	"slices"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/retry"
	"github.com/llmbatch/llmbatch/runner/route"
)

// answered settles a call that brought a whole answer.
func (s *scheduler) answered(now time.Time, j *job, resp *provider.Response) {
	s.left(j)
	s.tellSent(now, j)
	l := s.lane(j)
	l.health.Observe(now, nil)
	l.told = false
	if s.guarded() {
		l.breaker.Observe(now, j.granted, provider.KindNone)
	}
	used, known := l.usedBy(j, resp.Usage)
	if s.count.Answered++; known {
		s.count.Charged.add(j.cost)
		s.count.Settled.add(used)
	}
	s.count.Latency += now.Sub(resp.SentAt)
	l.limiter.Settle(now, j.ticket, limit.Answer{Used: used, Known: known, Report: report(resp.Rate), Call: l.seen(j, resp.Usage)})
	s.follow(l)
	spent := s.money.spent
	s.money.settle(l.Price, j, resp.Usage)
	c := &s.count
	if !resp.SentAt.IsZero() {
		s.took(j, resp.Done.Sub(resp.SentAt))
	}
	if resp.Usage.Known {
		l.learn(j, resp.Usage)
		c.used(resp.Usage)
	}
	c.LastDone = now
	switch resp.Finish {
	case provider.FinishLength:
		c.Truncated++
	case provider.FinishRefused, provider.FinishContentFilter:
		c.Refused++
	}
	s.tell(now, j, Event{
		What: Answered, StatusCode: resp.StatusCode, RequestID: resp.RequestID, Used: resp.Usage.Input + resp.Usage.Output, Output: resp.Usage.Output,
		Latency: now.Sub(resp.SentAt), Cost: s.money.spent - spent,
	})
}

// failed settles a call without an answer and decides what follows.
func (s *scheduler) failed(now time.Time, j *job, err *provider.Error) verdict {
	s.left(j)
	s.count.LastDone = now
	l := s.lane(j)
	a := limit.Answer{Outcome: outcomes[err.Kind], RetryAfter: err.RetryAfter, Hinted: err.HasRetryAfter, Reset: err.Reset, Report: report(err.Rate)}
	if a.Outcome == limit.OK {
		a.Outcome = limit.Failed
	}
	if a.Outcome == limit.RateLimit || a.Outcome == limit.SlowDown {
		s.count.RateLimited++
	}
	if !err.Sent {
		s.noCall(j)
		switch err.Kind {
		case provider.KindConnect, provider.KindConnectTimeout, provider.KindTLS, provider.KindLocal:
			s.count.Unreached++
		}
	}
	switch {
	case err.Sent:
		l.limiter.Settle(now, j.ticket, a)
	case err.Kind == provider.KindLocal:
		l.limiter.Crowded(now, j.ticket)
	default:
		l.limiter.Cancel(now, j.ticket)
	}
	if err.Sent {
		s.tellSent(now, j)
	}
	spent := s.money.spent
	s.money.fail(j, err.Unknown())
	if err.Unknown() {
		s.noteUnknown(j.op.ID)
	}
	s.tellFailure(now, j, err, s.money.spent-spent)
	v := s.decide(now, j, err)
	if j.due = now; v.notBefore.After(now) {
		j.due = v.notBefore
	}
	return v
}

// decide asks the policy and carries its decision out as far as it is the
// scheduler's.
func (s *scheduler) decide(now time.Time, j *job, err *provider.Error) verdict {
	l := s.lane(j)
	if j.state.Suspect(err.Kind) {
		l.breaker.Observe(now, j.granted, provider.KindCancelled) // as a probe it shows nothing
	} else {
		l.health.Observe(now, err)
		s.guard(now, j, err.Kind)
	}
	d := s.policyOf(j).Decide(now, s.rand.Float64, &j.state, &l.health, err, j.rec.Never)
	// After a refusal the limiter pauses by itself, with a single call first, and
	// a breaker goes by its own probes.
	out := outcomes[err.Kind]
	broken := s.guarded() && retry.RouteWide(err.Kind) && !err.HasRetryAfter
	if (out == limit.OK || out == limit.Overloaded) && !broken && d.Pause.After(l.paused) {
		l.paused = d.Pause
	}
	v := verdict{notBefore: d.NotBefore, status: checkpoint.Delayed}
	switch d.Action {
	case retry.Retry:
		v.again = true
		if err.Unknown() {
			v.status = checkpoint.Unknown
		}
	case retry.Hold:
		v.status, v.notBefore = checkpoint.Unknown, time.Time{}
	case retry.DeadLetter:
		v.status = checkpoint.DeadLetter
		v.dead = deadLetter{class: d.Kind.String(), code: codeOf(err), msg: err.Message, status: err.StatusCode, body: err.Body}
		if d.Kind != err.Kind {
			v.dead.msg = d.Reason
		}
	default: // Park, Stop, Leave: the operation stays pending
		v.notBefore = time.Time{}
		s.halt(now, l, d)
	}
	if err.Unknown() && (v.status == checkpoint.DeadLetter || d.Action == retry.Hold) && s.findable(j) {
		return s.lookFirst(j, err.SentAt, func(now time.Time) verdict {
			if j.way.choice() {
				s.fallBack(now, j, err, d, &v)
			}
			return v
		})
	}
	if j.way.choice() {
		s.fallBack(now, j, err, d, &v)
	}
	if l.down != nil && !v.again && v.status == checkpoint.Delayed {
		s.leave(l.down)
	}
	return v
}

// guard tells the breaker of a job's lane of a failure.
func (s *scheduler) guard(now time.Time, j *job, kind provider.Kind) {
	if !s.guarded() {
		return
	}
	l := s.lane(j)
	l.breaker.Observe(now, j.granted, kind)
	if retry.RouteWide(kind) {
		l.failing = kind
		l.breaker.Hurry(now, l.health.End(s.policyOf(j)))
	}
}

// stations are the lanes that the job's route leads to.
func (s *scheduler) stations(j *job) []*lane {
	if !j.way.choice() {
		return []*lane{s.lane(j)}
	}
	all := make([]*lane, len(j.way.Lanes))
	for i := range all {
		all[i] = s.lanes[s.laneAt(j, i)]
	}
	return all
}

// outage says of a job that has just failed that its provider is down and no
// other target takes it. One that has not been tried by the time the circuit is
// open takes over for other reasons.
func (s *scheduler) outage(now time.Time, j *job) bool {
	l := s.lane(j)
	if !s.guarded() {
		return l.paused.After(now)
	}
	open := l.breaker.State(now) != route.Closed
	for _, o := range s.stations(j) {
		switch {
		case o.down != nil, o.health.Down(), o.breaker.State(now) != route.Closed:
		case o != l && open && !o.health.Tried():
		default:
			return false
		}
	}
	return true
}

// policyOf is the retry policy of a job's route.
func (s *scheduler) policyOf(j *job) retry.Policy {
	if j.way.Route == nil {
		return s.policy
	}
	p := j.way.Policy
	p.HoldUnknown, p.MaxWait, p.MaxOutage = s.policy.HoldUnknown, s.policy.MaxWait, s.policy.MaxOutage
	return p
}

// fallBack looks whether another target of the job's route takes it after a
// failure. A target that has had all its attempts is not asked again.
func (s *scheduler) fallBack(now time.Time, j *job, err *provider.Error, d retry.Decision, v *verdict) {
	if d.Action == retry.Hold || d.Action == retry.Leave {
		return
	}
	spent := d.Action == retry.DeadLetter
	j.way.met |= route.Conditions(err, spent)
	if spent {
		j.way.tried = j.way.tried.With(j.way.at)
	} else if err.Unknown() || s.doubtful(now, j) {
		return // the same provider first, with the same key
	}
	at, reason, ok := s.choose(now, j, asItIs)
	if !ok && (spent || s.lane(j).down != nil) {
		at, reason, ok = s.choose(now, j, waitedOn)
	}
	if !ok || at == j.way.at || !s.move(now, j, at, reason) {
		return
	}
	if spent {
		j.state = retry.State{Own: j.state.Own}
	}
	*v = verdict{status: checkpoint.Delayed, again: true}
}

// halt ends sending on a lane as the policy says.
func (s *scheduler) halt(now time.Time, l *lane, d retry.Decision) {
	if d.Action == retry.Leave {
		return
	}
	stop := &Stop{Kind: StopProvider, Class: d.Kind.String(), Reason: d.Reason, Hint: retry.Advice(d.Kind)}
	if l.Configured {
		stop.Hint = retry.Configured(d.Kind)
	}
	if d.Action == retry.Park {
		stop.Kind, stop.Until = StopBound, d.NotBefore
	}
	s.shut(now, l, stop, d.Kind)
}

// stored counts what became durable and takes back what is to be sent again.
func (s *scheduler) stored(j *job, v verdict) {
	s.storing--
	if !v.again {
		s.press.finished(j)
	}
	switch {
	case v.again:
		if v.status == checkpoint.Unknown {
			s.unsettled++
		}
		if s.serves(j) {
			break
		}
		if l := s.lane(j); l.down == nil {
			s.size += len(j.rec.Body)
			l.delayed.Push(j, v.notBefore)
			s.tell(j.due, j, Event{What: Queued})
		} else if s.assign(v.notBefore, j) && !s.serves(j) { // the lane went down meanwhile
			s.size += len(j.rec.Body)
			s.lane(j).enqueue(j)
			s.tell(j.due, j, Event{What: Queued})
		}
	case v.status == checkpoint.Completed:
		s.count.Completed++
		if j.kept != nil {
			s.size -= j.kept.Size()
		}
		s.count.degraded(j.op.Degraded)
	case v.status == checkpoint.DeadLetter:
		s.count.Failed++
		c := s.count.Classes[j.op.Class]
		if c == nil {
			c = &classCount{}
			s.count.Classes[j.op.Class] = c
		}
		if c.N++; c.N == 1 || j.rec.Line < c.Line {
			c.Line, c.Example = j.rec.Line, v.dead.msg
		}
	case v.status == checkpoint.Unknown:
		s.count.Held++
	}
}

func (s *scheduler) noteUnknown(id string) {
	s.count.Unknowns++
	if len(s.count.Unknown) < maxListed && !slices.Contains(s.count.Unknown, id) {
		s.count.Unknown = append(s.count.Unknown, id)
	}
}

func codeOf(err *provider.Error) string {
	if err.Code != "" {
		return err.Code
	}
	return err.Kind.String()
}
