package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/llmbatch/llmbatch/runner/cache"
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
	Operations     int64  `json:"operations"` // to do and done; invalid lines are none
	Done           int64  `json:"done"`
	ToDo           int64  `json:"to_do"`
	Invalid        int64  `json:"invalid"`
	Duplicates     int64  `json:"duplicates"`      // of ToDo; no calls of their own with --dedupe
	CacheHits      int64  `json:"cache_hits"`      // of ToDo; served by answers that are kept (--cache)
	PromptTokens   int64  `json:"prompt_tokens"`   // of what is to do and fits, as all below
	ReservedTokens int64  `json:"reserved_tokens"` // what the limits are charged
	ReservedOutput int64  `json:"reserved_output_tokens"`
	NeverFit       int64  `json:"never_fit"` // rows larger than a whole limit
	NeverFitLines  []int  `json:"never_fit_lines,omitempty"`
	P50            int64  `json:"prompt_tokens_p50"`
	P95            int64  `json:"prompt_tokens_p95"`
	Max            int64  `json:"prompt_tokens_max"`
	MaxLine        int    `json:"prompt_tokens_max_line,omitempty"`
	Binding        string `json:"binding_limit"` // rpm tpm rpd tpd concurrency none
	Accounting     string `json:"accounting"`
	// Charging is the accounting in full, where an earlier run's headers showed it.
	Charging       string  `json:"accounting_learned,omitempty"`
	RequestsMinute float64 `json:"requests_per_minute"`
	TokensMinute   float64 `json:"tokens_per_minute"`
	Fits           bool    `json:"fits_at_once"` // no limit holds anything up
	Makespan       float64 `json:"makespan_seconds"`
	LowerBound     float64 `json:"lower_bound_seconds"`
	Concurrency    int64   `json:"concurrency_needed"`
	// Cost is exact and of the answers' assumed outputs; null = no price is known.
	Cost        *json.Number `json:"cost"`
	CostMost    *json.Number `json:"cost_with_fallbacks,omitempty"` // at the dearest target of each route, where that is more
	Latency     float64      `json:"assumed_latency_seconds"`
	LatencyFrom string       `json:"assumed_latency_from"`
	Output      int64        `json:"assumed_output_tokens"` // of an answer; 0 = as much as is reserved
	Shares      []Share      `json:"limits"`
	WhatIf      []WhatIf     `json:"what_if,omitempty"`
}

// Share is one limit and how much of it the batch uses while it runs.
type Share struct {
	Limit string  `json:"limit"` // rpm tpm itpm otpm rpd tpd concurrency
	N     int64   `json:"n"`
	Use   float64 `json:"use"` // 1 = it binds
	// Target is set where there are several.
	Target string `json:"target,omitempty"`

	window float64 // seconds
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
// nil, is told of every operation to do, in the order of the file.
func Estimate(ctx context.Context, c *Config, a Assume, each func(PerLine) error) (*Forecast, error) {
	own := *c
	r := &run{Config: &own, started: time.Now()}
	if c.Cache != "" {
		r.cache = cache.ReadOnly(c.Cache)
	}
	var err error
	if r.index, r.report, err = input.Preflight(ctx, r.Input, r.Settings); err != nil {
		return nil, err
	}
	if r.report.Invalid > 0 && !r.SkipInvalid {
		return nil, &InputError{Report: r.report}
	}
	r.tellInput()
	r.separate(r.report.Models)
	if err := r.bounded(); err != nil {
		return nil, err
	}
	d := &dryRun{run: r, assume: a}
	if err := d.past(); err != nil {
		return nil, err
	}
	if d.Restart {
		d.plan = newPlan(d.Config, d.index) // nothing is done then; what calls took is known all the same
	}
	r.sched = newScheduler(r.Config, r.plan, r.started)
	if err := d.count(ctx, each); err != nil {
		return nil, err
	}
	r.index = nil // its memory serves the simulations
	return d.forecast(), nil
}

// forecast simulates what was counted and words the result.
func (d *dryRun) forecast() *Forecast {
	f := &d.f
	f.ToDo = int64(len(d.ops)) + f.NeverFit + f.Duplicates + f.CacheHits + d.bad
	f.Done = int64(d.plan.done + d.plan.dead + d.plan.held - d.plan.classes[ClassInvalid])
	f.Operations, f.Invalid = f.ToDo+f.Done, int64(d.report.Invalid)
	d.accounting()
	f.Latency, f.LatencyFrom, f.Output = d.assume.Latency.Seconds(), d.from, d.assume.Output
	d.lengths()
	v := d.asIs()
	whatIf := d.whatIf()
	var all sync.WaitGroup
	all.Go(func() { v.took = v.makespan(1) })
	for _, w := range whatIf {
		all.Go(func() { w.took = w.makespan(w.parts()) })
	}
	all.Wait()
	f.Binding, f.Shares, f.Fits = v.binding()
	f.Makespan = neat(v.took.Seconds())
	f.LowerBound = min(neat(v.lower().Seconds()), f.Makespan)
	if minutes := v.sustained() / 60; minutes > 0 {
		f.RequestsMinute = neat(float64(len(d.ops)) / minutes)
		f.TokensMinute = neat(float64(v.charged()) / minutes)
		f.Concurrency = max(1, int64(math.Ceil(f.RequestsMinute/60*d.assume.Latency.Seconds()-1e-9)))
	}
	for _, w := range whatIf {
		binding, _, _ := w.binding()
		f.WhatIf = append(f.WhatIf, WhatIf{Change: w.change, Makespan: neat(w.took.Seconds()), Binding: binding})
	}
	d.bounds(v)
	return f
}

// neat rounds to millionths, which takes the noise of binary fractions away.
func neat(x float64) float64 { return math.Round(x*1e6) / 1e6 }

// bounds says what the batch costs, and warns of the bounds that a run would
// stop at.
func (d *dryRun) bounds(v *variant) {
	if cost, dearest, known := v.cost(); known {
		exact := json.Number(cost.Decimal())
		if d.f.Cost = &exact; dearest > cost {
			exact := json.Number(dearest.Decimal())
			d.f.CostMost = &exact
		}
		if left := d.MaxCost - d.sched.money.spent; d.MaxCost > 0 && cost > left {
			d.Notice(fmt.Sprintf("all of it may cost %s, more than --max-cost leaves (%s): a run would stop there", cost, max(left, 0)))
		}
	}
	if took := time.Duration(d.f.Makespan * float64(time.Second)); d.Deadline > 0 && took > d.Deadline {
		d.Notice(fmt.Sprintf("all of it takes longer than --deadline %s: a run would stop there", d.Deadline))
	}
	if d.Degradation != nil {
		d.Notice("what gives way under pressure (degradation, degrade_to) is not reckoned with: the figures are those of whole answers")
	}
}

func (d *dryRun) lengths() {
	if len(d.ops) == 0 {
		return
	}
	prompts := make([]int32, len(d.ops))
	for i, o := range d.ops {
		prompts[i] = o.prompt
	}
	slices.Sort(prompts)
	at := func(p int) int64 { return int64(prompts[(len(prompts)-1)*p/100]) }
	d.f.P50, d.f.P95 = at(50), at(95)
}

// whatIf lists what would change the time.
func (d *dryRun) whatIf() (all []*variant) {
	if len(d.ops) == 0 {
		return nil
	}
	try := func(change string, edit func(*variant)) {
		v := d.asIs()
		v.change = change
		edit(v)
		all = append(all, v)
	}
	limited := func(n func(*limit.Limits) int64) bool {
		return slices.ContainsFunc(d.Targets, func(t Target) bool { return n(&t.Limits) > 0 })
	}
	if limited(func(l *limit.Limits) int64 { return l.RPM.N }) {
		try("twice the requests a minute", func(v *variant) {
			v.limits = func(l limit.Limits) limit.Limits {
				l.RPM.N *= 2
				return l
			}
		})
	}
	if limited(func(l *limit.Limits) int64 { return l.TPM.N + l.ITPM.N + l.OTPM.N }) {
		try("twice the tokens a minute", func(v *variant) {
			v.limits = func(l limit.Limits) limit.Limits {
				l.TPM.N, l.ITPM.N, l.OTPM.N = 2*l.TPM.N, 2*l.ITPM.N, 2*l.OTPM.N
				return l
			}
		})
		try("half the output caps", func(v *variant) { v.divide = 2 })
		if !d.Learned {
			try("--reserve learned", func(v *variant) { v.learned = true })
		}
	}
	if d.given > 1 {
		for i := range d.given {
			try("everything on "+d.Targets[i].name(), func(v *variant) { v.elsewhere = i })
		}
	}
	return all
}
