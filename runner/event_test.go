package runner

import (
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/route"
)

// What observers are told adds up to what the summary and the server say.
func TestEventsAddUp(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second, ErrorRate: 0.2, Seed: 3}, func(d *desk) {
		lines := append(prompts(60), `{"id":"bad","prompt":"[[fault:400]]"}`, `{"id":"twin","prompt":"prompt 1"}`, `{"id":"twin2","prompt":"prompt 1"}`)
		d.input(lines...)
		n := map[Transition]int64{}
		var reserved, used, onServer int64
		var waited, took time.Duration
		s := d.run(dedupe, func(c *Config) {
			c.Observe = func(e Event) {
				n[e.What]++
				switch e.What {
				case Sent:
					reserved += e.Reserved
				case Granted:
					waited = max(waited, e.Wait)
				case Answered, Failed:
					used += e.Used
					took = max(took, e.Latency)
					if !e.Unsent {
						onServer++
					}
				case Completed:
					if e.Op == "" || e.Line == 0 || e.Provider != "mock" || e.Model == "" || e.At.IsZero() {
						d.Errorf("got %+v, want what it is about", e)
					}
				default:
				}
			}
		})
		for _, c := range []struct {
			what      string
			got, want int64
		}{
			{"granted", n[Granted], s.Calls + s.Unreached},
			{"sent", n[Sent], s.Calls},
			{"retried", n[Retried], s.Retries},
			{"answered or failed", n[Answered] + n[Failed], s.Calls + s.Unreached},
			{"calls that reached the server", onServer, d.asked()},
			{"queued, less granted", n[Queued] - n[Granted] - n[Left], 0},
			{"completed", n[Completed], int64(s.Completed)},
			{"dead letters", n[DeadLettered], int64(s.Failed)},
			{"suppressed", n[Suppressed], 1},
			{"tokens reserved", reserved, s.TokensReserved},
			{"tokens used", used, s.TokensUsed},
		} {
			if c.got != c.want {
				d.Errorf("%s: got %d, want %d", c.what, c.got, c.want)
			}
		}
		if s.Retries == 0 || took < time.Second || waited == 0 || n[Measured] == 0 {
			d.Errorf("got %d retries, latency up to %v, waits up to %v, %d measurements; want some of each", s.Retries, took, waited, n[Measured])
		}
	})
}

// A primary that stops drains its queue: what goes elsewhere and what nothing
// takes is told, with a reason out of few.
func TestEventsOfFallbacks(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{true, false} {
		bubble(t, fake.Config{}, func(d *desk) {
			d.input(prompts(40)...)
			cloud := fake.Config{Latency: time.Second}
			if !all {
				cloud.QuotaAfter = 5
			}
			n := map[Transition]int64{}
			s := d.run(d.pair(fake.New(fake.Config{QuotaAfter: 3, Latency: time.Second}), fake.New(cloud), route.SetOf(route.SpendExhausted)), func(c *Config) {
				c.Observe = func(e Event) {
					n[e.What]++
					if e.What == FellBack && (e.FromProvider != "house" || e.FromModel != "small" || e.Provider != "cloud" || e.Model != "large" || e.Reason != "spend_exhausted") {
						d.Errorf("got %+v", e)
					}
				}
			})
			var moved int64
			for _, f := range s.Fallbacks {
				moved += f.Count
			}
			if moved == 0 || n[FellBack] != moved {
				d.Errorf("got %d moves told of %d", n[FellBack], moved)
			}
			if waiting := n[Queued] - n[Granted] - n[Left]; waiting != 0 || (n[Left] == 0) != all {
				d.Errorf("got %d queued, %d granted and %d left, %d unaccounted for", n[Queued], n[Granted], n[Left], waiting)
			}
		})
	}
}

func TestReasonName(t *testing.T) {
	for reason, want := range map[string]string{
		"rate_limited":                         "rate_limited",
		"provider_5xx, primary_unavailable":    "provider_5xx",
		"severe pressure":                      "pressure",
		"house/small waits for its rate limit": "rate_limited",
	} {
		if got := reasonName(reason); got != want {
			t.Errorf("%q: got %s, want %s", reason, got, want)
		}
	}
}
