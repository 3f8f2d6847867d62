package main

import (
	"fmt"
	"strings"
	"time"
)

var paceRows = []row{
	{"F07", "suspend: the monotonic clock stops, the wall jumps", "waits end by the wall; no burst above the limit", suspend},
	{"F08", "wall clock steps of a day, back and forth", "limiter and backoff unharmed; the day's window sane", clockSteps},
	{"F48", "a request larger than a limit", "an error of that line by name, at once; the others run", tooLarge},
	{"F49", "limits that headers lower and raise", "no wait beyond what the headers say", lowered},
}

// goTest runs tests of a seam that exists for what no machine of this kind can
// inject.
func (c *trial) goTest(pkg string, tests ...string) {
	c.sub(pkg, 0, func(t *trial) {
		out, err := t.gotool("test", "-count=1", "-v", "-run", "^("+strings.Join(tests, "|")+")$", "github.com/llmbatch/llmbatch/"+pkg)
		t.want(err == nil, "%v: %s", err, out)
		for _, name := range tests {
			t.want(strings.Contains(out, "--- PASS: "+name+" "), "%s did not run", name)
			t.say("go test ./%s -run %s", pkg, name)
		}
	})
}

func suspend(c *trial)    { c.goTest("runner/limit", "TestSuspend", "TestSuspendAdmitsNoBurst") }
func clockSteps(c *trial) { c.goTest("runner/limit", "TestClockSteps") }

func tooLarge(c *trial) {
	cases := []struct{ flag, class string }{{"--tpm", "request_exceeds_tpm"}, {"--tpd", "request_exceeds_tpd"}}
	side(2, len(cases), func(i int) {
		l := cases[i]
		c.sub(l.flag, 0, func(t *trial) {
			t.input("Small.", "Large: "+strings.Repeat("word ", 900), "Small too.", "As well.")
			t.mock()
			t.args = []string{l.flag, "600"}
			t.lax.same = true
			p := t.run(3)
			t.want(p.report.Completed == 3 && p.report.Failed == 1 && p.report.Calls == 3, "%+v, want 3 completed, 1 failed, 3 calls", p.report)
			t.want(strings.Contains(string(t.read("x.errors.jsonl")), l.class), "no class %s", l.class)
			t.quick(p.took() < 20*time.Second, "took %s", p.took())
			t.say("%s: %.1f s", l.class, p.took().Seconds())
		})
	})
}

func lowered(c *trial) {
	c.sub("nothing remains", 14, func(t *trial) {
		h := t.hostile(func(x *exchange) {
			if x.n == 6 {
				x.ok("x-ratelimit-limit-requests: 600", "x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 3s")
				return
			}
			x.ok("x-ratelimit-limit-requests: 600", fmt.Sprintf("x-ratelimit-remaining-requests: %d", 600-x.n%500), "x-ratelimit-reset-requests: 100ms")
		})
		t.args = []string{"--concurrency", "1"}
		t.run(0)
		times := h.times()
		gap := times[6].Sub(times[5]).Seconds()
		// The reset counts from the sending, which is a little ahead of the arrival.
		t.want(gap >= 2.9, "%.4f s after a report of nothing for 3 s", gap)
		t.quick(gap < 5.5, "%.1f s after a report of nothing for 3 s, want less than 5.5", gap)
		t.say("gated for %.1f s of 3", gap)
	})
	c.sub("ten times lower, then higher", c.pick(90, 30), func(t *trial) {
		limit := func(n int) int {
			if n >= 10 && n < 20 {
				return 60
			}
			return 600
		}
		h := t.hostile(func(x *exchange) {
			l := limit(x.n)
			x.ok(fmt.Sprintf("x-ratelimit-limit-requests: %d", l), fmt.Sprintf("x-ratelimit-remaining-requests: %d", l/2), fmt.Sprintf("x-ratelimit-reset-requests: %ds", 1))
		})
		t.args = []string{"--concurrency", "2"}
		t.run(0)
		longest := time.Duration(0)
		times := h.times()
		for i := 1; i < len(times); i++ {
			longest = max(longest, times[i].Sub(times[i-1]))
		}
		t.quick(longest < 5*time.Second, "a wait of %s, want none beyond a few times the spacing of 60 a minute", longest)
		t.say("longest gap %.1f s", longest.Seconds())
	})
}
