package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/route"
)

// wantStop checks what ended a run, and that it says how to go on.
func (d *desk) wantStop(s *Summary, kind StopKind, class string) {
	d.Helper()
	switch {
	case s.Stop == nil:
		d.Fatalf("the run did not stop: %+v", s)
	case s.Stop.Kind != kind || s.Stop.Class != class || s.Stop.Reason == "" || s.Stop.Hint == "":
		d.Errorf("got stop %+v, want kind %d, class %q, a reason and a hint", s.Stop, kind, class)
	}
}

func TestSpentQuotaStopsAtTheFirstCall(t *testing.T) {
	for _, marker := range []string{"quota", "auth", "model"} {
		t.Run(marker, func(t *testing.T) {
			bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
				lines := prompts(50)
				lines[0] = ask("p0", "[[fault:"+marker+"x1]]")
				d.input(lines...)
				s := d.run(func(c *Config) { c.Targets[0].Limits.Concurrency = 1 })
				class := map[string]string{"quota": "quota_exhausted", "auth": "auth", "model": "model_not_found"}[marker]
				d.wantStop(s, StopProvider, class)
				if s.Calls != 1 || s.Pending != 50 || s.Failed != 0 || s.Unknown != 0 {
					d.Errorf("got %d calls, %d pending, %d failed, %d unknown; want 1, 50, 0, 0", s.Calls, s.Pending, s.Failed, s.Unknown)
				}
				d.run()
				d.whole(ids(50)...)
			})
		})
	}
}

func TestSpentQuotaInTheMiddleKeepsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second, QuotaAfter: 40}, func(d *desk) {
		d.input(prompts(200)...)
		s := d.run()
		d.wantStop(s, StopProvider, "quota_exhausted")
		st := d.server.Stats()
		if s.Completed != st.Billed || s.Completed < 40 || s.Completed+s.Pending != 200 {
			d.Errorf("got %d completed, %d pending, %d billed; want what was billed completed and the rest pending", s.Completed, s.Pending, st.Billed)
		}
		if refused := st.Refused["quota"]; refused > int64(st.MaxInFlight) {
			d.Errorf("%d calls were refused for the quota, more than were in flight at a time", refused)
		}
	})
}

func TestDailyLimitStopsWithTheTimeToComeBack(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{RPD: 10, Latency: time.Second}, func(d *desk) {
		d.input(prompts(25)...)
		s := d.run()
		midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		d.wantStop(s, StopBound, s.Stop.Class)
		if s.Completed != 10 || s.Pending != 15 || s.Failed != 0 {
			d.Errorf("got %d completed, %d pending, %d failed; want 10, 15, 0", s.Completed, s.Pending, s.Failed)
		}
		if off := s.Stop.Until.Sub(midnight); off < -time.Second || off > 10*time.Minute {
			d.Errorf("come back at %v, want about %v", s.Stop.Until, midnight)
		}
		time.Sleep(time.Until(s.Stop.Until))
		if s = d.run(); s.Completed != 20 {
			d.Errorf("the next day: got %d completed, want 20", s.Completed)
		}
		time.Sleep(time.Until(s.Stop.Until))
		d.run()
		d.whole(ids(25)...)
	})
}

func TestDailyLimitOfTheUserHoldsAcrossRuns(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		d.input(prompts(25)...)
		daily := func(c *Config) { c.Targets[0].Limits.RPD.N, c.Targets[0].Limits.RPD.Set = 10, true }
		start := time.Now()
		s := d.run(daily)
		d.wantStop(s, StopBound, "")
		if s.Completed != 10 || s.Stop.Until.Sub(start) < 24*time.Hour {
			d.Errorf("got %d completed, come back after %v; want 10, a day", s.Completed, s.Stop.Until.Sub(start))
		}
		if s = d.run(daily); s.Calls != 0 || s.Stop == nil {
			d.Errorf("at once again: got %d calls, stop %v; want 0 and a stop", s.Calls, s.Stop)
		}
		time.Sleep(time.Until(s.Stop.Until))
		if s = d.run(daily); s.CompletedNow != 10 {
			d.Errorf("a day later: got %d completed now, want 10", s.CompletedNow)
		}
	})
}

func TestOutageIsSatThrough(t *testing.T) {
	for _, status := range []int{0, 503} {
		bubble(t, fake.Config{Latency: time.Second, DownFrom: 30, DownUntil: 75, DownStatus: status}, func(d *desk) {
			d.input(prompts(80)...)
			s := d.run()
			d.whole(ids(80)...)
			if s.Failed != 0 || s.Stop != nil {
				d.Errorf("status %d: got %d failed, stop %+v", status, s.Failed, s.Stop)
			}
		})
	}
}

func TestOutageWithoutEndStops(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second, DownFrom: 21, DownStatus: 503}, func(d *desk) {
		d.input(prompts(60)...)
		start := time.Now()
		s := d.run(func(c *Config) { c.Policy.MaxOutage = 10 * time.Minute })
		d.wantStop(s, StopProvider, "overloaded")
		if took := time.Since(start); took < 10*time.Minute || took > 10*time.Minute+10*time.Second {
			d.Errorf("it took %v, want 10 minutes and the calls before and after them", took)
		}
		if s.Completed != 20 || s.Pending+s.Failed+s.Unknown != 40 || s.Failed > 8 {
			d.Errorf("got %d completed, %d pending, %d failed, %d unknown; want 20 and the rest pending", s.Completed, s.Pending, s.Failed, s.Unknown)
		}
		if s.Calls > 400 {
			d.Errorf("%d calls were made to a server that is down", s.Calls)
		}
		d.serve(fake.Config{})
		d.run()
		d.whole(ids(60)...)
	})
}

// absent is a server to which no connection can be made.
type absent struct{ provider.Client }

func (absent) Do(context.Context, provider.Request) (*provider.Response, error) {
	return nil, &provider.Error{Provider: "mock", Kind: provider.KindConnect, Message: "connection refused", Rate: provider.NoRate()}
}

// The time that is promised holds for short ones too, whose pauses are a good part
// of it, and for a single operation.
func TestOutageEndsAtTheTimePromised(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 60} {
		for _, most := range []time.Duration{4 * time.Second, 20 * time.Second, time.Minute} {
			bubble(t, fake.Config{}, func(d *desk) {
				d.input(prompts(n)...)
				start := time.Now()
				s := d.run(func(c *Config) { c.Targets[0].Client, c.Policy.MaxOutage = absent{c.Targets[0].Client}, most })
				d.wantStop(s, StopProvider, "connect")
				if took := time.Since(start); took < most || took > most+100*time.Millisecond {
					d.Errorf("%d operations: it took %v, want %v", n, took, most)
				}
				d.mustTell("trying again for up to " + most.String())
			})
		}
	}
}

// An outage of all targets is told once, when the last of them is down, and ends at
// the time promised; one of a target that another stands in for is none.
func TestOutageOfAllTargets(t *testing.T) {
	t.Parallel()
	const most = 10 * time.Second
	for _, when := range []route.Condition{route.PrimaryUnavailable, route.CircuitOpen, route.ContextLengthNeeded} {
		for _, n := range []int{1, 60} {
			for gone := 1; gone <= 2; gone++ {
				bubble(t, fake.Config{}, func(d *desk) {
					d.input(prompts(n)...)
					start, told := time.Now(), []time.Duration(nil)
					s := d.run(d.routed(serving(d.server), serving(fake.New(fake.Config{}), when)), func(c *Config) {
						for i := range gone {
							c.Targets[i].Client = absent{c.Targets[i].Client}
						}
						c.Policy.MaxOutage = most
						c.Notice = func(msg string) {
							if strings.Contains(msg, "no target answers") {
								told = append(told, time.Since(start))
							}
						}
					})
					took := time.Since(start)
					switch stands := when != route.ContextLengthNeeded; {
					case gone == 1 && stands:
						if len(told) > 0 || s.Completed != int64(n) {
							d.Errorf("%d operations, %v: got an outage told after %v, %d completed", n, when, told, s.Completed)
						}
					case len(told) != 1 || s.Stop == nil || s.Stop.Class != "connect":
						d.Errorf("%d operations, %v, %d gone: got an outage told after %v and stop %+v, want one of each", n, when, gone, told, s.Stop)
					case took > told[0]+most+200*time.Millisecond || took < most:
						d.Errorf("%d operations, %v, %d gone: told after %v, ended after %v, want %v later at most", n, when, gone, told[0], took, most)
					}
				})
			}
		}
	}
}

// A provider that is down is so for all models that lines name: it is told once.
func TestOutageIsToldOnceForAllModels(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		var lines []string
		for i := range 20 {
			lines = append(lines, fmt.Sprintf(`{"id":"p%d","prompt":"go","model":"m%d","max_tokens":8}`, i, i))
		}
		d.input(lines...)
		d.run(func(c *Config) { c.Targets[0].Client, c.Policy.MaxOutage = absent{c.Targets[0].Client}, time.Minute })
		told := slices.DeleteFunc(slices.Clone(d.notices), func(n string) bool { return !strings.Contains(n, "trying again") })
		if len(told) != 1 {
			d.Errorf("got %q, want one notice", told)
		}
	})
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: 3 * time.Second}, func(d *desk) {
		d.input(prompts(40)...)
		start := time.Now()
		s := d.run(func(c *Config) { c.Deadline, c.Targets[0].Limits.Concurrency = 10*time.Second, 2 })
		d.wantStop(s, StopBound, "")
		if took := time.Since(start); took < 10*time.Second || took > 14*time.Second {
			d.Errorf("it took %v, want 10 s and what was in flight", took)
		}
		if s.Completed == 0 || s.Completed+s.Pending != 40 || s.Unknown != 0 {
			d.Errorf("got %d completed, %d pending, %d unknown", s.Completed, s.Pending, s.Unknown)
		}
		if last := d.server.Stats().LastAdmitted.Sub(start); last > 10*time.Second+200*time.Millisecond {
			d.Errorf("a call was sent %v after the start", last)
		}
	})
}

func TestMaxCostIsNeverPassed(t *testing.T) {
	price := money.Price{Input: 1e6, Output: 2e6, Known: true} // 1 and 2 a million
	for _, learned := range []bool{false, true} {
		bubble(t, fake.Config{Latency: time.Second, Output: 8, Count: tokensOf}, func(d *desk) {
			d.input(prompts(100)...)
			most := price.Cost(1000, 0)
			var spent money.Amount
			for range 2 {
				s := d.run(func(c *Config) { c.Targets[0].Price, c.MaxCost, c.Learned = price, most, learned })
				d.wantStop(s, StopBound, "")
				spent = 0
				for _, op := range d.rows() {
					spent += price.Cost(op.Usage.Input, op.Usage.Output)
				}
				if spent > most || spent < most*9/10 {
					d.Errorf("spent %v, want at most %v and not much less", spent, most)
				}
				if s.Unknown != 0 || s.Failed != 0 {
					d.Errorf("got %d unknown, %d failed", s.Unknown, s.Failed)
				}
			}
			d.run(func(c *Config) { c.Targets[0].Price, c.MaxCost = price, 10*most })
			d.whole(ids(100)...)
		})
	}
}

// Tokens that the provider had in its cache cost what the user says they do, also
// in the account of a later run.
func TestCachedTokensAtTheirPrice(t *testing.T) {
	t.Parallel()
	price := money.Price{Input: 10e9, Output: 2e9, Known: true, Cached: 1e9, CachedKnown: true}
	bubble(t, fake.Config{Output: 8, Cached: 3, Count: tokensOf}, func(d *desk) {
		d.input(prompts(10)...)
		s := d.run(func(c *Config) { c.Targets[0].Price = price })
		var want money.Amount
		for _, op := range d.rows() {
			if op.Usage.Cached != 3 {
				d.Fatalf("got %d cached tokens, want 3", op.Usage.Cached)
			}
			want += price.Cost(op.Usage.Input-3, op.Usage.Output) + 3*price.Cached
		}
		if s.Cost != want.String() {
			d.Errorf("got a cost of %s, want %s", s.Cost, want)
		}
		d.input(prompts(11)...)
		s = d.run(func(c *Config) { c.Targets[0].Price, c.MaxCost = price, want })
		d.wantStop(s, StopBound, "")
		if !strings.HasSuffix(s.Stop.Reason, "spent so far: "+want.String()) {
			d.Errorf("got %q, want %s spent", s.Stop.Reason, want)
		}
	})
}

// After twenty short answers little is reserved for the long one; the bound
// has to allow for the whole cap all the same.
func TestMaxCostCountsTheCapWhateverWasLearned(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Output: 2000}, func(d *desk) {
		d.input(append(prompts(40), `{"custom_id":"long","prompt":"at length","max_tokens":2000}`)...)
		price := money.Price{Output: 1e6, Known: true}
		most := price.Cost(0, 40*8+1500)
		s := d.run(func(c *Config) {
			c.Targets[0].Price, c.MaxCost, c.Learned, c.Targets[0].Limits.Concurrency = price, most, true, 1
		})
		d.wantStop(s, StopBound, "")
		if s.Completed != 40 || s.Pending != 1 {
			d.Errorf("got %d completed, %d pending; want 40, 1", s.Completed, s.Pending)
		}
	})
}

func TestInterruptLetsCallsInFlightFinish(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: 20 * time.Second}, func(d *desk) {
		d.input(prompts(100)...)
		ctx, stop := context.WithCancel(d.Context())
		start := time.Now()
		time.AfterFunc(25*time.Second, stop)
		s, err := Run(ctx, d.config())
		if err != nil {
			d.Fatal(err)
		}
		d.wantStop(s, StopInterrupted, "")
		d.mustTell("up to 1m0s for 8 calls in flight")
		if s.Unknown != 0 || s.Completed == 0 || s.Completed+s.Pending != 100 {
			d.Errorf("got %d completed, %d pending, %d unknown", s.Completed, s.Pending, s.Unknown)
		}
		if last := d.server.Stats().LastAdmitted.Sub(start); last > 25*time.Second {
			d.Errorf("a call was sent %v after the start, and the signal came after 25s", last)
		}
		if took := time.Since(start); took > 46*time.Second {
			d.Errorf("it took %v", took)
		}
		d.run()
		d.whole(ids(100)...)
		if st := d.server.Stats(); st.Billed != 100 {
			d.Errorf("%d calls were billed, want 100", st.Billed)
		}
	})
}

func TestGraceOverLeavesUnknownOutcomes(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: 20 * time.Second, HonourKeys: true}, func(d *desk) {
		d.input(prompts(4)...)
		ctx, stop := context.WithCancel(d.Context())
		time.AfterFunc(5*time.Second, stop)
		s, err := Run(ctx, d.config(func(c *Config) { c.Grace = 10 * time.Second }))
		if err != nil {
			d.Fatal(err)
		}
		d.wantStop(s, StopInterrupted, "")
		if s.Unknown != 4 || s.Completed != 0 || s.PossiblyTwice != 4 || len(s.UnknownOps) != 4 {
			d.Errorf("got %d unknown, %d completed, %d possibly billed twice, named %q; want 4, 0, 4", s.Unknown, s.Completed, s.PossiblyTwice, s.UnknownOps)
		}
		before := d.rows()
		for id, op := range before {
			if op.Status != checkpoint.Unknown {
				d.Errorf("%s is %v, want unknown", id, op.Status)
			}
		}
		d.run()
		d.wantSameKeys(before)
		d.whole(ids(4)...)
	})
}

// wantSameKeys checks that operations whose outcome was unknown were sent
// again under the key of their first attempt.
func (d *desk) wantSameKeys(before map[string]checkpoint.Operation) {
	d.Helper()
	for id, op := range d.rows() {
		if was := before[id]; was.Status == checkpoint.Unknown && op.Key != was.Key {
			d.Errorf("%s: sent again with key %s, was %s", id, op.Key, was.Key)
		}
	}
}

// A wait just within --max-wait is sat through, whatever jitter is added.
func TestWaitWithinMaxWaitIsSatThrough(t *testing.T) {
	for _, first := range []string{"[[fault:retryafter=895x1]]", "[[fault:retryafter=905x1]]"} {
		bubble(t, fake.Config{}, func(d *desk) {
			d.input(append([]string{ask("first", first)}, prompts(5)...)...)
			start := time.Now()
			s := d.run(func(c *Config) { c.Targets[0].Limits.Concurrency = 1 })
			if strings.Contains(first, "905") {
				d.wantStop(s, StopBound, "rate_limited")
				return
			}
			d.mustTell("waiting until")
			if took := time.Since(start); s.Stop != nil || s.Completed != 6 || took < 895*time.Second || took > 25*time.Minute {
				d.Errorf("got stop %+v, %d completed after %v; want 6 after 895 s and the pace that follows a refusal", s.Stop, s.Completed, took)
			}
		})
	}
}
