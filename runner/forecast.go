package runner

import (
	"fmt"
	"time"

	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/limit"
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
	var charged limit.Cost
	var prompt, output int64
	for _, j := range sample {
		r.sched.lane(j).charge(j)
		charged.Tokens += j.cost.Tokens
		charged.Output += j.cost.Output
		prompt += int64(j.tokens.Prompt)
		output += j.reserved
	}
	r.sampled = sample
	n := int64(max(1, len(sample)))
	all := func(sum int64) int64 { return sum * int64(todo) / n }
	lim := &r.Targets[0].Limits
	low := estimate.WindowBound(estimate.Batch{
		Ops: int64(todo), Tokens: all(charged.Tokens), RPM: lim.RPM.N, TPM: max(lim.TPM.N, lim.ITPM.N), RPD: lim.RPD.N, TPD: lim.TPD.N,
	})
	text := fmt.Sprintf("%s to send (%s finished), about %s", Count(int64(todo), "operation"), Grouped(int64(r.plan.done+r.plan.dead)), Count(all(prompt), "prompt token"))
	if low.Limit == "none" {
		text += "; "
		if lim.RPM.N+lim.TPM.N+lim.ITPM.N+lim.OTPM.N+lim.RPD.N+lim.TPD.N == 0 {
			text += "no limit is given, so the server's answers set the pace"
		} else {
			text += "all of it fits the limits at once"
		}
	} else {
		text += fmt.Sprintf("; at least %s, bound by %s", low.Duration.Round(time.Second), low.Limit)
	}
	if price := r.dearest(); price.Known {
		text += fmt.Sprintf("; cost at most about %s", price.Cost(all(prompt), all(output)))
	}
	return text, nil
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
