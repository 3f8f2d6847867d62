package runner

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

// dry is a dry run over n operations of this size.
func dry(t *testing.T, n int, size estimate.Tokens, latency time.Duration, edit ...func(*Config)) *dryRun {
	t.Helper()
	c := &Config{Targets: make([]Target, 1)}
	for _, e := range edit {
		e(c)
	}
	d := &dryRun{run: &run{Config: c, plan: &plan{}, started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, assume: Assume{Latency: latency}}
	d.sched = newScheduler(c, d.plan, d.started)
	for range n {
		j := &job{tokens: size}
		d.sched.lane(j).charge(j)
		d.add(j, &counted{})
	}
	return d
}

// The examples of the method that the tool carries out, by their rates.
func TestForecastOfTheMethodsExamples(t *testing.T) {
	tests := []struct {
		name              string
		n, prompt, output int
		rpm, tpm          int64
		accounting        limit.Accounting
		binding           string
		perMinute         float64
	}{
		{"4,000 + 1,000 at 120,000", 240, 4000, 1000, 0, 120_000, limit.Sum, "tpm", 24},
		{"the same with only the larger charged", 300, 4000, 1000, 0, 120_000, limit.Max, "tpm", 30},
		{"the same with only the prompt charged", 300, 4000, 1000, 0, 120_000, limit.Input, "tpm", 30},
		{"short ones at 600 and 300,000", 1000, 150, 50, 600, 300_000, limit.Sum, "rpm", 600},
		{"long ones at 600 and 300,000", 100, 4000, 1000, 600, 300_000, limit.Sum, "tpm", 60},
		{"no limit", 50, 100, 10, 0, 0, limit.Sum, "none", 0},
	}
	for _, test := range tests {
		d := dry(t, test.n, estimate.Tokens{Prompt: test.prompt, MaxOutput: test.output}, time.Second, caps(test.rpm, test.tpm), func(c *Config) {
			c.Targets[0].Accounting = test.accounting
			if test.binding == "none" {
				c.Targets[0].Limits.RPM.Set, c.Targets[0].Limits.TPM.Set = true, true
			}
		})
		binding, shares, _ := d.asIs().binding()
		if binding != test.binding {
			t.Errorf("%s: got binding limit %q, want %q", test.name, binding, test.binding)
		}
		for _, s := range shares {
			if s.Limit == binding && math.Abs(s.Use-1) > 1e-9 {
				t.Errorf("%s: the binding limit is used %.3f, want 1", test.name, s.Use)
			}
		}
		if test.perMinute == 0 {
			continue
		}
		if got := float64(test.n) / (d.asIs().sustained() / 60); math.Abs(got-test.perMinute) > 1e-6 {
			t.Errorf("%s: got %.2f requests a minute, want %.0f", test.name, got, test.perMinute)
		}
	}
}

func TestMakespanIsNoShorterThanItsBound(t *testing.T) {
	for _, n := range []int{1, 7, 59, 60, 61, 250, 1000} {
		for _, prompt := range []int{10, 300, 5000} {
			for _, latency := range []time.Duration{0, time.Second, 20 * time.Second} {
				for _, limits := range [][2]int64{{60, 0}, {0, 100_000}, {60, 100_000}, {1000, 1_000_000}} {
					d := dry(t, n, estimate.Tokens{Prompt: prompt, Chars: 5 * prompt, MaxOutput: 100}, latency, caps(limits[0], limits[1]))
					v := d.asIs()
					low := v.lower()
					if got := v.makespan(1); got < low {
						t.Errorf("%d of %d tokens, latency %v, limits %v: makespan %v is below its bound %v", n, prompt, latency, limits, got, low)
					}
				}
			}
		}
	}
}

func TestMakespanFallsWithTheLimits(t *testing.T) {
	last := time.Duration(math.MaxInt64)
	for _, rpm := range []int64{30, 60, 120, 600} {
		d := dry(t, 200, estimate.Tokens{Prompt: 100, MaxOutput: 100}, time.Second, caps(rpm, 0))
		got := d.asIs().makespan(1)
		if got >= last {
			t.Errorf("%d a minute: got %v, no less than at half of it or less (%v)", rpm, got, last)
		}
		last = got
	}
}

// billedFor counts a prompt as a server with the model's own tokenizer does.
func billedFor(api, model string, body []byte) int {
	n, err := counter.Request(api, model, body)
	if err != nil {
		panic(err)
	}
	return n.Prompt
}

// What a dry run says is what the run then takes, against a server that keeps
// the same limits.
func TestForecastComesTrue(t *testing.T) {
	long := func(n, words int) []string {
		lines := make([]string, n)
		for i := range lines {
			lines[i] = ask(fmt.Sprintf("p%d", i), fmt.Sprint(i)+strings.Repeat(" word", words))
		}
		return lines
	}
	tests := []struct {
		name     string
		rpm, tpm int64
		lines    []string
		latency  time.Duration
		binding  string
	}{
		{"requests", 30, 1_000_000, long(100, 10), time.Second, "rpm"},
		{"tokens", 6000, 10_000, long(100, 300), 2 * time.Second, "tpm"},
		{"mixed lengths", 45, 9_000, mixed(125, 400), time.Second, "tpm"},
		{"balanced", 45, 10_000, mixed(125, 400), time.Second, "rpm"},
		{"slow answers", 60, 1_000_000, long(100, 10), 15 * time.Second, "rpm"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, fake.Config{RPM: int(test.rpm), TPM: int(test.tpm), Window: fake.Sliding, Latency: test.latency, Output: 8, Count: billedFor}, func(d *desk) {
				d.input(test.lines...)
				var each int64
				f, err := Estimate(context.Background(), d.config(caps(test.rpm, test.tpm)), Assume{Latency: test.latency}, func(l PerLine) error {
					each += l.Reserved
					return nil
				})
				if err != nil {
					d.Fatal(err)
				}
				if d.asked() != 0 || d.exists(d.paths.Checkpoint) || d.exists(d.paths.Output) {
					d.Error("the dry run sent or wrote something")
				}
				n := int64(len(test.lines))
				if f.Operations != n || f.ToDo != n || f.ReservedTokens != each || f.Binding != test.binding || f.LowerBound > f.Makespan {
					d.Errorf("got %d operations, %d to do, %d reserved (lines: %d), binding %q, bound %.1f of %.1f s", f.Operations, f.ToDo, f.ReservedTokens, each, f.Binding, f.LowerBound, f.Makespan)
				}
				d.run(caps(test.rpm, test.tpm))
				st := d.server.Stats()
				if off := st.Makespan/f.Makespan - 1; math.Abs(off) > 0.03 {
					d.Errorf("the forecast was %.1f s, the run took %.1f s: %+.1f %%", f.Makespan, st.Makespan, 100*off)
				}
			})
		})
	}
}

func TestForecastAfterAPartialRun(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: 4 * time.Second, Output: 5}, func(d *desk) {
		d.input(append(prompts(30), `{"custom_id":"big","prompt":"x","max_tokens":5000}`)...)
		d.run(func(c *Config) { c.Limit = 10 })
		f, err := Estimate(context.Background(), d.config(caps(60, 4000)), Assume{}, nil)
		if err != nil {
			d.Fatal(err)
		}
		if f.Operations != 31 || f.Done != 10 || f.ToDo != 21 || f.NeverFit != 1 || len(f.NeverFitLines) != 1 || f.NeverFitLines[0] != 31 {
			d.Errorf("got %d operations, %d done, %d to do, never fit %d (%v); want 31, 10, 21, 1 ([31])", f.Operations, f.Done, f.ToDo, f.NeverFit, f.NeverFitLines)
		}
		if f.Latency != 4 || f.LatencyFrom == "assumed" {
			d.Errorf("got latency %.1f s (%s), want the 4 s of earlier calls", f.Latency, f.LatencyFrom)
		}
	})
}
