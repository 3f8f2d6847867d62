package runner

import (
	"slices"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
)

// variant is the batch of a dry run under one set of settings. Variants may be
// simulated side by side.
type variant struct {
	*dryRun
	change  string // what is unlike the run that is asked about
	limits  limit.Limits
	learned bool
	divide  int32 // output caps are divided by it

	charges *limit.Cost   // sum over the operations; worked out once
	took    time.Duration // the makespan, once it is simulated
}

func (d *dryRun) variant(lim limit.Limits, learned bool, divide int32) *variant {
	return &variant{dryRun: d, limits: lim, learned: learned, divide: divide}
}

// fill makes j the job of an operation as the scheduler takes it.
func (v *variant) fill(j *job, o *light) {
	*j = job{tokens: estimate.Tokens{Prompt: int(o.prompt), Chars: int(o.chars), MaxOutput: int((o.output + v.divide - 1) / v.divide)}}
	j.rec.Priority = o.priority
	if o.noOutput {
		j.rec.API = "/embeddings"
	}
}

// scheduler is the run's own, under the variant's settings.
func (v *variant) scheduler() *scheduler {
	c := *v.Config
	c.Learned, c.MaxCost = v.learned, 0
	c.Targets = slices.Clone(c.Targets)
	c.Targets[0].Limits = v.limits
	// A run stops at a long wait and is started again; the time goes on.
	c.Policy.MaxWait = 1 << 62
	return newScheduler(&c, v.plan, v.started)
}

// total is the sum of what the operations take from the limits once they are
// answered: with what their prompts are billed and, where outputs are learned,
// with their outputs.
func (v *variant) total() limit.Cost {
	if v.charges != nil {
		return *v.charges
	}
	s := v.scheduler()
	var sum limit.Cost
	var j job
	for i := range v.ops {
		v.fill(&j, &v.ops[i])
		s.lanes[0].charge(&j)
		usage := v.usage(&j)
		if j.tokens.MaxOutput == 0 || v.learned {
			j.reserved = min(j.reserved, usage.Output)
			j.cost = s.lanes[0].cut(s.lanes[0].chargeOf(&j, j.reserved))
		}
		if used, known := s.lanes[0].usedBy(&j, usage); known {
			j.cost = used
		}
		sum.Requests++
		sum.Tokens += j.cost.Tokens
		sum.Output += j.cost.Output
	}
	v.charges = &sum
	return sum
}

// charged is the total in tokens.
func (v *variant) charged() int64 {
	sum := v.total()
	return sum.Tokens + sum.Output
}

// outputs is what the answers are expected to hold, in tokens.
func (v *variant) outputs() (sum int64) {
	s := v.scheduler()
	var j job
	for i := range v.ops {
		v.fill(&j, &v.ops[i])
		s.lanes[0].charge(&j)
		sum += v.usage(&j).Output
	}
	return sum
}

// demand is how long each limit alone would take for the whole batch, in
// seconds at its steady rate. A day's limit that is not reached holds nothing
// up: it has its share of the day, negative.
func (v *variant) demand() []Share {
	const minute, day = 60, 86400
	sum, lim := v.total(), &v.limits
	var all []Share
	add := func(name string, n int64, seconds float64) {
		if n > 0 {
			all = append(all, Share{name, n, seconds / float64(n)})
		}
	}
	daily := func(name string, n, amount int64) {
		seconds := day * float64(amount)
		if amount <= n {
			seconds = -float64(amount)
		}
		add(name, n, seconds)
	}
	add("rpm", lim.RPM.N, minute*float64(sum.Requests))
	add("tpm", lim.TPM.N, minute*float64(sum.Tokens+sum.Output))
	add("itpm", lim.ITPM.N, minute*float64(sum.Tokens))
	add("otpm", lim.OTPM.N, minute*float64(sum.Output))
	daily("rpd", lim.RPD.N, sum.Requests)
	daily("tpd", lim.TPD.N, sum.Tokens+sum.Output)
	calls := float64(sum.Requests) * v.assume.Latency.Seconds()
	if lim.Concurrency > 0 {
		add("concurrency", int64(lim.Concurrency), calls)
	} else if sum.Requests > limit.DefaultCeiling {
		add("concurrency", limit.DefaultCeiling, calls)
	}
	return all
}

// sustained is how long the batch takes at the steady rate of what binds, in
// seconds.
func (v *variant) sustained() float64 {
	longest := 0.0
	for _, s := range v.demand() {
		longest = max(longest, s.Use)
	}
	if longest == 0 && len(v.ops) > 0 {
		return v.took.Seconds()
	}
	return longest
}

// binding names the limit that takes longest, and each limit's share of use.
// Input and output tokens a minute are tokens a minute.
func (v *variant) binding() (string, []Share) {
	name, longest := "none", 0.0
	shares := v.demand()
	for _, s := range shares {
		if s.Use > longest {
			name, longest = s.Limit, s.Use
		}
	}
	for i := range shares {
		if s := &shares[i]; s.Use < 0 {
			s.Use = -s.Use
		} else if longest > 0 {
			s.Use /= longest
		}
	}
	if name == "itpm" || name == "otpm" {
		name = "tpm"
	}
	return name, shares
}

// lower is the closed-form bound: the longest of those of the token limits.
func (v *variant) lower() estimate.Lower {
	sum, lim := v.total(), &v.limits
	var low estimate.Lower
	for _, t := range []struct{ tokens, limit int64 }{{sum.Tokens + sum.Output, lim.TPM.N}, {sum.Tokens, lim.ITPM.N}, {sum.Output, lim.OTPM.N}} {
		b := estimate.BucketBound(estimate.Batch{
			Ops: sum.Requests, Tokens: t.tokens, RPM: lim.RPM.N, TPM: t.limit,
			Concurrency: int64(lim.Concurrency), Latency: v.assume.Latency,
		})
		if b.Duration > low.Duration {
			low = b
		}
	}
	b := estimate.BucketBound(estimate.Batch{Ops: sum.Requests, Tokens: sum.Tokens + sum.Output, RPD: lim.RPD.N, TPD: lim.TPD.N, Latency: v.assume.Latency})
	if b.Duration > low.Duration {
		low = b
	}
	return low
}

// makespan drives the scheduler through the batch in virtual time and returns
// the time from the start to the last answer.
func (v *variant) makespan() time.Duration {
	s := v.scheduler()
	now, last := v.started, v.started
	rest := queued{ops: v.ops}
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

// queued gives operations in the order in which a run feeds them.
type queued struct {
	ops         []light
	turn, place int
}

// next is nil after the last.
func (q *queued) next() *light {
	for turn := [...]input.Priority{input.High, input.Normal, input.Low}; q.turn < len(turn); q.turn, q.place = q.turn+1, 0 {
		for q.place < len(q.ops) {
			o := &q.ops[q.place]
			if q.place++; o.priority == turn[q.turn] {
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
