package runner

import (
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
)

// Replay is a batch of like calls, as a run has measured them, to be driven
// through the scheduler again under limits and reservations of choice.
type Replay struct {
	Calls      int64
	Prompt     int64 // tokens of a call
	Cap        int64 // output tokens that a call reserves; 0 = none is given, so that it is learned
	Output     int64 // output tokens of an answer
	Latency    time.Duration
	Limits     limit.Limits
	Accounting limit.Accounting
	Learned    bool // reserve what outputs turn out to take
}

// maxReplayed bounds the calls of a replay: beyond it every so many stand for all
// of them, as in a dry run.
const maxReplayed = 2_000_000

// Makespan is how long the scheduler takes for the batch, in virtual time, from the
// first call to the last answer. Nothing fails, and what a limit learns from
// refusals is known from the start.
func (p Replay) Makespan() time.Duration {
	began := time.Unix(0, 0)
	c := &Config{
		Targets: []Target{{Provider: "replay", Limits: p.Limits, Accounting: p.Accounting, Client: nobody{}}},
		Learned: p.Learned,
	}
	d := &dryRun{run: &run{Config: c, started: began, plan: &plan{}}, assume: Assume{Latency: max(p.Latency, time.Millisecond), Output: max(p.Output, 1)}}
	n, scale := p.Calls, int64(1)
	if n > maxReplayed {
		scale = (n + maxReplayed - 1) / maxReplayed
		n = maxReplayed
	}
	op := light{prompt: int32(p.Prompt), chars: int32(p.Prompt * 3), output: int32(p.Cap)}
	d.ops = make([]light, n)
	for i := range d.ops {
		d.ops[i] = op
	}
	v := d.asIs()
	return v.makespan(v.parts()) * time.Duration(scale)
}
