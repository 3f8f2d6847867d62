package runner

import (
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// answered settles a call that brought a whole answer.
func (s *scheduler) answered(now time.Time, j *job, resp *provider.Response) {
	s.left(j)
	s.health.Observe(now, nil)
	used, known := s.usedBy(j, resp.Usage)
	s.limiter.Settle(now, j.ticket, limit.Answer{Used: used, Known: known, Report: report(resp.Rate)})
	s.money.settle(j, resp.Usage)
	c := &s.count
	if resp.Usage.Known {
		if !noOutput(j.rec.API) {
			s.outputs.add(resp.Usage.Output)
		}
		s.ratios.add(j.rec.Model, int64(j.tokens.Prompt), resp.Usage.Input)
		c.TokensUsed += resp.Usage.Input + resp.Usage.Output
		c.Used.Input += resp.Usage.Input
		c.Used.Output += resp.Usage.Output
		c.Used.Cached += resp.Usage.Cached
		c.Used.Reasoning += resp.Usage.Reasoning
	}
	c.LastDone = now
	switch resp.Finish {
	case provider.FinishLength:
		c.Truncated++
	case provider.FinishRefused, provider.FinishContentFilter:
		c.Refused++
	}
}

// failed settles a call without an answer and decides what follows.
func (s *scheduler) failed(now time.Time, j *job, err *provider.Error) verdict {
	s.left(j)
	a := limit.Answer{Outcome: outcomes[err.Kind], RetryAfter: err.RetryAfter, Hinted: err.HasRetryAfter, Reset: err.Reset, Report: report(err.Rate)}
	if a.Outcome == limit.OK {
		a.Outcome = limit.Failed
	}
	if a.Outcome == limit.RateLimit || a.Outcome == limit.SlowDown {
		s.count.RateLimited++
	}
	if err.Sent || err.Kind == provider.KindLocal {
		s.limiter.Settle(now, j.ticket, a)
	} else {
		s.limiter.Cancel(now, j.ticket)
	}
	s.money.fail(j, err.Unknown())
	if err.Unknown() {
		s.noteUnknown(j.op.ID)
	}
	return s.decide(now, j, err)
}

// decide asks the policy and carries its decision out as far as it is the
// scheduler's.
func (s *scheduler) decide(now time.Time, j *job, err *provider.Error) verdict {
	s.health.Observe(now, err)
	d := s.policy.Decide(now, s.rand.Float64, &j.state, &s.health, err, j.rec.Never)
	// After a refusal the limiter pauses by itself, with a single call first.
	if out := outcomes[err.Kind]; (out == limit.OK || out == limit.Overloaded) && d.Pause.After(s.paused) {
		s.paused = d.Pause
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
		v.dead = deadLetter{class: d.Kind.String(), code: codeOf(err), msg: err.Message, status: err.StatusCode}
		if d.Kind != err.Kind {
			v.dead.msg = d.Reason
		}
	default: // Park, Stop, Leave: the operation stays pending
		v.notBefore = time.Time{}
		s.halt(d)
	}
	return v
}

// halt ends sending, since the route is the only one.
func (s *scheduler) halt(d retry.Decision) {
	if s.stop != nil || d.Action == retry.Leave {
		return
	}
	s.stop = &Stop{Kind: StopProvider, Class: d.Kind.String(), Reason: d.Reason, Hint: retry.Advice(d.Kind)}
	if d.Action == retry.Park {
		s.stop.Kind, s.stop.Until = StopBound, d.NotBefore
	}
}

// stored counts what became durable and takes back what is to be sent again.
func (s *scheduler) stored(j *job, v verdict) {
	s.storing--
	switch {
	case v.again:
		if v.status == checkpoint.Unknown {
			s.unsettled++
		}
		s.delayed.Push(j, v.notBefore)
	case v.status == checkpoint.Completed:
		s.count.Completed++
	case v.status == checkpoint.DeadLetter:
		s.count.Failed++
		c := s.count.Classes[j.op.Class]
		if c == nil {
			c = &classCount{Line: j.rec.Line, Example: v.dead.msg}
			s.count.Classes[j.op.Class] = c
		}
		c.N++
	case v.status == checkpoint.Unknown:
		s.count.Held++
	}
}

func (s *scheduler) noteUnknown(id string) {
	s.count.Unknowns++
	if len(s.count.Unknown) < maxListed {
		s.count.Unknown = append(s.count.Unknown, id)
	}
}

func codeOf(err *provider.Error) string {
	if err.Code != "" {
		return err.Code
	}
	return err.Kind.String()
}
