package runner

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/queue"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// scheduler decides what is sent when and what failures lead to. It has no
// goroutine and no clock: the dispatcher drives it with wall time, the dry
// run with virtual time. One goroutine owns it.
type scheduler struct {
	accounting limit.Accounting
	learned    bool // reserve the learned output under a cap too
	policy     retry.Policy
	rand       *rand.Rand
	money      purse

	limiter *limit.Limiter
	health  retry.Health
	ready   queue.Ready[*job]
	delayed queue.Delayed[*job]
	outputs outputStats
	ratios  ratios

	wire    int // granted, not yet answered
	storing int // answered or refused, not yet durable
	waiting int // for the result of an identical request
	// Rows of unknown outcome that are to be sent again.
	unsettled int
	size      int // bytes of the bodies that wait in ready
	wait      limit.Wait
	paused    time.Time // until then the provider is taken to be down
	stop      *Stop
	count     counts
}

func newScheduler(c *Config, p *plan, now time.Time) *scheduler {
	seed := uint64(now.UnixNano())
	s := &scheduler{
		accounting: c.Accounting, learned: c.Learned, policy: c.Policy, rand: rand.New(rand.NewPCG(seed, seed>>32)),
		money: purse{price: c.Price, limit: c.MaxCost, spent: c.Price.Cost(p.usage.Input, p.usage.Output)},
		count: counts{Classes: map[string]*classCount{}}, unsettled: p.unsettled,
	}
	// Charges are corrected here, so the limiter takes what it is told.
	s.limiter = limit.New(limit.Config{Limits: c.Limits, Accounting: c.Accounting, Refund: true, Rand: s.rand}, now)
	for _, a := range p.seeds {
		s.limiter.Seed(a.at, a.cost)
	}
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
	Unknown                               []string // operation IDs, the first maxListed
	Unknowns                              int64
	FirstSent, LastSent, LastDone         time.Time
}

// classCount is what a summary says of one class of dead letters.
type classCount struct {
	N       int64
	Line    int // of the first
	Example string
}

// push takes a counted job. It returns the dead letter of a job that no wait
// can help.
func (s *scheduler) push(now time.Time, j *job) *deadLetter {
	if j.refuse != nil {
		return j.refuse
	}
	// A row never counts as too large on account of a learned output.
	sure := s.chargeOf(j, int64(j.tokens.MaxOutput))
	if name, n, never := s.limiter.Never(sure); never {
		class := classTooLarge + name
		return &deadLetter{class: class, code: class, msg: fmt.Sprintf(
			"the request reserves %d tokens, more than the whole limit %s %d: lower max_tokens, split the prompt or raise the limit",
			sure.Tokens+sure.Output, name, n)}
	}
	if j.op.Status == checkpoint.Unknown {
		s.unsettled++
	}
	if j.op.NotBefore.After(now) {
		s.delayed.Push(j, j.op.NotBefore)
		return nil
	}
	s.enqueue(j)
	return nil
}

func (s *scheduler) enqueue(j *job) {
	s.charge(j)
	s.size += len(j.rec.Body)
	s.ready.Push(j, queue.Priority(j.rec.Priority), j.weight())
}

// charge sets what the job takes from the limiter.
func (s *scheduler) charge(j *job) {
	j.reserved = int64(j.tokens.MaxOutput)
	if learned := s.outputs.p99(); j.reserved == 0 || s.learned && learned < j.reserved {
		j.reserved = learned
	}
	if noOutput(j.rec.API) {
		j.reserved = 0
	}
	j.cost = s.cut(s.chargeOf(j, j.reserved))
}

// cut makes a charge fit the limits that the user gave. Push has refused what
// can never fit, so what is too large here is so by what was learned, and
// would otherwise wait for ever.
func (s *scheduler) cut(c limit.Cost) limit.Cost {
	for {
		name, n, never := s.limiter.Never(c)
		switch {
		case !never:
			return c
		case name == "itpm":
			c.Tokens = n
		case name == "otpm":
			c.Output = n
		default:
			c.Output = max(0, min(c.Output, n-c.Tokens))
			c.Tokens = min(c.Tokens, n)
		}
	}
}

// noOutput says that an API's answers have no output tokens to reserve.
func noOutput(api string) bool { return api == "/embeddings" || api == "/moderations" }

// chargeOf is the pacing charge: OpenAI's limiter goes by characters
// (providers' measured rule: ceil(characters/4)+1), other servers by tokens.
// The larger of the two is safe for both until the answer's usage is known.
func (s *scheduler) chargeOf(j *job, output int64) limit.Cost {
	byChars := int64(j.tokens.Chars+3)/4 + 1
	return s.accounting.Charge(max(s.prompt(j), byChars), output)
}

// prompt is what the job's prompt is likely to be billed.
func (s *scheduler) prompt(j *job) int64 {
	return s.ratios.correct(j.rec.Model, int64(j.tokens.Prompt))
}

// usedBy is what an answered call turns out to charge. The output stays as it
// was reserved, since no provider is known to give it back; the prompt part
// becomes what was billed, but where the limiter goes by characters.
func (s *scheduler) usedBy(j *job, u provider.Usage) (limit.Cost, bool) {
	if !u.Known || s.accounting == limit.Max {
		return limit.Cost{}, false
	}
	return s.cut(s.accounting.Charge(u.Input, max(j.reserved, u.Output))), true
}

// wants says whether the queue should be fed.
func (s *scheduler) wants() bool {
	return s.ready.Len() < queue.LookAhead && s.size < maxReadyBytes && s.stop == nil
}

// maxReadyBytes bounds the bodies that wait in memory.
const maxReadyBytes = 64 << 20

// next grants the job that goes now, or nil and the moment to ask again; a
// zero moment means that an event has to come first.
func (s *scheduler) next(now time.Time) (*job, time.Time) {
	s.wait = limit.Wait{}
	if s.stop != nil {
		return nil, time.Time{}
	}
	for {
		j, due := s.delayed.Pop(now)
		if !due {
			break
		}
		s.enqueue(j)
	}
	wake, _ := s.delayed.Next()
	switch {
	case now.Before(s.paused):
		s.wait = limit.Wait{Until: s.paused, Reason: "provider down"}
		return nil, earliest(wake, s.paused)
	case s.ready.Len() == 0:
		if !wake.IsZero() && s.wire == 0 {
			s.wait = limit.Wait{Until: wake, Reason: "retry"}
		}
		return nil, wake
	}
	j := s.pick(now)
	if j == nil {
		if s.wait.Far(now) {
			s.wait.Until = time.Time{}
		}
		s.tooLong(now)
		return nil, earliest(wake, s.wait.Until)
	}
	s.size -= len(j.rec.Body)
	s.grant(now, j)
	return j, time.Time{}
}

// pick takes the job that fits best from the queue, with its reservation, or
// sets wait.
func (s *scheduler) pick(now time.Time) *job {
	room := s.limiter.Room(now)
	fit := queue.Fit{Tokens: room.Tokens, Output: room.Output}
	low, high := s.ready.Spread()
	fit.Want, fit.Slack, fit.Balance = s.limiter.Balance(now, low, high)
	var j *job
	ok := room.Requests > 0
	if ok {
		j, ok = s.ready.Pop(fit)
	}
	if !ok {
		lightest, _ := s.ready.Lightest()
		s.wait = s.limiter.Peek(now, limit.Cost{Requests: 1, Tokens: lightest})
		return nil
	}
	back := func() { s.ready.PushFront(j, queue.Priority(j.rec.Priority), j.weight()) }
	if !s.money.affords(j) {
		back()
		if s.wire > 0 {
			s.wait = limit.Wait{Until: now.Add(time.Hour), Reason: "cost bound"} // until a call settles
			return nil
		}
		s.stop = &Stop{
			Kind: StopBound, Reason: "the next call could pass the cost bound of " + s.money.limit.String() + "; spent so far: " + s.money.spent.String(),
			Hint: "raise --max-cost, then run the same command again",
		}
		return nil
	}
	t, wait := s.limiter.Reserve(now, j.cost)
	if wait.Reason != limit.Granted {
		back()
		s.wait = wait
		return nil
	}
	j.ticket = t
	return j
}

// tooLong ends a run that has nothing to do but to wait for longer than the
// user allows: for a day's limit, as a rule.
func (s *scheduler) tooLong(now time.Time) {
	if s.stop != nil || s.wire+s.storing > 0 || s.wait.Until.Sub(now) <= s.policy.OrDefaults().MaxWait {
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
	j.granted, j.onWire = now, true
	s.wire++
	s.money.reserve(j)
	s.count.Calls++
	s.count.TokensReserved += j.cost.Tokens + j.cost.Output
	if j.tokens.MaxOutput == 0 {
		s.count.Uncapped++
	}
	if len(j.op.Attempts) > 0 {
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
	s.limiter.Sent(at, j.ticket)
	if s.count.FirstSent.IsZero() {
		s.count.FirstSent = at
	}
	s.count.LastSent = at
}

// idle says that nothing waits and nothing is under way.
func (s *scheduler) idle() bool {
	if s.wire > 0 || s.storing > 0 {
		return false
	}
	return s.stop != nil || s.ready.Len()+s.delayed.Len()+s.waiting == 0
}
