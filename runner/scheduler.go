package runner

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/queue"
	"github.com/llmbatch/llmbatch/runner/retry"
	"github.com/llmbatch/llmbatch/runner/route"
)

// scheduler decides what is sent when and what failures lead to. It has no
// goroutine and no clock: the dispatcher drives it with wall time, the dry
// run with virtual time. One goroutine owns it.
type scheduler struct {
	policy retry.Policy // of jobs without a route
	steer  func(j *job, at int) error
	rand   *rand.Rand
	money  purse
	lanes  []*lane
	limits []*limit.Limiter // of the lanes, each once
	turn   int              // the lane that is asked first

	wire    int // granted, not yet answered
	storing int // answered or refused, not yet durable
	waiting int // for the result of an identical request
	// Rows of unknown outcome that are to be sent again.
	unsettled int
	stranded  int // left pending, since nothing can take them in this run
	size      int // bytes of the bodies that wait
	wait      limit.Wait
	stop      *Stop
	count     counts
}

func newScheduler(c *Config, p *plan, now time.Time) *scheduler {
	seed := uint64(now.UnixNano())
	s := &scheduler{
		policy: c.Policy, steer: c.steer, rand: rand.New(rand.NewPCG(seed, seed>>32)),
		count: counts{Classes: map[string]*classCount{}, Fallbacks: map[fallback]int64{}}, unsettled: p.unsettled,
	}
	groups := map[string]*limit.Limiter{}
	for i := range c.Targets {
		t := &c.Targets[i]
		limiter := groups[t.Group]
		if limiter == nil {
			// Charges are corrected by the lanes, so the limiter takes what it is told.
			limiter = limit.New(limit.Config{Limits: t.Limits, Accounting: t.Accounting, Refund: true, Rand: s.rand}, now)
			groups[t.Group] = limiter
			s.limits = append(s.limits, limiter)
		}
		s.lanes = append(s.lanes, &lane{Target: t, limiter: limiter, learned: c.Learned})
	}
	for _, a := range p.seeds {
		for _, t := range s.lanes {
			if t.Provider == a.provider && (t.Model == a.model || t.Model == "") {
				t.limiter.Seed(a.at, a.cost)
				break
			}
		}
	}
	s.money = purse{limit: c.MaxCost, spent: p.spent}
	return s
}

// counts are the figures of this run alone.
type counts struct {
	Calls, Retries, RateLimited, Uncapped int64
	TokensReserved, TokensUsed            int64
	Used                                  checkpoint.Usage
	Completed, Failed, Held               int64
	Truncated, Refused, Suppressed        int64
	Classes                               map[string]*classCount
	Fallbacks                             map[fallback]int64
	Unknown                               []string // operation IDs, the first maxListed
	Unknowns                              int64
	FirstSent, LastSent, LastDone         time.Time
	PeakRequests, PeakTokens              int64 // the most in any rolling minute, by the limiters
}

// classCount is what a summary says of one class of dead letters.
type classCount struct {
	N       int64
	Line    int // of the first
	Example string
}

// lane is where the job waits or is under way.
func (s *scheduler) lane(j *job) *lane { return s.lanes[j.lane] }

// push takes a counted job. It returns the dead letter of a job that no wait
// can help.
func (s *scheduler) push(now time.Time, j *job) *deadLetter {
	if j.refuse != nil {
		return j.refuse
	}
	// An unknown outcome goes to the same provider first.
	if j.op.Status == checkpoint.Unknown {
		s.resume(j)
	} else {
		s.place(now, j)
	}
	if name, n, never := s.never(j); never {
		class := classTooLarge + name
		return &deadLetter{class: class, code: class, msg: fmt.Sprintf(
			"the request alone is more than the whole limit %s %d: lower max_tokens, split the prompt or raise the limit", name, n)}
	}
	if j.op.Status == checkpoint.Unknown {
		s.unsettled++
	}
	l := s.lane(j)
	s.size += len(j.rec.Body)
	switch {
	case l.down != nil:
		s.strand(j)
	case j.op.NotBefore.After(now):
		l.delayed.Push(j, j.op.NotBefore)
	default:
		l.enqueue(j)
	}
	return nil
}

// never says that a job is larger than a whole limit. It is not so on account
// of a learned output.
func (s *scheduler) never(j *job) (limit string, n int64, never bool) {
	l := s.lane(j)
	return l.limiter.Never(l.chargeOf(j, int64(j.tokens.MaxOutput)))
}

// delayed counts the jobs that wait for their time.
func (s *scheduler) delayed() (n int) {
	for _, l := range s.lanes {
		n += l.delayed.Len()
	}
	return n
}

// wants says whether the queues should be fed.
func (s *scheduler) wants() bool {
	waiting := 0
	for _, l := range s.lanes {
		waiting += l.ready.Len()
	}
	return waiting < queue.LookAhead*len(s.lanes) && s.size < maxReadyBytes && s.stop == nil
}

// maxReadyBytes bounds the bodies that wait in memory.
const maxReadyBytes = 64 << 20

// next grants the job that goes now, or nil and the moment to ask again; a
// zero moment means that an event has to come first. Lanes are asked in turn.
func (s *scheduler) next(now time.Time) (*job, time.Time) {
	s.wait = limit.Wait{}
	if s.stop != nil {
		return nil, time.Time{}
	}
	var wake time.Time
	for range s.lanes {
		l := s.lanes[s.turn]
		s.turn = (s.turn + 1) % len(s.lanes)
		j, until := s.ask(now, l)
		if j != nil {
			s.grant(now, j)
			return j, time.Time{}
		}
		wake = earliest(wake, until)
	}
	s.tooLong(now)
	return nil, wake
}

// ask lets one lane grant a job, or notes what it waits for. The wait that
// ends first is the run's.
func (s *scheduler) ask(now time.Time, l *lane) (*job, time.Time) {
	if l.down != nil {
		return nil, time.Time{}
	}
	wake := l.wake(now)
	var wait limit.Wait
	switch {
	case now.Before(l.paused):
		wait = limit.Wait{Until: l.paused, Reason: waitDown}
		for s.spill(now, l) {
		}
	case len(s.lanes) > 1 && l.breaker.State(now) == route.Open:
		wait = limit.Wait{Until: l.breaker.Until(), Reason: waitOpen}
		for s.spill(now, l) {
		}
	case l.ready.Len() == 0:
		if !wake.IsZero() && s.wire == 0 {
			wait = limit.Wait{Until: wake, Reason: waitRetry}
		}
	default:
		var j *job
		if j, wait = l.pick(now, s.affords); j != nil {
			return j, time.Time{}
		}
		switch wait.Reason {
		case limit.AtCeiling, limit.AtSpread:
		case waitCost:
			if s.wire == 0 {
				s.stop = s.money.stop()
			}
		default:
			for s.spill(now, l) {
			}
		}
	}
	if wait.Far(now) {
		wait.Until = time.Time{}
	}
	if wait.Reason != limit.Granted && (s.wait.Reason == limit.Granted || earliest(s.wait.Until, wait.Until) == wait.Until) {
		s.wait = wait
	}
	return nil, earliest(wake, wait.Until)
}

func (s *scheduler) affords(j *job) bool { return s.money.affords(s.lane(j).Price, j) }

// tooLong ends a run that has nothing to do but to wait for longer than the
// user allows: for a day's limit, as a rule.
func (s *scheduler) tooLong(now time.Time) {
	most := s.policy.OrDefaults().MaxWait
	most += most / 8 // a hint within the bound is waited for with its jitter
	if s.stop != nil || s.wire+s.storing > 0 || s.wait.Until.Sub(now) <= most {
		return
	}
	s.stop = &Stop{
		Kind: StopBound, Until: s.wait.Until,
		Reason: fmt.Sprintf("the next call would have to wait longer than --max-wait %s (%s)", s.policy.OrDefaults().MaxWait, s.wait.Reason),
		Hint:   "run the same command again then, or allow the wait with --max-wait",
	}
}

func (s *scheduler) grant(now time.Time, j *job) {
	if j.op.Status == checkpoint.Unknown {
		s.unsettled--
	}
	if len(s.lanes) > 1 {
		s.lane(j).breaker.Allow(now)
	}
	j.granted, j.onWire = now, true
	s.wire++
	s.size -= len(j.rec.Body)
	s.money.reserve(s.lane(j).Price, j)
	s.count.Calls++
	s.count.TokensReserved += j.cost.Tokens + j.cost.Output
	if j.tokens.MaxOutput == 0 && !noOutput(j.rec.API) {
		s.count.Uncapped++
	}
	if j.tries() > 0 {
		s.count.Retries++
	}
}

// left takes a job off the wire; storing what became of it follows.
func (s *scheduler) left(j *job) {
	j.onWire = false
	s.wire--
	s.storing++
}

// lost ends a job whose row or line could not be written.
func (s *scheduler) lost(j *job) {
	if j.onWire {
		s.left(j)
	}
	s.storing--
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// sent starts the time after which the charge leaves the window.
func (s *scheduler) sent(at time.Time, j *job) {
	s.lane(j).limiter.Sent(at, j.ticket)
	if s.count.FirstSent.IsZero() {
		s.count.FirstSent = at
	}
	s.count.LastSent = at
}

// observe notes how much the last minute holds.
func (s *scheduler) observe(now time.Time) {
	var requests, tokens int64
	for _, l := range s.limits {
		st := l.State(now)
		requests += st.Requests
		tokens += st.Tokens
	}
	s.count.PeakRequests, s.count.PeakTokens = max(s.count.PeakRequests, requests), max(s.count.PeakTokens, tokens)
}

// idle says that nothing waits and nothing is under way.
func (s *scheduler) idle() bool {
	if s.wire > 0 || s.storing > 0 {
		return false
	}
	if s.stop != nil {
		return true
	}
	left := s.waiting
	for _, l := range s.lanes {
		left += l.ready.Len() + l.delayed.Len()
	}
	return left == 0
}
