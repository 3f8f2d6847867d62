package runner

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/retry"
	"github.com/llmbatch/llmbatch/runner/route"
)

// turned is a server that answers every call with one refusal.
type turned struct {
	status int
	body   string
	asked  atomic.Int64
}

func (r *turned) RoundTrip(q *http.Request) (*http.Response, error) {
	r.asked.Add(1)
	return &http.Response{
		StatusCode: r.status, Header: http.Header{"Content-Type": {"application/json"}}, Request: q,
		Body: io.NopCloser(strings.NewReader(r.body)),
	}, nil
}

// mortal is a server behind a gateway that says so while it is dead.
type mortal struct {
	fake.Transport
	dead   func() bool
	missed atomic.Int64 // calls while it was dead
}

func (m *mortal) RoundTrip(q *http.Request) (*http.Response, error) {
	if m.dead() {
		m.missed.Add(1)
		dead := turned{status: 503, body: refused("server_error", "", "no upstream")}
		return dead.RoundTrip(q)
	}
	return m.Transport.RoundTrip(q)
}

func refused(typ, code, text string) string {
	return fmt.Sprintf(`{"error":{"type":%q,"code":%q,"message":%q}}`, typ, code, text)
}

// Two models of one provider that honours keys: the second one's request is not
// taken for the first one's with another body.
func TestFallbackHasAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		one := fake.New(fake.Config{HonourKeys: true, PerModel: map[string]fake.Config{"small": {LostRate: 1, HonourKeys: true}}})
		d.input(prompts(5)...)
		way := d.routed(serving(one), serving(one, route.PrimaryUnavailable, route.Timeout))
		s := d.run(way, func(c *Config) {
			r, _ := c.Routes.Resolve("")
			r.Policy = retry.Policy{MaxAttempts: 1}
		})
		keys := map[string]string{}
		for _, e := range one.Log() {
			if was := keys[e.Key]; was != "" && was != e.Model {
				d.Errorf("key %s went with %s and %s", e.Key, was, e.Model)
			}
			keys[e.Key] = e.Model
		}
		if d.whole(ids(5)...); s.Completed != 5 || s.Calls != 10 || len(keys) != 10 {
			d.Errorf("got %d completed by %d calls under %d keys; want 5, 10, 10", s.Completed, s.Calls, len(keys))
		}
	})
}

// Prompts that fail everywhere end up at the fallback, where nothing else goes:
// that is no outage of it.
func TestBadPromptsAreNoOutageOfTheFallback(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		house, spare := fake.New(fake.Config{Latency: time.Second}), fake.New(fake.Config{Latency: time.Second})
		lines := prompts(150)
		for i := range 9 {
			lines[i*15] = ask(fmt.Sprintf("p%d", i*15), "[[fault:503]] again")
		}
		d.input(lines...)
		s := d.run(d.routed(serving(house), serving(spare, route.Provider5xx)))
		if s.Completed != 141 || s.Failed != 9 {
			d.Errorf("got %d completed, %d failed; want 141 and 9", s.Completed, s.Failed)
		}
		// Eight attempts with backoff, at each of two targets at most.
		if s.Seconds > 600 {
			d.Errorf("took %.0f s: the fallback was taken for dead", s.Seconds)
		}
	})
}

func TestFallbackByClass(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		when   route.Condition
		calls  int64 // of the primary, for one operation
	}{
		{"context", 400, refused("invalid_request_error", "context_length_exceeded", "This model's maximum context length is 8 tokens."), route.ContextLengthNeeded, 1},
		{"policy", 400, refused("invalid_request_error", "content_policy_violation", "Your request was rejected by our safety system."), route.ContentPolicy, 1},
		{"spend", 429, refused("insufficient_quota", "insufficient_quota", "You exceeded your current quota."), route.SpendExhausted, 1},
		{"key", 401, refused("invalid_request_error", "invalid_api_key", "Incorrect API key provided."), route.PrimaryUnavailable, 1},
		{"model", 404, refused("invalid_request_error", "model_not_found", "The model does not exist."), route.PrimaryUnavailable, 1},
		{"server errors after the attempts", 500, refused("server_error", "", "The server had an error."), route.Provider5xx, 3},
		{"gateway errors after the attempts", 502, refused("server_error", "", "Bad gateway."), route.PrimaryUnavailable, 3},
		{"rate", 429, refused("requests", "rate_limit_exceeded", "Rate limit reached."), route.RateLimited, 1},
		{"rate after the attempts", 429, refused("requests", "rate_limit_exceeded", "Rate limit reached."), route.RateLimitAfterRetryBudget, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, fake.Config{}, func(d *desk) {
				d.input(prompts(1)...)
				house := &turned{status: test.status, body: test.body}
				s := d.run(d.routed(station{to: house}, serving(fake.New(fake.Config{}), test.when)), func(c *Config) {
					r, _ := c.Routes.Resolve("")
					r.Policy = retry.Policy{MaxAttempts: 3}
				})
				l := d.whole("p0")["p0"]
				if n := house.asked.Load(); l.LLM.Provider != "cloud" || l.LLM.Model != "large" || n != test.calls || l.LLM.Attempts != int(n)+1 {
					d.Errorf("got an answer of %s/%s after %d attempts, %d of them at the primary; want %d there", l.LLM.Provider, l.LLM.Model, l.LLM.Attempts, n, test.calls)
				}
				all := d.rows()["p0"].Attempts
				if first, last := all[0], all[len(all)-1]; first.Provider != "house" || first.Model != "small" || first.Class == "" || last.Provider != "cloud" || last.Model != "large" {
					d.Errorf("got attempts %+v", all)
				}
				if len(s.Fallbacks) != 1 || s.Fallbacks[0].From != "house/small" || s.Fallbacks[0].To != "cloud/large" || s.Fallbacks[0].Count != 1 || !strings.Contains(s.Fallbacks[0].Reason, test.when.String()) {
					d.Errorf("got fallbacks %+v, want one because of %v", s.Fallbacks, test.when)
				}
				// Nothing is asked again.
				house.asked.Store(0)
				if s := d.run(d.routed(station{to: house}, serving(fake.New(fake.Config{}), test.when))); s.Calls != 0 || s.Completed != 1 {
					d.Errorf("run again: %d calls, %d completed; want 0, 1", s.Calls, s.Completed)
				}
			})
		})
	}
}

func TestContextWindowIsSeenAhead(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(ask("short", "a word"), ask("long", strings.Repeat("word ", 200)))
		house := fake.New(fake.Config{})
		d.run(d.pair(house, fake.New(fake.Config{}), route.SetOf(route.ContextLengthNeeded)), func(c *Config) { c.Targets[0].Context = 100 })
		l := d.whole("short", "long")
		if l["short"].LLM.Provider != "house" || l["long"].LLM.Provider != "cloud" || house.Stats().Asked != 1 {
			d.Errorf("got answers of %s and %s, %d calls to the primary", l["short"].LLM.Provider, l["long"].LLM.Provider, house.Stats().Asked)
		}
	})
}

// A spent account is asked once; what waited for it goes elsewhere or stays.
func TestSpentAccountIsAskedOnce(t *testing.T) {
	for _, when := range []route.Condition{route.SpendExhausted, route.Timeout} {
		bubble(t, fake.Config{}, func(d *desk) {
			d.input(prompts(20)...)
			house := &turned{status: 429, body: refused("insufficient_quota", "insufficient_quota", "You exceeded your current quota.")}
			cloud := fake.New(fake.Config{})
			s := d.run(d.routed(station{to: house}, serving(cloud, when)), func(c *Config) { c.Targets[0].Limits.Concurrency = 1 })
			if n := house.asked.Load(); n != 1 {
				d.Errorf("%d calls to the spent account, want 1", n)
			}
			if when == route.SpendExhausted {
				d.whole(ids(20)...)
				return
			}
			d.wantStop(s, StopProvider, "quota_exhausted")
			if s.Pending != 20 || cloud.Stats().Asked != 0 {
				d.Errorf("got %d pending, %d calls to the fallback; want 20, 0", s.Pending, cloud.Stats().Asked)
			}
		})
	}
}

// With one target parked until a day's reset and no other for its operations,
// the run ends at a bound, with the time.
func TestParkedTargetTellsWhenItsLimitIsReset(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(20)...)
		house := fake.New(fake.Config{RPD: 5, Latency: time.Second})
		s := d.run(d.pair(house, fake.New(fake.Config{}), route.SetOf(route.Timeout)))
		d.wantStop(s, StopBound, "daily_limit")
		if until := time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour); s.Completed != 5 || s.Pending != 15 || s.Stop.Until.Sub(until).Abs() > time.Minute {
			d.Errorf("got %d completed, %d pending, come back at %v; want 5, 15, %v", s.Completed, s.Pending, s.Stop.Until, until)
		}
	})
}

// A primary that dies at 40 % and is back at 80 %: the circuit opens at once, and
// traffic returns with the first probe.
func TestPrimaryDiesAndComesBack(t *testing.T) {
	const n = 3000
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(n)...)
		c := fake.Config{Latency: 500 * time.Millisecond}
		house, cloud := fake.New(c), fake.New(c)
		m := &mortal{Transport: fake.Transport{Server: house}, dead: func() bool {
			done := house.Stats().Answered + cloud.Stats().Answered
			return done >= n*4/10 && done < n*8/10
		}}
		s := d.run(d.routed(station{to: m}, serving(cloud, route.PrimaryUnavailable)), func(c *Config) {
			c.Targets[0].Limits.Concurrency, c.Targets[1].Limits.RPM = 20, limit.Cap{N: 600, Set: true}
		})
		d.whole(ids(n)...)
		if s.Stop != nil || s.PossiblyTwice != 0 {
			d.Errorf("got stop %+v, %d possibly twice", s.Stop, s.PossiblyTwice)
		}
		var done []time.Time
		for _, e := range append(house.Log(), cloud.Log()...) {
			done = append(done, e.Ended)
		}
		slices.SortFunc(done, time.Time.Compare)
		died, back := done[n*4/10-1], done[n*8/10-1]
		returned := time.Time{}
		for _, e := range house.Log() {
			if e.Time.After(back) && (returned.IsZero() || e.Time.Before(returned)) {
				returned = e.Time
			}
		}
		if down := back.Sub(died); down < time.Minute || returned.Sub(back) < 0 || returned.Sub(back) > 31*time.Second {
			d.Errorf("down for %v, and traffic returned %v after that; want within the 30 s between probes", down, returned.Sub(back))
		}
		// 20, and a probe after 1, 2, 4, 8, 16 and then each 30 seconds.
		if probes := 5 + int64(back.Sub(died)/(30*time.Second)); m.missed.Load() > 20+probes {
			d.Errorf("%d calls went to the dead server, want at most 20 and %d probes", m.missed.Load(), probes)
		}
	})
}

// Up to 32 of 150 calls fail; with failover all are answered, none billed twice.
func TestFailingProviderWithFailover(t *testing.T) {
	for seed := range uint64(5) {
		bubble(t, fake.Config{}, func(d *desk) {
			d.input(prompts(150)...)
			house := fake.New(fake.Config{ErrorRate: 0.3, ErrorMax: 32, Seed: seed, Latency: time.Second})
			cloud := fake.New(fake.Config{Latency: time.Second})
			s := d.run(d.pair(house, cloud, route.SetOf(route.Provider5xx, route.Overloaded)))
			d.whole(ids(150)...)
			if b := house.Stats().Billed + cloud.Stats().Billed; b != 150 || s.PossiblyTwice != 0 {
				d.Errorf("%d calls were billed, %d possibly twice; want 150, 0", b, s.PossiblyTwice)
			}
		})
	}
}

// Answers that were paid for and lost are asked of the same provider under the
// same key; only those are possibly paid twice, and all of them are named.
func TestLostAnswersStayWithTheirProvider(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(150)...)
		house := fake.New(fake.Config{LostRate: 0.1, Seed: 7, Latency: time.Second, HonourKeys: true})
		cloud := fake.New(fake.Config{Latency: time.Second})
		s := d.run(d.pair(house, cloud, route.SetOf(route.Provider5xx, route.Timeout, route.PrimaryUnavailable)))
		d.whole(ids(150)...)
		lost := house.Stats().Lost
		if lost == 0 || s.PossiblyTwice != lost || len(s.UnknownOps) == 0 {
			d.Errorf("%d answers were lost; %d possibly twice, named %q", lost, s.PossiblyTwice, s.UnknownOps)
		}
		if n := cloud.Stats().Asked; n != 0 || house.Stats().Twice.Operations != 0 {
			d.Errorf("%d calls went elsewhere, %d operations billed twice; want 0, 0", n, house.Stats().Twice.Operations)
		}
	})
}

// A provider that may have been paid and fails since has all its attempts, then
// another is asked.
func TestLostAnswerGoesElsewhereAfterTheBudget(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(ask("a", "[[fault:lost]] once"))
		house := fake.New(fake.Config{Latency: time.Second})
		var asked atomic.Int64
		m := &mortal{Transport: fake.Transport{Server: house}, dead: func() bool { return asked.Add(1) > 1 }}
		cloud := station{to: &clean{fake.Transport{Server: fake.New(fake.Config{})}}, when: route.SetOf(route.PrimaryUnavailable)}
		s := d.run(d.routed(station{to: m}, cloud))
		l := d.whole("a")["a"]
		if l.LLM.Provider != "cloud" || s.PossiblyTwice != 1 || s.UnknownOps[0] != "a" || l.LLM.Attempts != 9 {
			d.Errorf("got an answer of %s after %d attempts, %d possibly twice; want cloud's after 8 of the other's", l.LLM.Provider, l.LLM.Attempts, s.PossiblyTwice)
		}
	})
}

// clean takes the fault out of a prompt.
type clean struct{ fake.Transport }

func (c *clean) RoundTrip(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	q = q.Clone(q.Context())
	q.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(body), "[[fault", "[[")))
	return c.Transport.RoundTrip(q)
}

// A fallback whose limit group is used up is passed over for the next.
func TestFallbackInAnExhaustedGroupIsSkipped(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(30)...)
		house, cloud, spare := fake.New(fake.Config{RPM: 10, Window: fake.Sliding}), fake.New(fake.Config{}), fake.New(fake.Config{})
		s := d.run(d.routed(serving(house), serving(cloud, route.RateLimited), serving(spare, route.RateLimited)), func(c *Config) {
			r, _ := c.Routes.Resolve("")
			c.Targets[1].Group, r.Targets[1].Group = "house", "house"
			for i := range 2 {
				c.Targets[i].Limits.RPM = limit.Cap{N: 10, Set: true}
			}
		})
		d.whole(ids(30)...)
		if by := d.servedBy(); cloud.Stats().Asked != 0 || by["house/small"] > 10 || s.RateLimited != 0 {
			d.Errorf("got results of %v, %d calls to the exhausted group's other model", by, cloud.Stats().Asked)
		}
	})
}

// Two models of one group never pass its limit together.
func TestGroupHasOneLimiter(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		lines := prompts(60)
		for i := range lines {
			lines[i] = strings.Replace(lines[i], "{", fmt.Sprintf(`{"task":"t%d",`, i%2), 1)
		}
		d.input(lines...)
		one := fake.New(fake.Config{RPM: 20, Window: fake.Sliding})
		edit := d.pair(one, one, route.SetOf(route.RateLimited))
		s := d.run(edit, func(c *Config) {
			for i := range c.Targets {
				c.Targets[i].Group, c.Targets[i].Limits.RPM = "one", limit.Cap{N: 20, Set: true}
			}
			mine := func(n int) *Route {
				return &Route{Lanes: []int{n}, Route: route.Route{Degrade: -1, Targets: []route.Target{{Group: "one"}}, When: []route.Set{0}}}
			}
			routes := map[string]*Route{"t0": mine(0), "t1": mine(1)}
			c.Routes.Resolve = func(task string) (*Route, error) { return routes[task], nil }
		})
		d.whole(ids(60)...)
		if by := d.servedBy(); by["house/small"] != 30 || by["cloud/large"] != 30 {
			d.Errorf("got results of %v, want 30 each", by)
		}
		if requests, _ := peak(one.Log()); requests > 20 || s.RateLimited > 0 {
			d.Errorf("a minute holds %d calls, %d refused; want at most 20, 0", requests, s.RateLimited)
		}
	})
}

// Each task's policy bounds its operations.
func TestPolicyOfTheTask(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(`{"custom_id":"few","task":"few","prompt":"[[fault:500]] a","max_tokens":8}`, `{"custom_id":"many","task":"many","prompt":"[[fault:503]] b","max_tokens":8}`)
		server := fake.New(fake.Config{})
		d.run(d.pair(server, server, 0), func(c *Config) {
			routes := map[string]*Route{}
			for task, n := range map[string]int{"few": 2, "many": 6} {
				routes[task] = &Route{Lanes: []int{0}, Route: route.Route{Degrade: -1, Targets: make([]route.Target, 1), When: []route.Set{0}, Policy: retry.Policy{MaxAttempts: n}}}
			}
			c.Routes.Resolve = func(task string) (*Route, error) { return routes[task], nil }
		})
		dead := d.lines(d.paths.Errors)
		if len(dead) != 2 || dead["few"].LLM.Attempts != 2 {
			d.Errorf("got %d dead letters, of few with %d attempts", len(dead), dead["few"].LLM.Attempts)
		}
	})
}

// A changed route is a changed setting: the run refuses and shows it.
func TestChangedRouteIsRefused(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(4)...)
		house, cloud := fake.New(fake.Config{}), fake.New(fake.Config{})
		d.run(d.pair(house, cloud, route.SetOf(route.RateLimited)))
		_, err := d.try(d.pair(house, cloud, route.SetOf(route.Timeout)))
		var fault *Error
		if !errors.As(err, &fault) || fault.Fault != FaultUsage || !strings.Contains(err.Error(), "routes") {
			d.Errorf("got %v, want a refusal that names the routes", err)
		}
		renamed := func(c *Config) { c.Targets[0].Model = "medium"; c.Changed = Rerun }
		if s := d.run(d.pair(house, cloud, route.SetOf(route.RateLimited)), renamed); s.Calls != 4 {
			d.Errorf("another model of the primary: %d calls, want 4", s.Calls)
		}
	})
}

// Twins of an operation that stays pending do not hold the run open.
func TestTwinsOfAPendingOperation(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(ask("a", "the same"), ask("b", "the same"))
		house := &turned{status: 401, body: refused("invalid_request_error", "invalid_api_key", "Incorrect API key provided.")}
		s := d.run(d.routed(station{to: house}, serving(fake.New(fake.Config{}), route.Timeout)), func(c *Config) { c.Dedupe = true })
		d.wantStop(s, StopProvider, "auth")
		if s.Pending != 2 {
			d.Errorf("got %d pending, want 2", s.Pending)
		}
	})
}

// A target that replaces no model asks for the line's own, also after another
// has replaced it; the request that counts is the primary's.
func TestFallbackThatKeepsTheLinesModel(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(`{"custom_id":"a","model":"own","prompt":"a","max_tokens":8}`)
		house := &turned{status: 401, body: refused("invalid_request_error", "invalid_api_key", "Incorrect API key provided.")}
		cloud := fake.New(fake.Config{})
		keep := func(c *Config) { c.Targets[1].Model = "" }
		d.run(d.routed(station{to: house}, serving(cloud, route.PrimaryUnavailable)), keep)
		if l := d.whole("a")["a"]; l.LLM.Provider != "cloud" || l.LLM.Model != "own" || cloud.Stats().Models["own"].Billed != 1 {
			d.Errorf("got an answer of %s/%s", l.LLM.Provider, l.LLM.Model)
		}
		if s := d.run(d.routed(station{to: house}, serving(cloud, route.PrimaryUnavailable)), keep); s.Calls != 0 {
			d.Errorf("run again: %d calls, want 0", s.Calls)
		}
	})
}
