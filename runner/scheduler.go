package runner

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/cache"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
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
	kept   func(*job) *cache.Entry             // nil = no answers are kept
	keptBy func(j *job, lane int) *cache.Entry // of any target; nil likewise
	rand   *rand.Rand
	watch  func(Event) // nil = nobody; the dry run's are not told
	moved  func(*lane) // gets a lane whose provider turned out to charge in another way; nil = nobody
	began  time.Time
	money  purse
	lanes  []*lane
	limits []*limit.Limiter // of the lanes, each once
	turn   int              // the lane that is asked first
	given  int              // the lanes of targets that were configured; the others are of models that lines keep
	own    func(target int, model string) int

	press  pressure
	trip   float64 // how long calls with their whole output take, smoothed, s; 0 = not known yet
	parked []int   // entries that are held and would only fill the memory

	served  []*job // to be served by an answer that is kept
	lookups []*job // to be looked up
	looking int    // look-ups that are out
	wire    int    // granted, not yet answered
	open    sums   // what those have taken from the limits
	storing int    // answered or refused, not yet durable
	// Rows of unknown outcome that are to be sent again.
	unsettled int
	stays     *Stop // why some are left pending, since nothing takes them in this run
	size      int   // bytes of the bodies that wait
	wait      limit.Wait
	waits     *lane // whose wait that is; nil = nobody's
	stop      *Stop
	count     counts
}

func newScheduler(c *Config, p *plan, now time.Time) *scheduler {
	chance := uint64(now.UnixNano())
	s := &scheduler{
		policy: c.Policy, began: now, steer: c.redirect, rand: rand.New(rand.NewPCG(chance, chance>>32)),
		count: counts{Classes: map[string]*classCount{}, Fallbacks: map[fallback]int64{}, DegradedBy: map[string]int64{}}, unsettled: p.unsettled,
		own: c.at, given: c.given,
	}
	if s.given == 0 {
		s.given = len(c.Targets)
	}
	groups := map[string]*limit.Limiter{}
	for i := range c.Targets {
		t := &c.Targets[i]
		limiter := groups[t.Group]
		if limiter == nil {
			// Charges are corrected by the lanes, so the limiter takes what it is told.
			limits := t.Limits
			limits.Concurrency = c.concurrency(t.Group)
			limiter = limit.New(limit.Config{Limits: limits, Accounting: t.Accounting, Refund: true, Rand: s.rand}, now)
			if known, ok := p.charging[t.account()]; ok && c.follows(t.Group) {
				limiter.Take(known)
			}
			groups[t.Group] = limiter
			s.limits = append(s.limits, limiter)
		}
		l := &lane{Target: t, limiter: limiter, learned: c.Learned, follows: c.follows(t.Group), press: &s.press}
		if t.from > 0 {
			l.base = s.lanes[t.from-1]
		}
		s.lanes = append(s.lanes, l)
	}
	for _, a := range slices.SortedFunc(maps.Keys(p.seeds), func(a, b seed) int { return cmp.Compare(a.at, b.at) }) {
		s.lanes[a.target].limiter.Seed(time.Unix(0, a.at), p.seeds[a])
	}
	for _, o := range p.outputs {
		if n := serves(c.Targets, o.provider, o.model); n >= 0 {
			s.lanes[n].outputs.add(o.tokens)
		}
	}
	s.money = purse{limit: c.MaxCost, spent: p.spent}
	return s
}

// concurrency is how many calls a limit group may have on the wire, by what the
// user allows its targets; 0 = the user has not said.
func (c *Config) concurrency(group string) (n int) {
	for _, t := range c.Targets {
		if t.Group == group && (t.from == 0 || c.Targets[t.from-1].Group != group) {
			if t.Limits.Concurrency == 0 {
				return 0
			}
			n += t.Limits.Concurrency
		}
	}
	return n
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
	if j.op.Status == checkpoint.Unknown && j.kept == nil {
		s.resume(j)
	}
	assigned := j.kept != nil || s.assign(now, j)
	if name, n, never := s.never(j); never && j.kept == nil {
		class := classTooLarge + name
		return &deadLetter{class: class, code: class, msg: fmt.Sprintf(
			"the request alone is more than the whole limit %s %d: lower max_tokens, split the prompt or raise the limit", name, n)}
	}
	if j.op.Status == checkpoint.Unknown {
		s.unsettled++
	}
	if !assigned || s.serves(j) || s.substitute(j) {
		return nil
	}
	l := s.lane(j)
	s.size += len(j.rec.Body)
	j.due = now
	switch {
	case j.op.NotBefore.After(now):
		j.due = j.op.NotBefore
		l.delayed.Push(j, j.op.NotBefore)
	default:
		s.ready(j)
	}
	s.tell(j.due, j, Event{What: Queued})
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
	waiting, size := 0, s.size
	for _, l := range s.lanes {
		waiting += l.ready.Len()
		size -= l.bytes // what is held must not keep others out
	}
	return waiting < queue.LookAhead*min(len(s.lanes), maxQueues) && s.storing < queue.LookAhead && size < maxReadyBytes && s.stop == nil
}

// maxQueues bounds what waits where there are many lanes: it is fed in the order
// of lines, whatever their lanes.
const maxQueues = 16

// maxReadyBytes bounds the bodies, and kept answers, that wait in memory.
const maxReadyBytes = 64 << 20

// next grants the job that goes now, or nil and the moment to ask again; a
// zero moment means that an event has to come first. Lanes are asked in turn.
func (s *scheduler) next(now time.Time) (*job, time.Time) {
	s.wait, s.waits = limit.Wait{}, nil
	if s.stop != nil {
		return nil, time.Time{}
	}
	if j := s.nextServed(now); j != nil {
		return j, time.Time{}
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
	return s.nextLookUp(), wake
}

// ask lets one lane grant a job, or notes what it waits for. The wait that
// ends first is the run's.
func (s *scheduler) ask(now time.Time, l *lane) (*job, time.Time) {
	if l.down != nil {
		return nil, time.Time{}
	}
	wake := s.wake(now, l)
	var wait limit.Wait
	switch {
	case now.Before(l.paused):
		wait = limit.Wait{Until: l.paused, Reason: waitDown}
	case s.guarded() && l.breaker.State(now) == route.Open:
		wait = limit.Wait{Until: l.breaker.Until(), Reason: waitOpen}
	case l.ready.Len() == 0:
		if !wake.IsZero() && s.wire == 0 {
			wait = limit.Wait{Until: wake, Reason: waitRetry}
		}
	default:
		j := s.degrade(now, l)
		if j != nil {
			return j, time.Time{}
		}
		if j, wait = l.pick(now, s.affords); j != nil {
			return j, time.Time{}
		}
		if wait.Reason == waitCost && s.wire == 0 {
			s.stop = s.money.stop()
		}
	}
	if s.guarded() && l.ready.Len() > 0 && wait.Reason != waitCost {
		j, at := s.spill(now, l)
		if j != nil {
			return j, time.Time{}
		}
		wake = earliest(wake, at)
	}
	// These end when a call does, at no moment that is known.
	if wait.Far(now) || wait.Reason == limit.AtCeiling || wait.Reason == waitCost {
		wait.Until = time.Time{}
	}
	if wait.Reason != limit.Granted && (s.wait.Reason == limit.Granted || earliest(s.wait.Until, wait.Until) == wait.Until) {
		s.wait, s.waits = wait, l
	}
	if s.tooFar(now, l, wait) {
		return nil, now
	}
	return nil, earliest(wake, wait.Until)
}

// guarded says that there is more than one target, so that circuits break and
// jobs may go elsewhere.
func (s *scheduler) guarded() bool { return s.given > 1 }

func (s *scheduler) affords(j *job) bool { return s.money.affords(s.lane(j).Price, j) }

// tooFar shuts a lane that has nothing to do but to wait for longer than the
// user allows: for a day's limit, as a rule. It tells whether it did.
func (s *scheduler) tooFar(now time.Time, l *lane, wait limit.Wait) bool {
	allowed := s.policy.OrDefaults().MaxWait
	most := allowed + allowed/8 // a hint within the bound is waited for with its jitter
	if s.stop != nil || wait.Reason == waitCost || wait.Reason == limit.AtCeiling || l.limiter.Concurrency().Wire() > 0 || s.storing > 0 || wait.Until.Sub(now) <= most {
		return false
	}
	kind := provider.KindRateLimited
	if wait.Until.Sub(now) > time.Hour {
		kind = provider.KindDailyLimit
	}
	stop := &Stop{
		Kind: StopBound, Until: wait.Until,
		Reason: fmt.Sprintf("the next call would have to wait longer than --max-wait %s (%s)", allowed, wait.Reason),
		Hint:   "run the same command again then, or allow the wait with --max-wait",
	}
	if wait.Until.Sub(now) > 365*24*time.Hour {
		// No moment that anyone means.
		stop.Until, stop.Hint = time.Time{}, "the server names no sensible time to come back at: run the same command again later"
	}
	s.shut(now, l, stop, kind)
	return true
}

func (s *scheduler) grant(now time.Time, j *job) {
	if j.op.Status == checkpoint.Unknown {
		s.unsettled--
	}
	l := s.lane(j)
	if s.guarded() {
		l.breaker.Allow(now)
	}
	j.granted, j.onWire, j.gave = now, true, s.press.asks(j)
	j.doubted = slices.ContainsFunc(j.op.Attempts, func(a checkpoint.Attempt) bool { return a.Class == ClassUnknown })
	s.wire++
	l.busy(1)
	s.open.add(j.cost)
	s.size -= len(j.rec.Body)
	s.money.reserve(l.Price, j)
	s.count.Calls++
	s.count.TokensReserved += j.cost.Tokens + j.cost.Output
	if !l.capped(j) {
		s.count.Uncapped++
	}
	j.attempt, j.went = j.tries()+1, false
	if j.again = j.wasSent(); j.again {
		s.count.Retries++
	}
	s.tellGrant(now, j)
}

// noCall takes back what grant counted: no byte of it left. There was no
// connection, or the client refused to make a request of the job, since the
// provider's format has no place for a field of it.
func (s *scheduler) noCall(j *job) {
	s.count.Calls--
	s.count.TokensReserved -= j.cost.Tokens + j.cost.Output
	if !s.lane(j).capped(j) {
		s.count.Uncapped--
	}
	if j.again {
		s.count.Retries--
	}
}

// left takes a job off the wire; storing what became of it follows.
func (s *scheduler) left(j *job) {
	j.onWire = false
	s.wire--
	s.open.add(limit.Cost{Requests: -j.cost.Requests, Tokens: -j.cost.Tokens, Output: -j.cost.Output})
	s.lane(j).busy(-1)
	s.storing++
}

// lost ends a job whose row or line could not be written. Without the row that goes
// ahead of it, there is no call.
func (s *scheduler) lost(j *job) {
	if j.onWire {
		s.left(j)
		s.noCall(j)
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
	s.tellSent(at, j)
	if s.count.FirstSent.IsZero() {
		s.count.FirstSent = at
	}
	s.count.LastSent = at
	s.count.SentAgain = s.count.SentAgain || j.doubted
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
	// Those that wait for the answer to an identical request wait for one that
	// is in a queue, on the wire or left pending.
	return s.queued() == 0
}

// queued is how many jobs wait for their turn or their time.
func (s *scheduler) queued() (n int) {
	for _, l := range s.lanes {
		n += l.ready.Len() + l.delayed.Len()
	}
	return n
}
