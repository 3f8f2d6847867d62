package runner

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/route"
)

// foresee is a dry run; it must leave the folder and the server as they were.
func (d *desk) foresee(a Assume, edit ...func(*Config)) *Forecast {
	d.Helper()
	before, asked := d.folder(), d.asked()
	f, err := Estimate(context.Background(), d.config(edit...), a, nil)
	if err != nil {
		d.Fatal(err)
	}
	if after := d.folder(); after != before || d.asked() != asked {
		d.Errorf("the dry run left %s where there was %s, and sent %d calls", after, before, d.asked()-asked)
	}
	return f
}

// folder lists the files beside the input, with their sizes.
func (d *desk) folder() string {
	d.Helper()
	entries, err := os.ReadDir(filepath.Dir(d.paths.Input))
	if err != nil {
		d.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			d.Fatal(err)
		}
		all = append(all, e.Name()+info.ModTime().String()+" "+info.Mode().String())
	}
	return strings.Join(all, ", ")
}

func TestEstimateLeavesInvalidLinesOut(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(append(prompts(3), `{"custom_id":"p1","prompt":"again"}`, `{"bad`)...)
		if _, err := Estimate(context.Background(), d.config(), Assume{}, nil); err == nil || !strings.Contains(err.Error(), "invalid") {
			d.Errorf("got %v, want the invalid lines", err)
		}
		f := d.foresee(Assume{}, func(c *Config) { c.SkipInvalid = true })
		if f.Operations != 3 || f.ToDo != 3 || f.Invalid != 2 {
			d.Errorf("got %d operations, %d to do, %d invalid; want 3, 3, 2", f.Operations, f.ToDo, f.Invalid)
		}
	})
}

func TestEstimateKnowsTwins(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(ask("a", "the same"), ask("b", "the same"), ask("c", "another"), ask("d", "the same"))
		f := d.foresee(Assume{}, func(c *Config) { c.Dedupe = true })
		if f.ToDo != 4 || f.Duplicates != 2 {
			d.Errorf("got %d to do, %d duplicates; want 4, 2", f.ToDo, f.Duplicates)
		}
		s := d.run(func(c *Config) { c.Dedupe = true })
		if s.Calls != f.ToDo-f.Duplicates {
			d.Errorf("the run made %d calls", s.Calls)
		}
	})
}

func TestEstimateCost(t *testing.T) {
	t.Parallel()
	price := func(c *Config) { c.Targets[0].Price = money.Price{Input: 3, Output: 1e7, Known: true} }
	bubble(t, fake.Config{Output: 3}, func(d *desk) {
		d.input(prompts(10)...)
		if f := d.foresee(Assume{}); f.Cost != nil {
			d.Errorf("got cost %s without a price", *f.Cost)
		}
		for _, test := range []struct{ assumed, output int64 }{{0, 8}, {5, 5}, {100, 8}} {
			f := d.foresee(Assume{Output: test.assumed}, price)
			want := money.Price{Input: 3, Output: 1e7}.Cost(f.PromptTokens, 10*test.output).Decimal()
			if f.Cost == nil || f.Cost.String() != want {
				d.Errorf("with %d tokens assumed: got cost %v, want %s", test.assumed, f.Cost, want)
			}
			raw, err := json.Marshal(f)
			if err != nil || !strings.Contains(string(raw), `"cost":`+want+`,`) {
				d.Errorf("got %s, %v; want the cost as a number", raw, err)
			}
		}
		notes := len(d.notices)
		d.foresee(Assume{}, price, func(c *Config) { c.MaxCost, c.Deadline = 1e7, time.Millisecond })
		if got := strings.Join(d.notices[notes:], "\n"); !strings.Contains(got, "--max-cost") || !strings.Contains(got, "--deadline") {
			d.Errorf("got notices %q, want both bounds", got)
		}
	})
}

// A lost checkpoint does not hide what the output holds.
func TestEstimateWithoutCheckpoint(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: 3 * time.Second}, func(d *desk) {
		d.input(prompts(20)...)
		d.run(func(c *Config) { c.Limit = 7 })
		if err := os.Remove(d.paths.Checkpoint); err != nil {
			d.Fatal(err)
		}
		f := d.foresee(Assume{})
		if f.Done != 7 || f.ToDo != 13 || f.Latency != 3 {
			d.Errorf("got %d done, %d to do, latency %.1f; want 7, 13, 3", f.Done, f.ToDo, f.Latency)
		}
	})
}

// While a run goes on its checkpoint is locked.
func TestEstimateWhileRunning(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: 10 * time.Second}, func(d *desk) {
		d.input(prompts(16)...)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.run(func(c *Config) { c.Targets[0].Limits.Concurrency = 4 })
		}()
		time.Sleep(25 * time.Second)
		f, err := Estimate(context.Background(), d.config(), Assume{}, nil)
		if err != nil || f.Done != 8 || f.ToDo != 8 {
			d.Errorf("got %+v, %v; want 8 done and 8 to do", f, err)
		}
		<-ended
	})
}

// Calls of the last minute fill the window of the next run, also in a forecast.
func TestEstimateCountsEarlierCalls(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(60)...)
		limited := func(c *Config) { c.Targets[0].Limits.RPM = limit.Cap{N: 30, Set: true} }
		d.run(limited, func(c *Config) { c.Limit = 30 })
		began := time.Now()
		f := d.foresee(Assume{}, limited)
		d.run(limited)
		took := time.Since(began).Seconds()
		if f.Makespan < 30 || math.Abs(took/f.Makespan-1) > 0.05 {
			d.Errorf("the forecast was %.1f s, the run took %.1f s", f.Makespan, took)
		}
	})
}

func TestEstimateNeverFits(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(ask("small", "x"), ask("long", strings.Repeat("word ", 900)), `{"custom_id":"dear","prompt":"x","max_tokens":2000}`)
		for _, test := range []struct {
			name string
			edit func(*Config)
			want []int
		}{
			{"limit", func(c *Config) { c.Targets[0].Limits.TPM = limit.Cap{N: 1500, Set: true} }, []int{3}},
			{"context", func(c *Config) { c.Targets[0].Context = 800 }, []int{2, 3}},
		} {
			f := d.foresee(Assume{}, test.edit)
			if f.NeverFit != int64(len(test.want)) || len(f.NeverFitLines) != len(test.want) || f.NeverFitLines[0] != test.want[0] {
				d.Errorf("%s: got %d rows, lines %v; want %v", test.name, f.NeverFit, f.NeverFitLines, test.want)
			}
		}
	})
}

// A forecast follows the routes: what the primary has no room for goes to the
// fallback, in the run and in the forecast.
func TestEstimateOfRoutes(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(120)...)
		house, cloud := fake.New(fake.Config{RPM: 30, Latency: time.Second}), fake.New(fake.Config{RPM: 60, Latency: time.Second})
		for _, when := range []route.Set{0, route.SetOf(route.RateLimited)} {
			edit := []func(*Config){d.pair(house, cloud, when), func(c *Config) {
				c.Targets[0].Limits.RPM, c.Targets[1].Limits.RPM = limit.Cap{N: 30, Set: true}, limit.Cap{N: 60, Set: true}
			}}
			f := d.foresee(Assume{Latency: time.Second}, edit...)
			if len(f.WhatIf) != 3 || f.WhatIf[1].Change != "everything on house/small" || f.WhatIf[2].Makespan >= f.WhatIf[1].Makespan {
				d.Errorf("got what-ifs %+v", f.WhatIf)
			}
			if f.Binding != "rpm" || f.LowerBound > f.Makespan || f.Shares[0].Target != "house/small" {
				d.Errorf("got binding %s, bound %.1f of %.1f s, shares %+v", f.Binding, f.LowerBound, f.Makespan, f.Shares)
			}
			began := time.Now()
			d.run(edit...)
			if took := time.Since(began).Seconds(); math.Abs(took/f.Makespan-1) > 0.05 {
				d.Errorf("conditions %v: the forecast was %.1f s, the run took %.1f s", when, f.Makespan, took)
			}
			for _, path := range []string{d.paths.Output, d.paths.Checkpoint} {
				if err := os.Remove(path); err != nil {
					d.Fatal(err)
				}
			}
			time.Sleep(2 * time.Minute)
		}
	})
}

// A large batch simulated on a smaller scale takes about as long.
func TestMakespanOnASmallerScale(t *testing.T) {
	t.Parallel()
	const n = 150_000
	for _, test := range []struct {
		name        string
		rpm, tpm    int64
		concurrency int
		latency     time.Duration
	}{
		{"requests", 5000, 0, 0, time.Second},
		{"tokens", 0, 3_000_000, 0, 3 * time.Second},
		{"both", 10_000, 6_000_000, 0, time.Second},
		{"in flight", 0, 0, 900, 2 * time.Second},
		{"ceiling", 0, 0, 0, 2 * time.Second},
	} {
		c := &Config{Targets: make([]Target, 1)}
		caps(test.rpm, test.tpm)(c)
		c.Targets[0].Limits.Concurrency = test.concurrency
		d := &dryRun{run: &run{Config: c, plan: &plan{}, started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, assume: Assume{Latency: test.latency}}
		d.sched = newScheduler(c, d.plan, d.started)
		for i := range n {
			j := &job{tokens: estimate.Tokens{Prompt: 100 + i*7919%1000, MaxOutput: 50 + i*104_729%200}}
			d.sched.lane(j).charge(j)
			d.add(j, &counted{})
		}
		v := d.asIs()
		parts := v.parts()
		whole, small := v.makespan(1), v.makespan(parts)
		if off := small.Seconds()/whole.Seconds() - 1; parts < 2 || math.Abs(off) > 0.02 {
			t.Errorf("%s: in %d parts %v, whole %v: %+.1f %%", test.name, parts, small, whole, 100*off)
		}
	}
}

// With --dedupe a forecast compares requests as their routes ask for them, as a
// run does: lines that differ in the model alone may be the same request.
func TestEstimateDedupesRouted(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(`{"id":"1","prompt":"hi","model":"a"}`, `{"id":"2","prompt":"hi","model":"b"}`, `{"id":"3","prompt":"ho","model":"a"}`)
		house := fake.New(fake.Config{})
		edit := []func(*Config){d.pair(house, house, 0), func(c *Config) { c.Dedupe = true }}
		f := d.foresee(Assume{}, edit...)
		s := d.run(edit...)
		if f.Duplicates != 1 || s.Calls != 2 {
			d.Errorf("got %d duplicates foreseen, %d calls, want 1 and 2", f.Duplicates, s.Calls)
		}
		d.input(`{"id":"1","prompt":"hi","model":"a"}`, `{"id":"2","prompt":"hi","model":"b"}`, `{"id":"3","prompt":"ho","model":"a"}`, `{"id":"4","prompt":"ho","model":"b"}`)
		if f = d.foresee(Assume{}, edit...); f.Duplicates != 1 || f.ToDo != 1 {
			d.Errorf("with a line more: got %d duplicates of %d, want 1 of 1", f.Duplicates, f.ToDo)
		}
	})
}

// The cost of a forecast is that of the first targets; what fallbacks may add is
// told apart, and is what a run's first line bounds.
func TestEstimateCostOfFallbacks(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(10)...)
		house := fake.New(fake.Config{})
		edit := []func(*Config){d.pair(house, house, route.SetOf(route.RateLimited)), func(c *Config) {
			c.Targets[0].Price = money.Price{Output: 1e6, Known: true}
			c.Targets[1].Price = money.Price{Output: 5e6, Known: true}
		}}
		f := d.foresee(Assume{}, edit...)
		if f.Cost == nil || f.CostMost == nil || *f.Cost != "0.00008" || *f.CostMost != "0.0004" {
			d.Errorf("got cost %v, with fallbacks %v, want 0.00008 and 0.0004", f.Cost, f.CostMost)
		}
		d.run(edit...)
		d.mustTell("cost at most about 0.0004")
		d.mustTell("its targets share the work")
	})
}

// The first line of a run names the limit group that takes longest.
func TestForecastOfModels(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(asks(60, "a", "b")...)
		d.run(func(c *Config) {
			c.ForModel = func(at int, model string) Target {
				out := c.Targets[at]
				out.Group, out.Limits.RPM = model, limit.Cap{N: map[string]int64{"a": 20, "b": 600}[model], Set: true}
				return out
			}
		})
		d.mustTell("at least 2m0s, bound by rpm of mock/a")
	})
}
