package runner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/route"
)

func given(rpm int64) func(*Config) {
	return func(c *Config) { c.Targets[0].Limits.RPM = limit.Cap{N: rpm, Set: rpm > 0} }
}

// 60 calls at 20 a minute, with a second model for what would have to wait,
// take no longer than 60 calls that nothing limits. Where the limit has to be
// learned, the second model starts only when it is.
func TestSpillTakesAsLongAsAPassWithoutLimits(t *testing.T) {
	for _, latency := range []time.Duration{300 * time.Millisecond, 2 * time.Second} {
		var free float64
		bubble(t, fake.Config{Latency: latency}, func(d *desk) {
			d.input(prompts(60)...)
			free = d.run().Seconds
		})
		for _, test := range []struct {
			name  string
			rpm   int64
			style fake.Style
			most  float64 // of the time without limits
		}{
			{"given", 20, fake.NoHeaders, 1.1},
			{"by headers", 0, fake.OpenAI, 1.15},
			{"by refusals", 0, fake.NoHeaders, 1.5},
		} {
			t.Run(fmt.Sprintf("%v/%s", latency, test.name), func(t *testing.T) {
				t.Parallel()
				bubble(t, fake.Config{}, func(d *desk) {
					d.input(prompts(60)...)
					house := fake.New(fake.Config{RPM: 20, Window: fake.Sliding, Style: test.style, Latency: latency})
					s := d.run(d.pair(house, fake.New(fake.Config{Latency: latency}), route.SetOf(route.RateLimited)), given(test.rpm))
					d.whole(ids(60)...)
					if by := d.servedBy(); by["house/small"] != 20 || by["cloud/large"] != 40 {
						d.Errorf("got results of %v, want 20 and 40", by)
					}
					if s.Seconds > free*test.most {
						d.Errorf("it took %.2f s, %.2f times the %.2f s without limits; want %.2f times", s.Seconds, s.Seconds/free, free, test.most)
					}
					if test.rpm > 0 && s.RateLimited > 0 || s.RateLimited > 3 {
						d.Errorf("%d calls were refused", s.RateLimited)
					}
				})
			})
		}
	}
}

// A lane keeps to its own number of calls at once, in whatever group it is.
func TestConcurrencyIsTheTargetsOwn(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(40)...)
		house, cloud := fake.New(fake.Config{Latency: time.Second}), fake.New(fake.Config{Latency: time.Second})
		s := d.run(d.pair(house, cloud, route.SetOf(route.RateLimited)), func(c *Config) {
			r, _ := c.Routes.Resolve("")
			for i := range c.Targets {
				c.Targets[i].Group, r.Targets[i].Group = "one", "one"
			}
			c.Targets[0].Limits.Concurrency, c.Targets[1].Limits.Concurrency = 3, 20
		})
		d.whole(ids(40)...)
		if n := house.Stats().MaxInFlight; n > 3 || s.RateLimited > 0 {
			d.Errorf("%d calls at once, want at most 3", n)
		}
	})
}

// An output budget of its own counts what is generated, not the caps: 600
// tokens a minute are 60 answers of 10, whatever their caps allow.
func TestSplitBudgetIsUsedUp(t *testing.T) {
	bubble(t, fake.Config{Output: 10}, func(d *desk) {
		lines := prompts(120)
		for i := range lines {
			lines[i] = strings.Replace(lines[i], `"max_tokens":8`, `"max_tokens":100`, 1)
		}
		d.input(lines...)
		s := d.run(func(c *Config) {
			c.Targets[0].Accounting = limit.Split
			c.Targets[0].Limits.ITPM, c.Targets[0].Limits.OTPM = limit.Cap{N: 100_000, Set: true}, limit.Cap{N: 600, Set: true}
		})
		d.whole(ids(120)...)
		if s.Seconds > 70 {
			d.Errorf("it took %.1f s, want little more than a minute", s.Seconds)
		}
	})
}
