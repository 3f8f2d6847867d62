package runner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

// asks makes n lines for each of the models, in turn.
func asks(n int, models ...string) (lines []string) {
	for i := range n {
		for _, m := range models {
			lines = append(lines, fmt.Sprintf(`{"id":"%s-%d","prompt":"number %d","model":"%s","max_tokens":8}`, m, i, i, m))
		}
	}
	return lines
}

// Each model that lines name has limits of its own: one that is used up holds
// up none of the others.
func TestModelsLimitedApart(t *testing.T) {
	slow := fake.Config{RPM: 20, Style: fake.OpenAI, Latency: 100 * time.Millisecond}
	quick := slow
	quick.RPM = 6000
	c := quick
	c.PerModel = map[string]fake.Config{"slow": slow, "quick": quick}
	bubble(t, c, func(d *desk) {
		d.input(asks(60, "slow", "quick")...)
		var quickDone time.Duration
		start := time.Now()
		done := 0
		s := d.run(func(c *Config) {
			c.Observe = func(e Event) {
				if e.What == Completed && e.Model == "quick" {
					if done++; done == 60 {
						quickDone = e.At.Sub(start)
					}
				}
			}
		})
		if s.Completed != 120 || quickDone == 0 || quickDone > 10*time.Second {
			t.Errorf("got %d completed, the unlimited model's after %s, want 120 and at most 10s", s.Completed, quickDone)
		}
		var names []string
		for _, u := range s.Limits {
			if u.Name == "rpm" {
				names = append(names, fmt.Sprintf("%s %d", u.Target, u.N))
			}
		}
		if got := strings.Join(names, ", "); got != "mock/slow 20, mock/quick 6000" {
			t.Errorf("limits: got %s", got)
		}
	})
}

// A limit that flags give without naming a model holds for all of them together.
func TestModelsShareGivenLimit(t *testing.T) {
	bubble(t, fake.Config{RPM: 60, Window: fake.Sliding, Style: fake.OpenAI}, func(d *desk) {
		d.input(asks(90, "a", "b")...)
		s := d.run(func(c *Config) { c.Targets[0].Limits.RPM = limit.Cap{N: 60, Set: true} })
		if s.Completed != 180 || s.RateLimited != 0 || s.PeakRequests > 60 {
			t.Errorf("got %d completed, %d refused, %d in the busiest minute, want 180, none, 60", s.Completed, s.RateLimited, s.PeakRequests)
		}
	})
}

// --concurrency bounds all models together, and what none of them can do, ends
// the run once.
func TestModelsShareConcurrencyAndStops(t *testing.T) {
	bubble(t, fake.Config{Latency: time.Second, Concurrency: 3, APIKey: ""}, func(d *desk) {
		d.input(asks(20, "a", "b", "c")...)
		if s := d.run(func(c *Config) { c.Targets[0].Limits.Concurrency = 3 }); s.Completed != 60 || s.Calls != 60 {
			t.Errorf("got %d completed by %d calls, want 60 by 60", s.Completed, s.Calls)
		}
	})
	bubble(t, fake.Config{Latency: time.Second, Concurrency: 1}, func(d *desk) {
		d.input(asks(3, "a", "b")...)
		if s := d.run(func(c *Config) { c.Targets[0].Limits.Concurrency = 1 }); s.Completed != 6 || s.Stop != nil {
			t.Errorf("one at a time: got %d completed, stop %+v, want 6", s.Completed, s.Stop)
		}
	})
	bubble(t, fake.Config{APIKey: "another", Latency: 100 * time.Millisecond}, func(d *desk) {
		d.input(asks(20, "a", "b", "c")...)
		s := d.run()
		if s.Calls > 8 || s.Stop == nil || s.Stop.Class != "auth" || s.Pending != 60 {
			t.Errorf("a bad key: got %d calls, stop %+v, %d pending, want those of one round trip, auth and 60", s.Calls, s.Stop, s.Pending)
		}
	})
	bubble(t, fake.Config{Models: []string{"a"}, Latency: 100 * time.Millisecond}, func(d *desk) {
		d.input(asks(20, "a", "b")...)
		s := d.run()
		if s.Completed != 20 || s.Stop == nil || s.Stop.Class != "model_not_found" || s.Pending != 20 {
			t.Errorf("a missing model: got %d completed, stop %+v, %d pending, want 20, model_not_found and 20", s.Completed, s.Stop, s.Pending)
		}
	})
}

// Many models share what the first of them leave over.
func TestManyModels(t *testing.T) {
	bubble(t, fake.Config{Latency: 10 * time.Millisecond}, func(d *desk) {
		var models []string
		for i := range 500 {
			models = append(models, fmt.Sprintf("m%d", i))
		}
		d.input(asks(1, models...)...)
		if s := d.run(); s.Completed != 500 {
			t.Errorf("got %d completed, want 500", s.Completed)
		}
		own := *d.config()
		own.separate(models[:64])
		if len(own.Targets) != 65 || own.at(0, "m63") != 64 || own.at(0, "m64") != 0 {
			t.Errorf("got %d targets, m63 at %d, m64 at %d, want 65, 64 and 0", len(own.Targets), own.at(0, "m63"), own.at(0, "m64"))
		}
	})
}
