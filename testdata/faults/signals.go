package main

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

var signalRows = []row{
	{"F05", "SIGINT once and twice, SIGTERM, SIGHUP, SIGQUIT, ignored SIGINT", "told in 1 s, nothing new sent, drained, 130/143; twice: out in 1 s; all resumable", signals},
	{"F06", "SIGSTOP and SIGCONT", "no burst above the limit on wake; timed-out calls asked again; no negative ETA", stopped},
}

func signals(c *trial) {
	drains := []struct {
		signal syscall.Signal
		status int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}, {syscall.SIGHUP, 129}}
	side(3, len(drains), func(i int) {
		d := drains[i]
		c.sub(fmt.Sprint(d.signal, " once"), 40, func(t *trial) {
			p := t.flying4("4s")
			p.Signal(d.signal)
			sent := time.Now()
			t.until("a word", func() bool { return strings.Contains(p.Errs.String(), "4 calls in flight") })
			t.quick(time.Since(sent) < time.Second, "told after %s, want within a second", time.Since(sent))
			t.want(p.Wait() == d.status, "exit status %d, want %d: %s", p.Wait(), d.status, p.Tail())
			t.check(p.result())
			l := t.stats()
			t.want(l.Asked == 4 && p.report.Completed == 4, "%d calls and %d completed after the signal, want 4: the ones in flight", l.Asked, p.report.Completed)
			t.run(0)
		})
	})
	side(3, 3, func(i int) {
		switch i {
		case 0:
			c.sub("SIGINT twice", 8, func(t *trial) {
				p := t.flying4("8s")
				p.Signal(syscall.SIGINT)
				t.until("a word", func() bool { return strings.Contains(p.Errs.String(), "in flight") })
				t.pause(500*time.Millisecond, p) // closer, the two are one stop
				again := time.Now()
				p.Signal(syscall.SIGINT)
				t.want(p.Wait() == 130, "exit status %d, want 130: %s", p.Wait(), p.Tail())
				t.quick(time.Since(again) < time.Second, "left after %s, want within a second", time.Since(again))
				t.died()
				t.lax.calls = true
				t.run(0)
			})
		case 1:
			c.sub("SIGQUIT", 8, func(t *trial) {
				p := t.flying4("4s")
				p.Signal(syscall.SIGQUIT)
				p.Wait()
				t.died()
				t.lax.calls = true
				t.run(0)
			})
		case 2:
			c.sub("grace over", 8, func(t *trial) {
				t.args = []string{"--grace", "1s"}
				p := t.flying4("8s")
				p.Signal(syscall.SIGINT)
				at := time.Now()
				t.want(p.Wait() == 130, "exit status %d, want 130: %s", p.Wait(), p.Tail())
				t.quick(time.Since(at) < 3*time.Second, "left after %s, want the grace of 1 s", time.Since(at))
				t.check(p.result())
				t.want(p.report.Unknown == 4, "%d unknown, want 4", p.report.Unknown)
				t.flying = 4
				t.lax.calls = true
				t.run(0)
			})
		}
	})
	c.sub("SIGINT that the parent ignores", 8, func(t *trial) {
		t.mock("--latency", "3s")
		p := t.start(how{wrap: []string{"sh", "-c", `trap "" INT; exec "$0" "$@"`}}, "--concurrency", "4")
		t.until("calls", func() bool { return t.stats().InFlight == 4 })
		p.Signal(syscall.SIGINT)
		t.want(p.Wait() == 0, "exit status %d, want 0: %s", p.Wait(), p.Tail())
		t.check(p.result())
	})
	c.say("7 signals")
}

// flying4 is a run with four calls of that latency on the wire.
func (c *trial) flying4(latency string) *process {
	c.mock("--latency", latency, "--honour-keys")
	p := c.start(how{}, "--concurrency", "4")
	c.until("four calls", func() bool { return c.stats().InFlight == 4 })
	return p
}

var negative = regexp.MustCompile(`(ETA|left|in) -\d`)

func stopped(c *trial) {
	c.sub("under a limit", c.pick(75, 30), func(t *trial) {
		t.mock("--latency", "100ms")
		t.args = []string{"--rpm", "50"}
		p := t.start(how{})
		for range 3 {
			t.pause(2*time.Second, p)
			p.Signal(syscall.SIGSTOP)
			harness.Pause(t.ctx, 3*time.Second, nil)
			p.Signal(syscall.SIGCONT)
		}
		t.want(p.Wait() == 0, "exit status %d, want 0: %s", p.Wait(), p.Tail())
		t.check(p.result())
		t.want(!negative.MatchString(p.Errs.String()), "a negative time: %s", p.Tail())
		t.say("%d a minute of 50", t.stats().PeakRequests)
	})
	c.sub("past the timeouts", 8, func(t *trial) {
		t.mock("--latency", "3s", "--honour-keys")
		t.args = []string{"--concurrency", "4", "--timeout", "5s"}
		p := t.start(how{})
		t.until("four calls", func() bool { return t.stats().InFlight == 4 })
		p.Signal(syscall.SIGSTOP)
		harness.Pause(t.ctx, 7*time.Second, nil)
		p.Signal(syscall.SIGCONT)
		t.want(p.Wait() == 0, "exit status %d, want 0: %s", p.Wait(), p.Tail())
		t.check(p.result())
		t.say("%d asked again after the timeouts", p.report.Retries)
	})
}
