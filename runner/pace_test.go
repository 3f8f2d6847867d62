package runner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

// caps are limits that the user gives; 0 = learned.
func caps(rpm, tpm int64) func(*Config) {
	return func(c *Config) {
		c.Targets[0].Limits.RPM = limit.Cap{N: rpm, Set: rpm > 0}
		c.Targets[0].Limits.TPM = limit.Cap{N: tpm, Set: tpm > 0}
	}
}

// peak is the most that any rolling minute of the server's log holds, of
// requests and of tokens.
func peak(log []fake.Entry) (requests int, tokens int64) {
	slices.SortFunc(log, func(a, b fake.Entry) int { return cmp.Compare(a.Time.UnixNano(), b.Time.UnixNano()) })
	var sum int64
	from := 0
	for i, e := range log {
		sum += e.Tokens
		for e.Time.Sub(log[from].Time) >= time.Minute {
			sum -= log[from].Tokens
			from++
		}
		requests, tokens = max(requests, i-from+1), max(tokens, sum)
	}
	return requests, tokens
}

// wantPeak checks the server's own log against the limits given.
func (d *desk) wantPeak(rpm int, tpm int64) {
	d.Helper()
	requests, tokens := peak(slices.Clone(d.server.Log()))
	if requests > rpm || tokens > tpm {
		d.Errorf("a rolling minute holds %d requests and %d tokens, more than %d and %d", requests, tokens, rpm, tpm)
	}
}

// tokensOf counts a request body as the runner does, for a server whose
// charge is then the same.
func tokensOf(api, model string, body []byte) int {
	n, err := counter.Request(api, model, body)
	if err != nil {
		panic(err)
	}
	return max(n.Prompt, (n.Chars+3)/4+1)
}

// mixed makes n prompts whose lengths go from a few tokens to several hundred.
func mixed(n, most int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = ask(fmt.Sprintf("p%d", i), fmt.Sprint(i)+strings.Repeat(" word", (i*7919)%most))
	}
	return lines
}

func TestNoRollingMinutePassesTheLimits(t *testing.T) {
	tests := []struct {
		name     string
		rpm, tpm int64
		lines    []string
	}{
		{"requests", 30, 1_000_000, mixed(75, 20)},
		{"tokens", 6000, 5_000, mixed(75, 400)},
		{"both", 30, 6_000, mixed(75, 350)},
	}
	for _, test := range tests {
		for _, window := range []fake.Window{fake.Bucket, fake.Fixed, fake.Sliding} {
			t.Run(test.name+"/"+window.String(), func(t *testing.T) {
				t.Parallel()
				c := fake.Config{
					RPM: int(test.rpm), TPM: int(test.tpm), Window: window, Phase: 17 * time.Second,
					Latency: 2 * time.Second, LatencyJitter: time.Second, Count: tokensOf,
				}
				bubble(t, c, func(d *desk) {
					d.input(test.lines...)
					s := d.run(caps(test.rpm, test.tpm))
					d.whole(ids(len(test.lines))...)
					d.wantPeak(int(test.rpm), test.tpm)
					st := d.server.Stats()
					if st.RefusedSum > 0 {
						d.Errorf("%d of %d calls were refused, want none", st.RefusedSum, st.Asked)
					}
					need := max(float64(s.Calls)/float64(test.rpm), float64(st.Charged)/float64(test.tpm)) // minutes, of which the first is free
					if most := 60 * need * 1.1; s.Seconds > most {
						d.Errorf("it took %.1f s, want at most %.1f", s.Seconds, most)
					}
				})
			})
		}
	}
}

func TestStopAndStartSendNoSecondMinute(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{RPM: 60, Window: fake.Sliding, Latency: time.Second, Count: tokensOf}, func(d *desk) {
		d.input(mixed(150, 100)...)
		for _, after := range []time.Duration{8 * time.Second, 3 * time.Second, 20 * time.Second} {
			s := d.run(caps(60, 8000), func(c *Config) { c.Deadline = after })
			if s.Stop == nil || s.Stop.Kind != StopBound {
				d.Fatalf("after %v: got stop %+v, want the deadline's", after, s.Stop)
			}
			if s.Unknown != 0 {
				d.Errorf("%d operations are unknown, want what was in flight to finish", s.Unknown)
			}
		}
		d.run(caps(60, 8000))
		d.whole(ids(150)...)
		d.wantPeak(60, 8000)
		if st := d.server.Stats(); st.RefusedSum > 0 || st.TwiceBodies.Operations > 0 {
			d.Errorf("%d calls refused, %d operations billed twice; want none", st.RefusedSum, st.TwiceBodies.Operations)
		}
	})
}

// Attempts of earlier runs are added up by what a window tells apart: none is left
// out, and none counts from before it went.
func TestSeedsAddUp(t *testing.T) {
	t.Parallel()
	now := time.Unix(60*29_833_334, 0) // a whole minute
	c := &Config{Targets: []Target{{Provider: "a", Model: "m"}, {Provider: "b"}}}
	p := &plan{seeds: map[seed]limit.Cost{}}
	for _, a := range []struct {
		ago      time.Duration
		provider string
		sent     bool
	}{
		{24 * time.Hour, "a", true}, // too old
		{24*time.Hour - time.Second, "a", true},
		{10*time.Minute + 50*time.Second, "a", true},
		{10*time.Minute + 10*time.Second, "a", true},
		{10 * time.Minute, "a", true},
		{10 * time.Minute, "b", true},
		{10 * time.Minute, "b", false},
		{10 * time.Minute, "c", true}, // no target of this run
		{90*time.Second + 9*time.Millisecond, "b", true},
		{90*time.Second + 2*time.Millisecond, "b", true},
		{90*time.Second - time.Millisecond, "b", true},
	} {
		p.seed(c, &checkpoint.Attempt{At: now.Add(-a.ago), Provider: a.provider, Model: "m", Sent: a.sent, Charge: checkpoint.Charge{Requests: 1, Tokens: 10, Output: 3}}, now)
	}
	at := func(target int, ago time.Duration) seed { return seed{target, now.Add(-ago).UnixNano()} }
	times := func(n int64) limit.Cost { return limit.Cost{Requests: n, Tokens: 10 * n, Output: 3 * n} }
	want := map[seed]limit.Cost{
		at(0, 24*time.Hour-time.Minute):           times(1),
		at(0, 10*time.Minute):                     times(3),
		at(1, 10*time.Minute):                     times(1),
		at(1, 90*time.Second):                     times(2),
		at(1, 90*time.Second-10*time.Millisecond): times(1),
	}
	if !maps.Equal(p.seeds, want) {
		t.Errorf("got %v, want %v", p.seeds, want)
	}
}

// Attempts of operations that run again, since their line was edited, still
// fill the window for every later start.
func TestEditedLinesKeepTheirPlaceInTheWindow(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		lines := prompts(60)
		d.input(lines...)
		d.run(caps(60, 0))
		for i := range lines {
			lines[i] = ask(fmt.Sprintf("p%d", i), fmt.Sprint("edited ", i))
		}
		d.input(lines...)
		if s := d.run(caps(60, 0), func(c *Config) { c.Deadline = time.Second }); s.Calls != 0 {
			d.Fatalf("got %d calls within the second, want none in a full minute", s.Calls)
		}
		s := d.run(caps(60, 0))
		d.wantPeak(60, 1_000_000)
		if l := d.whole(ids(60)...)["p0"]; l.LLM.Attempts != 1 || s.Retries != 0 {
			d.Errorf("got %d attempts of an edited line and %d retries, want 1 and 0", l.LLM.Attempts, s.Retries)
		}
	})
}

func TestRefusalsLoseNothingAndUseUpNoAttempts(t *testing.T) {
	for _, style := range []fake.Style{fake.OpenAI, fake.OpenRouter, fake.RetryAfter, fake.NoHeaders} {
		t.Run(style.String(), func(t *testing.T) {
			t.Parallel()
			bubble(t, fake.Config{RPM: 30, Burst: 5, Style: style, Latency: 500 * time.Millisecond}, func(d *desk) {
				d.input(prompts(60)...)
				s := d.run()
				d.whole(ids(60)...)
				if s.RateLimited == 0 {
					d.Error("no call was refused: the test shows nothing")
				}
				if s.Failed != 0 || s.Stop != nil {
					d.Errorf("got %d failed, stop %+v", s.Failed, s.Stop)
				}
			})
		})
	}
}

func TestRefusedItemOutlastsItsAttempts(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		lines := prompts(60)
		for i := range 3 {
			lines[i] = ask(fmt.Sprintf("p%d", i), fmt.Sprintf("[[fault:429x12]] number %d", i))
		}
		d.input(lines...)
		s := d.run()
		d.whole(ids(60)...)
		if s.RateLimited != 36 {
			d.Errorf("got %d refusals, want 12 of each of 3, more than the 8 attempts that failures get", s.RateLimited)
		}
	})
}
