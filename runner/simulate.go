package runner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
)

// variant is the batch of a dry run under one set of settings. Variants may be
// simulated side by side.
type variant struct {
	*dryRun
	change    string // what is unlike the run that is asked about
	limits    func(limit.Limits) limit.Limits
	learned   bool
	divide    int32 // output caps are divided by it
	elsewhere int   // the one target that takes everything; -1 = as routes say

	sums     []limit.Cost  // what each limit group is asked for, by its first target
	heaviest int64         // of the operations, in charged tokens
	took     time.Duration // the makespan, once it is simulated
}

// asIs is the batch under the settings that the user gave.
func (d *dryRun) asIs() *variant {
	return &variant{dryRun: d, limits: func(l limit.Limits) limit.Limits { return l }, learned: d.Learned, divide: 1, elsewhere: -1}
}

// fill makes j the job of an operation as the scheduler takes it.
func (v *variant) fill(j *job, o *light) {
	*j = job{tokens: estimate.Tokens{Prompt: int(o.prompt), Chars: int(o.chars), MaxOutput: int((o.output + v.divide - 1) / v.divide)}}
	j.rec.Priority = o.priority
	if o.noOutput {
		j.rec.API = "/embeddings"
	}
	switch {
	case v.elsewhere >= 0:
		j.lane = v.elsewhere
	case o.route > 0:
		r := v.routes[o.route-1]
		j.way, j.lane = atStart(r, o.priority), r.Lanes[0]
	}
}

// scheduler is the run's own, under the variant's settings, with a part of its
// limits.
func (v *variant) scheduler(parts int64) *scheduler {
	c := *v.Config
	c.Learned, c.MaxCost = v.learned, 0
	c.Targets = slices.Clone(c.Targets)
	for i := range c.Targets {
		t := &c.Targets[i]
		t.Limits, t.Client = part(v.limits(t.Limits), parts), nobody{}
	}
	// A run stops at a long wait and is started again; the time goes on.
	c.Policy.MaxWait = 1 << 62
	s := newScheduler(&c, v.plan, v.started)
	s.steer = func(j *job, at int) error {
		j.way.at, j.lane = at, j.way.Lanes[at]
		return nil
	}
	return s
}

// nobody stands for a target that could be used; a dry run asks none.
type nobody struct{}

func (nobody) Do(context.Context, provider.Request) (*provider.Response, error) {
	return nil, errors.New("a dry run sends nothing")
}

// total is, for each limit group, the sum of what operations take from its
// limits once they are answered: with what their prompts are billed and, where
// outputs are learned, with their outputs. Each is taken to go to the first
// target of its route.
func (v *variant) total() []limit.Cost {
	if v.sums != nil {
		return v.sums
	}
	s := v.scheduler(1)
	sums := make([]limit.Cost, len(s.lanes))
	var j job
	for i := range v.ops {
		v.fill(&j, &v.ops[i])
		l := s.lane(&j)
		l.charge(&j)
		usage := v.usage(&j)
		if j.tokens.MaxOutput == 0 || v.learned {
			j.reserved = min(j.reserved, usage.Output)
			j.cost = l.cut(l.chargeOf(&j, j.reserved))
		}
		if used, known := l.usedBy(&j, usage); known {
			j.cost = used
		}
		sum := &sums[s.group(j.lane)]
		v.heaviest = max(v.heaviest, j.cost.Tokens+j.cost.Output)
		sum.Requests++
		sum.Tokens += j.cost.Tokens
		sum.Output += j.cost.Output
	}
	v.sums = sums
	return sums
}

// group is the first lane that has the same limiter.
func (s *scheduler) group(at int) int {
	return slices.IndexFunc(s.lanes, func(l *lane) bool { return l.limiter == s.lanes[at].limiter })
}

// charged is the total in tokens.
func (v *variant) charged() (n int64) {
	for _, sum := range v.total() {
		n += sum.Tokens + sum.Output
	}
	return n
}

// cost is the price of what is expected; ok is false if a price is not known.
func (v *variant) cost() (sum money.Amount, ok bool) {
	s := v.scheduler(1)
	var j job
	for i := range v.ops {
		v.fill(&j, &v.ops[i])
		l := s.lane(&j)
		if !l.Price.Known {
			return 0, false
		}
		l.charge(&j)
		sum += l.Price.Cost(int64(j.tokens.Prompt), v.usage(&j).Output)
	}
	return sum, len(v.ops) > 0 || v.Targets[0].Price.Known
}

// demand is how long each limit alone would take for all that is asked of it,
// in seconds at its steady rate. A day's limit that is not reached holds
// nothing up: it has its share of the day, negative.
func (v *variant) demand() []Share {
	all := []Share{}
	for i, sum := range v.total() {
		if sum.Requests == 0 {
			continue
		}
		t := &v.Targets[i]
		lim := v.limits(t.Limits)
		for _, s := range demand(&lim, sum, v.assume.Latency) {
			if len(v.Targets) > 1 {
				s.Target = t.name()
			}
			all = append(all, s)
		}
	}
	return all
}

func demand(lim *limit.Limits, sum limit.Cost, latency time.Duration) (all []Share) {
	const minute, day = 60, 86400
	add := func(name string, n int64, window, amount float64) {
		if n > 0 {
			all = append(all, Share{Limit: name, N: n, Use: window * amount / float64(n), window: window})
		}
	}
	daily := func(name string, n, amount int64) {
		if amount <= n {
			add(name, n, -1, float64(amount))
		} else {
			add(name, n, day, float64(amount))
		}
	}
	requests, tokens := float64(sum.Requests), sum.Tokens+sum.Output
	add("rpm", lim.RPM.N, minute, requests)
	add("tpm", lim.TPM.N, minute, float64(tokens))
	add("itpm", lim.ITPM.N, minute, float64(sum.Tokens))
	add("otpm", lim.OTPM.N, minute, float64(sum.Output))
	daily("rpd", lim.RPD.N, sum.Requests)
	daily("tpd", lim.TPD.N, tokens)
	if lim.Concurrency > 0 {
		add("concurrency", int64(lim.Concurrency), latency.Seconds(), requests)
	} else if sum.Requests > limit.DefaultCeiling {
		add("concurrency", limit.DefaultCeiling, latency.Seconds(), requests)
	}
	return all
}

// shared says that operations may go to another target than the first of
// their route.
func (v *variant) shared() bool {
	return v.elsewhere < 0 && slices.ContainsFunc(v.routes, func(r *Route) bool { return len(r.Lanes) > 1 })
}

// sustained is how long the batch takes at the steady rate of what binds, in
// seconds: without an end that leaves the limits unused, as far as it is known
// who takes what.
func (v *variant) sustained() float64 {
	longest := 0.0
	for _, s := range v.demand() {
		longest = max(longest, s.Use)
	}
	if took := v.took.Seconds(); longest == 0 || v.shared() && took < longest {
		return took
	}
	return longest
}

// binding names the limit that takes longest, and each limit's share of use:
// of the time that the batch takes, at least of the limit's own window. Input
// and output tokens a minute are tokens a minute. fits says that everything is
// within the limits at once.
func (v *variant) binding() (name string, shares []Share, fits bool) {
	name, fits = "none", true
	longest := 0.0
	shares = v.demand()
	for _, s := range shares {
		if s.Use > longest {
			name, longest = s.Limit, s.Use
		}
		fits = fits && s.Use <= s.window
	}
	for i := range shares {
		if s := &shares[i]; s.Use < 0 {
			s.Use = neat(-s.Use)
		} else if most := max(longest, s.window); most > 0 {
			s.Use = neat(s.Use / most)
		}
	}
	if name == "itpm" || name == "otpm" {
		name = "tpm"
	}
	return name, shares, fits
}

// lower is the closed-form bound: the longest of those of the token limits.
// What could go to several targets has none but its latency.
func (v *variant) lower() time.Duration {
	low := time.Duration(0)
	if len(v.ops) > 0 {
		low = v.assume.Latency
	}
	if v.shared() {
		return low
	}
	for i, sum := range v.total() {
		lim, tokens := v.limits(v.Targets[i].Limits), sum.Tokens+sum.Output
		b := estimate.Batch{Ops: sum.Requests, Tokens: tokens, RPD: lim.RPD.N, TPD: lim.TPD.N, Latency: v.assume.Latency}
		low = max(low, estimate.BucketBound(b).Duration)
		b = estimate.Batch{Ops: sum.Requests, RPM: lim.RPM.N, Concurrency: int64(lim.Concurrency), Latency: v.assume.Latency}
		for _, t := range []struct{ tokens, limit int64 }{{tokens, lim.TPM.N}, {sum.Tokens, lim.ITPM.N}, {sum.Output, lim.OTPM.N}} {
			b.Tokens, b.TPM = t.tokens, t.limit
			low = max(low, estimate.BucketBound(b).Duration)
		}
	}
	return low
}

// smallScale is how many operations a simulation on a smaller scale has.
const smallScale = 50_000

// parts is by how much a large batch and its limits can be divided for a
// simulation that takes about as long in virtual time. Each limit keeps room
// for a hundred operations, and for ten of the heaviest; 1 = not at all.
func (v *variant) parts() int64 {
	if len(v.plan.seeds) > 0 {
		return 1 // they fill the windows whole
	}
	parts := int64(len(v.ops) / smallScale)
	room := func(n, each int64) {
		if n > 0 {
			parts = min(parts, n/max(each, 1))
		}
	}
	for i, sum := range v.total() {
		if sum.Requests == 0 {
			continue
		}
		l := v.limits(v.Targets[i].Limits)
		tokens := max((sum.Tokens+sum.Output)/sum.Requests*100, 10*v.heaviest)
		for _, n := range []int64{l.TPM.N, l.ITPM.N, l.OTPM.N, l.TPD.N} {
			room(n, tokens)
		}
		room(l.RPM.N, 100)
		room(l.RPD.N, 100)
		room(l.Burst, 100)
		room(int64(l.Concurrency), 100)
	}
	return max(parts, 1)
}

// part is a share of limits, rounded.
func part(l limit.Limits, parts int64) limit.Limits {
	if parts == 1 {
		return l
	}
	share := func(n int64) int64 { return (n + parts/2) / parts }
	for _, c := range []*limit.Cap{&l.RPM, &l.TPM, &l.ITPM, &l.OTPM, &l.RPD, &l.TPD} {
		c.N = share(c.N)
	}
	if l.Concurrency == 0 {
		l.Concurrency = limit.DefaultCeiling
	}
	l.Burst, l.Concurrency = share(l.Burst), int(max(share(int64(l.Concurrency)), 1))
	return l
}

// makespan drives the scheduler through the batch in virtual time and returns
// the time from the start to the last answer. With several parts it is that of
// every so many operations under that part of the limits.
func (v *variant) makespan(parts int64) time.Duration {
	s := v.scheduler(parts)
	now, last := v.started, v.started
	rest := queued{ops: v.ops, step: int(parts)}
	var flight fifo
	var spare []*job
	for {
		for s.wants() {
			o := rest.next()
			if o == nil {
				break
			}
			var j *job
			if n := len(spare); n > 0 {
				j, spare = spare[n-1], spare[:n-1]
			} else {
				j = new(job)
			}
			v.fill(j, o)
			s.push(now, j)
		}
		j, wake := s.next(now)
		if j != nil {
			s.sent(now, j)
			flight.push(landing{now.Add(v.assume.Latency), j})
			continue
		}
		if at, ok := flight.next(); ok {
			wake = earliest(wake, at)
		}
		if wake.IsZero() {
			return last.Sub(v.started)
		}
		if wake.After(now) {
			now = wake
		}
		for flight.due(now) {
			l := flight.pop()
			last = l.at
			v.land(s, l)
			spare = append(spare, l.job)
		}
	}
}

// queued gives every step-th operation in the order in which a run feeds them.
type queued struct {
	ops         []light
	step        int
	turn, place int
}

// next is nil after the last.
func (q *queued) next() *light {
	for turn := [...]input.Priority{input.High, input.Normal, input.Low}; q.turn < len(turn); q.turn, q.place = q.turn+1, 0 {
		for q.place < len(q.ops) {
			o := &q.ops[q.place]
			if q.place += q.step; o.priority == turn[q.turn] {
				return o
			}
		}
	}
	return nil
}

// land is the answer of a simulated call.
func (v *variant) land(s *scheduler, l landing) {
	s.answered(l.at, l.job, &provider.Response{
		Usage: v.usage(l.job), Rate: provider.NoRate(), SentAt: l.at.Add(-v.assume.Latency), Done: l.at,
	})
	s.stored(l.job, verdict{status: checkpoint.Completed})
}

// usage is what a simulated answer says: the output that is assumed, within
// the cap, or all that is reserved.
func (v *variant) usage(j *job) provider.Usage {
	u := provider.Usage{Input: int64(j.tokens.Prompt), Output: int64(j.tokens.MaxOutput), Known: true}
	switch {
	case noOutput(j.rec.API):
		u.Output = 0
	case v.assume.Output > 0 && (u.Output == 0 || v.assume.Output < u.Output):
		u.Output = v.assume.Output
	case u.Output == 0:
		u.Output = j.reserved
	}
	return u
}

// landing is a call that is answered at a moment.
type landing struct {
	at  time.Time
	job *job
}

// fifo holds the calls in flight: all take equally long, so they land in the
// order in which they left.
type fifo struct {
	calls []landing
	head  int
}

func (f *fifo) push(l landing) {
	if f.head > 1024 && f.head*2 > len(f.calls) {
		f.calls = append(f.calls[:0], f.calls[f.head:]...)
		f.head = 0
	}
	f.calls = append(f.calls, l)
}

func (f *fifo) next() (time.Time, bool) {
	if f.head == len(f.calls) {
		return time.Time{}, false
	}
	return f.calls[f.head].at, true
}

func (f *fifo) due(now time.Time) bool {
	at, ok := f.next()
	return ok && !at.After(now)
}

func (f *fifo) pop() landing {
	l := f.calls[f.head]
	f.calls[f.head] = landing{}
	f.head++
	return l
}
