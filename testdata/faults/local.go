package main

import (
	"bufio"
	"os"
	"strings"
)

var localRows = []row{
	{"F22", "64 file descriptors, concurrency 100", "fewer at once, no attempt burned, all complete", fewDescriptors},
	{"F23", "little memory, a line of 100 MB, a million lines", "bounded memory; the long line is an invalid one", bigInput},
	{"F24", "standard output closed early", "stops sending, checkpoint kept, no trace, exit not 0", closedPipe},
	{"F25", "standard output is /dev/full", "exit not 0", fullPipe},
}

func fewDescriptors(c *trial) {
	c.sub("nofile 64", c.pick(600, 200), func(t *trial) {
		t.mock("--latency", "200ms")
		t.args = []string{"--concurrency", "100"}
		p := t.runAs(how{wrap: []string{"prlimit", "--nofile=64"}}, 0)
		t.want(p.report.Failed == 0, "%d failed", p.report.Failed)
		t.say("all %d complete, at most %d at once", p.report.Completed, t.stats().PeakInFlight)
	})
}

func bigInput(c *trial) {
	c.sub("a line of 100 MB", 0, func(t *trial) {
		t.mock()
		t.ids = []string{"a", "c"}
		t.write("x.jsonl", line("a", "One.")+line("b", strings.Repeat("x", 100<<20))+line("c", "Three."))
		p := t.runAs(how{}, 2)
		t.says(p, "line 2", "--max-line-bytes")
		t.want(t.stats().Asked == 0, "%d calls, want none", t.stats().Asked)
		t.args = []string{"--skip-invalid"}
		p = t.start(how{})
		peak := t.peak(p)
		t.want(p.Wait() == 3, "exit status %d, want 3: %s", p.Wait(), p.Tail())
		t.check(p.result())
		t.want(p.report.Completed == 2 && p.report.Failed == 1, "%+v", p.report)
		t.want(peak() < 400, "%.0f MiB, want less than 400", peak())
		t.say("100 MB line: %.0f MiB", peak())
		t.lax.same, t.lax.lines = true, true // the long line is none of the ids
	})
	c.sub("many lines", 0, func(t *trial) {
		n := t.pick(1_000_000, 100_000)
		_, err := write(t.dir, n, "")
		t.check(err)
		t.mock()
		p := t.start(how{}, "--limit", "5")
		peak := t.peak(p)
		t.want(p.Wait() == 0, "exit status %d, want 0: %s", p.Wait(), p.Tail())
		t.check(p.result())
		t.want(p.report.Completed == 5 && p.report.Skipped == n-5, "%+v", p.report)
		limit := 100 + 100*float64(n)/(1<<20)
		t.want(peak() < limit, "%.0f MiB, want at most %.0f", peak(), limit)
		t.say("%d lines: %.0f MiB", n, peak())
		t.check(os.Remove(t.dir + "/x.jsonl")) // it is no artefact to search
	})
	c.sub("address space of 2 GiB and GOMEMLIMIT", c.pick(2000, 200), func(t *trial) {
		t.mock("--latency", "20ms")
		t.runAs(how{wrap: []string{"prlimit", "--as=2147483648"}, env: []string{"GOMEMLIMIT=60MiB"}}, 0)
	})
}

func closedPipe(c *trial) {
	c.sub("run --output -, as into head -1", 200, func(t *trial) {
		t.mock("--latency", "50ms", "--honour-keys")
		t.args = []string{"--concurrency", "4"}
		t.lax.calls = true
		r, w, err := os.Pipe()
		t.check(err)
		p := t.spawn(how{stdout: w}, "run", "x.jsonl", "--base-url", t.server.URL(), "--output", "-", "--concurrency", "4")
		t.check(w.Close())
		first, err := bufio.NewReader(r).ReadString('\n')
		t.check(err)
		t.check(r.Close())
		status := p.Wait()
		t.want(status == 1, "exit status %d, want 1: %s", status, p.Tail())
		t.says(p, "standard output", "hint:")
		t.want(!strings.Contains(p.Errs.String(), "goroutine "), "a trace: %s", p.Tail())
		sent := t.stats().Asked
		t.want(sent < len(t.ids), "sending did not stop: %d calls", sent)
		kept, err := os.ReadFile(t.results())
		t.check(err)
		t.want(strings.Contains(string(kept), first), "the line that was read is not in the file")
		t.died()
		t.run(0)
		t.want(t.stats().Twice.Extra == 0, "%d billed twice", t.stats().Twice.Extra)
		t.say("exit 1 after %d calls of %d", sent, len(t.ids))
	})
	for _, args := range [][]string{{"results", "x.jsonl"}, {"results", "x.jsonl", "--format", "csv"}, {"status", "x.jsonl"}, {"run", "x.jsonl", "--json"}} {
		c.sub(strings.Join(args, " "), 20, func(t *trial) {
			t.mock()
			t.run(0)
			r, w, err := os.Pipe()
			t.check(err)
			t.check(r.Close())
			if args[0] == "run" {
				args = append(args, "--base-url", t.server.URL())
			}
			p := t.spawn(how{stdout: w}, args...)
			t.check(w.Close())
			t.want(p.Wait() != 0, "exit status 0")
			t.want(!strings.Contains(p.Errs.String(), "goroutine "), "a trace: %s", p.Tail())
		})
	}
}

func fullPipe(c *trial) {
	full := func(t *trial, want int, args ...string) {
		f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		t.check(err)
		defer f.Close()
		p := t.spawn(how{stdout: f, stdin: strings.NewReader("")}, args...)
		got := p.Wait()
		t.want(got == want, "%s: exit status %d, want %d: %s", strings.Join(args, " "), got, want, p.Tail())
		t.says(p, "no space left")
	}
	c.sub("run", 20, func(t *trial) {
		t.mock("--honour-keys")
		url := t.server.URL()
		full(t, 1, "run", "x.jsonl", "--base-url", url, "--output", "-", "--concurrency", "2")
		full(t, 1, "run", "x.jsonl", "--base-url", url, "--json")
		t.lax.calls = true
		t.run(0)
	})
	c.sub("the other commands", 5, func(t *trial) {
		t.mock()
		t.run(0)
		t.write("y.jsonl", line("a", "Not run yet."))
		t.write("routes.yaml", "providers:\n  a: {kind: openai, base_url: \"http://127.0.0.1:1/v1\"}\n")
		for _, args := range [][]string{
			{"results", "x.jsonl"},
			{"results", "x.jsonl", "--format", "text"},
			{"results", "x.jsonl", "--format", "csv"},
			{"status", "x.jsonl"},
			{"status", "x.jsonl", "--json"},
			{"estimate", "x.jsonl"},
			{"estimate", "x.jsonl", "--json"},
			{"estimate", "y.jsonl", "--per-line"},
			{"config", "show", "routes.yaml"},
			{"version"},
			{"version", "--json"},
			{"completion", "bash"},
			{"--help"},
			{"run", "--help"},
		} {
			full(t, 1, args...)
		}
	})
	c.sub("standard error", 20, func(t *trial) {
		t.mock()
		f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		t.check(err)
		defer f.Close()
		p := t.start(how{stderr: f})
		t.want(p.Wait() == 0, "exit status %d, want 0: what is told is no result", p.Wait())
		t.check(p.result())
	})
	c.say("16 commands")
}
