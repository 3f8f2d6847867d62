package runner

import (
	"fmt"
	"time"

	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
)

// sampleSize is how many lines, evenly spread, the first forecast looks at.
const sampleSize = 200

// sampleBytes bounds what that look reads: long lines are few but heavy.
const sampleBytes = 16 << 20

// forecast tells in one line, before the first call, what the run is about:
// operations, time, cost bound, and what binds. It reckons from a sample.
func (r *run) forecast() (string, error) {
	todo := 0
	r.plan.entries(r.index, func(int) bool { todo++; return true })
	if todo == 0 {
		return r.nothing(), nil
	}
	sample, err := r.sample(todo)
	if err != nil {
		return "", err
	}
	r.todo = int64(todo)
	var prompt int64
	for _, j := range sample {
		r.sched.lane(j).charge(j)
		prompt += int64(j.tokens.Prompt)
	}
	r.sampled = sample
	n := int64(max(1, len(sample)))
	text := fmt.Sprintf("%s to send (%s finished), about %s; %s", Count(int64(todo), "operation"), Grouped(int64(r.plan.done+r.plan.dead)),
		Count(prompt*int64(todo)/n, "prompt token"), r.bound(sample, int64(todo)))
	if cost, known := r.mostOf(sample, int64(todo)); known {
		text += fmt.Sprintf("; cost at most about %s", cost)
	}
	return text, nil
}

// bound says what limits so many operations, by a sample of them, and how long
// they take at least. What may go to several targets has no such bound.
func (r *run) bound(sample []*job, todo int64) string {
	sums, limited, free := make([]limit.Cost, len(r.sched.lanes)), false, false
	for _, j := range sample {
		if j.way.choice() {
			free = true
			continue
		}
		sum := &sums[r.sched.group(j.lane)]
		sum.Requests++
		sum.Tokens += j.cost.Tokens
		sum.Output += j.cost.Output
	}
	longest, name := estimate.Lower{Limit: "none"}, ""
	n := int64(max(1, len(sample)))
	for i, sum := range sums {
		l := r.sched.lanes[i]
		if sum.Requests == 0 {
			continue
		}
		limited = limited || l.Limits.Given()
		low := estimate.WindowBound(estimate.Batch{
			Ops: sum.Requests * todo / n, Tokens: sum.Tokens * todo / n,
			RPM: l.Limits.RPM.N, TPM: max(l.Limits.TPM.N, l.Limits.ITPM.N), RPD: l.Limits.RPD.N, TPD: l.Limits.TPD.N,
		})
		if low.Limit != "none" && low.Duration >= longest.Duration {
			if longest = low; len(r.sched.limits) > 1 {
				name = " of " + l.name()
			}
		}
	}
	switch {
	case longest.Limit != "none":
		return fmt.Sprintf("at least %s, bound by %s%s", longest.Duration.Round(time.Second), longest.Limit, name)
	case free:
		return "its targets share the work, so llmbatch estimate tells how long it takes"
	case limited:
		return "all of it fits the limits at once"
	}
	if l := r.sched.lanes[0]; len(r.sched.lanes) == 1 && l.Limits.Concurrency > 0 {
		return fmt.Sprintf("no rate limit is given; at most %s at once", Count(int64(l.Limits.Concurrency), "call"))
	}
	return "no limit is given, so the server's answers set the pace"
}

// mostOf is what so many operations can cost, by a sample of them: each at the
// dearest target that its route has, with all of the output that may be billed.
func (r *run) mostOf(sample []*job, todo int64) (sum money.Amount, known bool) {
	for _, j := range sample {
		p := r.sched.dearest(j)
		if !p.Known {
			return 0, false
		}
		sum += most(p, j)
	}
	return sum / money.Amount(max(1, len(sample))) * money.Amount(todo), len(sample) > 0
}

// dearest is the highest price on a job's route; not known unless all are.
func (s *scheduler) dearest(j *job) money.Price {
	p := s.lane(j).Price
	for i := 0; j.way.Route != nil && i < len(j.way.Lanes); i++ {
		o := s.lanes[s.laneAt(j, i)].Price
		p.Known = p.Known && o.Known
		p.Input, p.Output = max(p.Input, o.Input), max(p.Output, o.Output)
	}
	return p
}

// nothing is the forecast of a run that has nothing to send.
func (r *run) nothing() string {
	text := fmt.Sprintf("nothing to send: %s finished", Count(int64(r.plan.done+r.plan.dead), "operation"))
	if r.plan.held > 0 {
		text += fmt.Sprintf(", %s of unknown outcome held (--on-unknown retry sends them again)", Grouped(int64(r.plan.held)))
	}
	return text
}

// sample counts lines spread evenly over what is to be sent.
func (r *run) sample(todo int) (jobs []*job, err error) {
	size, n, bytes := min(todo, sampleSize), 0, 0
	r.plan.entries(r.index, func(i int) bool {
		if n++; n*size/todo == (n-1)*size/todo {
			return true
		}
		var j *job
		if bytes += r.length(i); bytes > sampleBytes {
			return false
		}
		if j, err = r.reckon(i, nil); err == nil && j.refuse == nil {
			j.rec.Body, j.rec.Metadata = nil, nil // only its figures are asked for
			jobs = append(jobs, j)
		}
		return err == nil && len(jobs) < sampleSize
	})
	return jobs, err
}
