package runner

import (
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
)

// variant is the batch of a dry run under one set of settings.
type variant struct {
	*dryRun
	limits  limit.Limits
	learned bool
	divide  int32 // output caps are divided by it

	tokens int64 // sum of the charges; worked out once
}

func (d *dryRun) variant(lim limit.Limits, learned bool, divide int32) *variant {
	return &variant{dryRun: d, limits: lim, learned: learned, divide: divide}
}

// job is an operation as the scheduler takes it.
func (v *variant) job(o *light) *job {
	j := &job{tokens: estimate.Tokens{Prompt: int(o.prompt), Chars: int(o.chars), MaxOutput: int((o.output + v.divide - 1) / v.divide)}}
	j.rec = input.Record{Line: int(o.line), Priority: o.priority}
	if o.noOutput {
		j.rec.API = "/embeddings"
	}
	return j
}

// scheduler is the run's own, under the variant's settings.
func (v *variant) scheduler() *scheduler {
	c := *v.Config
	c.Limits, c.Learned, c.MaxCost = v.limits, v.learned, 0
	// A run stops at a long wait and is started again; the time goes on.
	c.Policy.MaxWait = 1 << 62
	return newScheduler(&c, v.plan, v.started)
}

// charged is the sum of what the operations take from the token limit once
// they are answered: with what their prompts are billed and, if reservations
// are learned, with their outputs.
func (v *variant) charged() int64 {
	if v.tokens > 0 {
		return v.tokens
	}
	s := v.scheduler()
	for i := range v.ops {
		j := v.job(&v.ops[i])
		s.charge(j)
		if out := v.expected(&v.ops[i]); v.learned && out < j.reserved {
			j.reserved = out
			j.cost = s.chargeOf(j, out)
		}
		if used, known := s.usedBy(j, v.usage(j)); known {
			j.cost = used
		}
		v.tokens += j.cost.Tokens + j.cost.Output
	}
	return v.tokens
}

// demand is how long each limit alone would take for the whole batch, in
// seconds at its steady rate.
func (v *variant) demand() []Share {
	n, w := float64(len(v.ops)), float64(v.charged())
	lim := &v.limits
	all := []Share{
		{"rpm", lim.RPM.N, 60 * n},
		{"tpm", max(lim.TPM.N, lim.ITPM.N), 60 * w},
		{"rpd", lim.RPD.N, 86400 * n},
		{"tpd", lim.TPD.N, 86400 * w},
		{"concurrency", int64(lim.Concurrency), n * v.assume.Latency.Seconds()},
	}
	kept := all[:0]
	for _, s := range all {
		if s.N > 0 {
			s.Use /= float64(s.N)
			kept = append(kept, s)
		}
	}
	// A day's limit that is not reached holds nothing up.
	day := func(s Share) bool { return (s.Limit == "rpd" || s.Limit == "tpd") && s.Use <= 86400 }
	for i := range kept {
		if day(kept[i]) {
			kept[i].Use = -kept[i].Use
		}
	}
	return kept
}

// sustained is how long the batch takes at the steady rate of what binds.
func (v *variant) sustained() float64 {
	longest := 0.0
	for _, s := range v.demand() {
		longest = max(longest, s.Use)
	}
	if longest == 0 && len(v.ops) > 0 {
		return v.makespan().Seconds()
	}
	return longest
}

// binding names the limit that takes longest, and each limit's share of use.
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
			s.Use /= -86400
		} else if longest > 0 {
			s.Use /= longest
		}
	}
	return name, shares
}

// lower is the closed-form bound.
func (v *variant) lower() estimate.Lower {
	lim := &v.limits
	return estimate.BucketBound(estimate.Batch{
		Ops: int64(len(v.ops)), Tokens: v.charged(), RPM: lim.RPM.N, TPM: max(lim.TPM.N, lim.ITPM.N), RPD: lim.RPD.N, TPD: lim.TPD.N,
		Concurrency: int64(lim.Concurrency), Latency: v.assume.Latency,
	})
}

// makespan drives the scheduler through the batch in virtual time and returns
// the time from the first call to the last answer.
func (v *variant) makespan() time.Duration {
	s := v.scheduler()
	now := v.started
	var first, last time.Time
	var flight fifo
	fed := 0
	for {
		for fed < len(v.ops) && s.wants() {
			s.push(now, v.job(&v.ops[fed]))
			fed++
		}
		j, wake := s.next(now)
		if j != nil {
			if first.IsZero() {
				first = now
			}
			s.sent(now, j)
			flight.push(landing{now.Add(v.assume.Latency), j})
			continue
		}
		if at, ok := flight.next(); ok {
			wake = earliest(wake, at)
		}
		if wake.IsZero() {
			return last.Sub(first)
		}
		if wake.After(now) {
			now = wake
		}
		for flight.due(now) {
			l := flight.pop()
			last = l.at
			v.land(s, l)
		}
	}
}

// land is the answer of a simulated call.
func (v *variant) land(s *scheduler, l landing) {
	s.answered(l.at, l.job, &provider.Response{
		Usage: v.usage(l.job), Rate: provider.NoRate(), SentAt: l.at.Add(-v.assume.Latency), Done: l.at,
	})
	s.stored(l.job, verdict{status: checkpoint.Completed})
}

// usage is what a simulated answer says.
func (v *variant) usage(j *job) provider.Usage {
	out := int64(j.tokens.MaxOutput)
	if v.assume.Output > 0 && (out == 0 || v.assume.Output < out) {
		out = v.assume.Output
	} else if out == 0 {
		out = j.reserved
	}
	return provider.Usage{Input: int64(j.tokens.Prompt), Output: out, Known: true}
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
