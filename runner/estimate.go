package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/limit"
)

// Assume is what a dry run takes for granted of the provider.
type Assume struct {
	Latency time.Duration // of a call; 0 = learned from the checkpoint, else 1 s
	Output  int64         // tokens of an answer; 0 = learned from the checkpoint, else what is reserved
}

// Forecast is what a dry run says. Times are in seconds from the first call.
type Forecast struct {
	Operations     int64    `json:"operations"` // to do and done; invalid lines are none
	Done           int64    `json:"done"`
	ToDo           int64    `json:"to_do"`
	Invalid        int64    `json:"invalid"`
	PromptTokens   int64    `json:"prompt_tokens"`   // of what is to do, as all below
	ReservedTokens int64    `json:"reserved_tokens"` // what the limits are charged
	ReservedOutput int64    `json:"reserved_output_tokens"`
	NeverFit       int64    `json:"never_fit"` // rows larger than a whole limit
	NeverFitLines  []int    `json:"never_fit_lines,omitempty"`
	P50            int64    `json:"prompt_tokens_p50"`
	P95            int64    `json:"prompt_tokens_p95"`
	Max            int64    `json:"prompt_tokens_max"`
	MaxLine        int      `json:"prompt_tokens_max_line,omitempty"`
	Binding        string   `json:"binding_limit"` // rpm tpm rpd tpd concurrency none
	Accounting     string   `json:"accounting"`
	RequestsMinute float64  `json:"requests_per_minute"`
	TokensMinute   float64  `json:"tokens_per_minute"`
	Makespan       float64  `json:"makespan_seconds"`
	LowerBound     float64  `json:"lower_bound_seconds"`
	Concurrency    int64    `json:"concurrency_needed"`
	Cost           *string  `json:"cost"` // null = no price is known
	Latency        float64  `json:"assumed_latency_seconds"`
	LatencyFrom    string   `json:"assumed_latency_from"`
	Shares         []Share  `json:"limits"`
	WhatIf         []WhatIf `json:"what_if,omitempty"`
}

// Share is one limit and how much of it the batch uses while it runs.
type Share struct {
	Limit string  `json:"limit"`
	N     int64   `json:"n"`
	Use   float64 `json:"use"` // 1 = it binds
}

// WhatIf is the time that another setting would take.
type WhatIf struct {
	Change   string  `json:"change"`
	Makespan float64 `json:"makespan_seconds"`
	Binding  string  `json:"binding_limit"`
}

// PerLine is one operation of a dry run.
type PerLine struct {
	Line     int   `json:"line"`
	CustomID any   `json:"custom_id"`
	Text     int   `json:"text_tokens"` // the text alone, without framing
	Prompt   int   `json:"prompt_tokens"`
	Reserved int64 `json:"reserved_tokens"`
}

// Estimate is the dry run: it counts everything, drives the scheduler in
// virtual time, sends nothing, needs no key and writes nothing. each, unless
// nil, is told of every operation to do, in order.
func Estimate(ctx context.Context, c *Config, a Assume, each func(PerLine) error) (*Forecast, error) {
	r := &run{Config: c, started: time.Now()}
	var err error
	if r.index, r.report, err = input.Preflight(ctx, r.Input, r.Settings); err != nil {
		return nil, err
	}
	if r.report.Invalid > 0 && !r.SkipInvalid {
		return nil, &InputError{Report: r.report}
	}
	for _, n := range r.report.Notices {
		r.Notice(n)
	}
	d := &dryRun{run: r, assume: a}
	if err := d.past(); err != nil {
		return nil, err
	}
	r.sched = newScheduler(c, r.plan, r.started)
	if err := d.count(ctx, each); err != nil {
		return nil, err
	}
	return d.forecast()
}

// dryRun is a run that only reckons.
type dryRun struct {
	*run
	assume Assume
	from   string // where the latency comes from
	ops    []light
	f      Forecast
}

// light is what the simulation needs of an operation: 24 bytes.
type light struct {
	prompt, output, reserved int32 // tokens; output: the cap given, 0 = none
	chars                    int32
	line                     uint32
	priority                 input.Priority
	noOutput                 bool
}

// past reads what earlier runs have finished, and how long their calls took.
func (d *dryRun) past() error {
	d.plan = &plan{stand: make([]stand, d.index.Len()), classes: map[string]int{}}
	d.plan.cut(d.index, d.Limit)
	d.from = "given"
	if d.assume.Latency == 0 {
		d.assume.Latency, d.from = time.Second, "assumed"
	}
	store, err := checkpoint.OpenReadOnly(d.Paths.Checkpoint)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, checkpoint.ErrLocked):
		d.Notice("a run holds the checkpoint: the estimate is of the whole input")
		return nil
	case err != nil:
		d.Notice(fmt.Sprintf("%v: the estimate is of the whole input", err))
		return nil
	}
	defer store.Close()
	var calls, latency, output int64
	err = store.All(func(op *checkpoint.Operation) error {
		if op.Status == checkpoint.Completed && op.CopyOf == "" {
			calls++
			latency += op.LatencyMS
			output += op.Usage.Output
		}
		i, ok := d.index.Find(op.ID)
		if !ok || op.Sum != d.index.Entry(i).Sum {
			return nil
		}
		switch op.Status {
		case checkpoint.Completed:
			d.plan.set(i, standDone, &d.plan.done, &d.plan.skipped)
		case checkpoint.DeadLetter:
			if !d.putsBack(op.Class) {
				d.plan.set(i, standDead, &d.plan.dead, &d.plan.skipped)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if calls > 0 && d.from == "assumed" {
		d.assume.Latency, d.from = time.Duration(latency/calls)*time.Millisecond, "learned from earlier calls"
	}
	if calls > 0 && d.assume.Output == 0 {
		d.assume.Output = max(1, output/calls)
	}
	return nil
}

// count reckons every operation, on all cores.
func (d *dryRun) count(ctx context.Context, each func(PerLine) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer d.feeders.Wait()
	defer stop()
	for c := range d.feed(ctx, d.reckon) {
		if c.err != nil {
			return c.err
		}
		for _, j := range c.jobs {
			if j.refuse != nil {
				continue // an invalid line; they are counted apart
			}
			d.sched.charge(j)
			d.add(j)
			if each == nil {
				continue
			}
			line := PerLine{Line: j.rec.Line, CustomID: j.rec.CustomID, Text: j.tokens.Text, Prompt: j.tokens.Prompt, Reserved: j.cost.Tokens + j.cost.Output}
			if err := each(line); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func (d *dryRun) add(j *job) {
	if _, _, never := d.sched.limiter.Never(d.sched.chargeOf(j, int64(j.tokens.MaxOutput))); never {
		d.f.NeverFit++
		if len(d.f.NeverFitLines) < maxListed {
			d.f.NeverFitLines = append(d.f.NeverFitLines, j.rec.Line)
		}
		return
	}
	d.f.PromptTokens += int64(j.tokens.Prompt)
	d.f.ReservedTokens += j.cost.Tokens + j.cost.Output
	d.f.ReservedOutput += j.reserved
	small := func(n int) int32 { return int32(min(n, math.MaxInt32)) }
	d.ops = append(d.ops, light{
		prompt: small(j.tokens.Prompt), output: small(j.tokens.MaxOutput), chars: small(j.tokens.Chars), line: uint32(j.rec.Line),
		priority: j.rec.Priority, noOutput: noOutput(j.rec.API), reserved: small(int(j.reserved)),
	})
}

// forecast simulates what was counted and words the result.
func (d *dryRun) forecast() (*Forecast, error) {
	f := &d.f
	f.ToDo = int64(len(d.ops)) + f.NeverFit
	f.Done = int64(d.plan.done + d.plan.dead)
	f.Operations, f.Invalid = f.ToDo+f.Done, int64(d.report.Invalid)
	f.Accounting = d.Accounting.String()
	f.Latency, f.LatencyFrom = d.assume.Latency.Seconds(), d.from
	d.lengths()
	if d.Price.Known {
		cost := d.Price.Cost(f.PromptTokens, d.outputs()).String()
		f.Cost = &cost
	}
	v := d.variant(d.Limits, d.Learned, 1)
	f.Binding, f.Shares = v.binding()
	f.Makespan = v.makespan().Seconds()
	low := v.lower()
	f.LowerBound = min(low.Duration.Seconds(), f.Makespan)
	if minutes := v.sustained() / 60; minutes > 0 {
		f.RequestsMinute = float64(len(d.ops)) / minutes
		f.TokensMinute = float64(v.charged()) / minutes
		f.Concurrency = max(1, int64(math.Ceil(f.RequestsMinute/60*d.assume.Latency.Seconds()-1e-9)))
	}
	f.WhatIf = d.whatIf()
	return f, nil
}

func (d *dryRun) lengths() {
	if len(d.ops) == 0 {
		return
	}
	prompts := make([]int32, len(d.ops))
	for i, o := range d.ops {
		prompts[i] = o.prompt
		if int64(o.prompt) > d.f.Max {
			d.f.Max, d.f.MaxLine = int64(o.prompt), int(o.line)
		}
	}
	slices.Sort(prompts)
	at := func(p int) int64 { return int64(prompts[(len(prompts)-1)*p/100]) }
	d.f.P50, d.f.P95 = at(50), at(95)
}

// outputs is what the answers are expected to hold, in tokens.
func (d *dryRun) outputs() (sum int64) {
	for i := range d.ops {
		sum += d.expected(&d.ops[i])
	}
	return sum
}

// expected is the output of one answer: what is assumed, within the cap.
func (d *dryRun) expected(o *light) int64 {
	switch {
	case o.noOutput:
		return 0
	case d.assume.Output == 0:
		return int64(o.reserved)
	case o.output > 0:
		return min(d.assume.Output, int64(o.output))
	default:
		return d.assume.Output
	}
}

// whatIf lists what would change the time.
func (d *dryRun) whatIf() []WhatIf {
	var all []WhatIf
	try := func(change string, lim limit.Limits, learned bool, divide int32) {
		v := d.variant(lim, learned, divide)
		binding, _ := v.binding()
		all = append(all, WhatIf{Change: change, Makespan: v.makespan().Seconds(), Binding: binding})
	}
	if len(d.ops) == 0 {
		return nil
	}
	if lim := d.Limits; lim.RPM.N > 0 {
		lim.RPM.N *= 2
		try("twice the requests a minute", lim, d.Learned, 1)
	}
	if lim := d.Limits; lim.TPM.N+lim.ITPM.N+lim.OTPM.N > 0 {
		lim.TPM.N, lim.ITPM.N, lim.OTPM.N = 2*lim.TPM.N, 2*lim.ITPM.N, 2*lim.OTPM.N
		try("twice the tokens a minute", lim, d.Learned, 1)
		try("half the output caps", d.Limits, d.Learned, 2)
		if !d.Learned {
			try("--reserve learned", d.Limits, true, 1)
		}
	}
	return all
}
