package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// minutes is how many of the limit's minutes each pace case takes.
const minutes = 3

// latency of the mock in pace cases.
const latency = 300 * time.Millisecond

// paceCase is one server and one load.
type paceCase struct {
	window, headers string
	load            string // requests, tokens, mixed, heavy
	operations      int
	bound, refusals float64 // targets: of the optimum, and of calls
	optimum         float64 // seconds; 0 = the window optimum 60(m-1)
}

func (c paceCase) name() string { return fmt.Sprintf("%s %s, headers %s", c.window, c.load, c.headers) }

// pace is point 1. Each case waits most of its two minutes, so they run side by
// side, started apart so that their bursts do not meet.
func pace(ctx context.Context, b *bench) {
	var cases []paceCase
	for _, window := range []string{"bucket", "fixed", "sliding"} {
		for _, load := range []string{"requests", "tokens", "mixed"} {
			for _, headers := range []string{"openai", "none"} {
				cases = append(cases, paceCase{window, headers, load, 300, 1.05, 0.005, 0})
			}
		}
	}
	cases = append(cases, paceCase{"sliding", "none", "heavy", 300, 1.10, 0.005, 0})
	if b.short {
		kept := []string{"bucket requests, headers openai", "fixed tokens, headers none", "sliding mixed, headers none"}
		cases = slices.DeleteFunc(cases, func(c paceCase) bool { return !slices.Contains(kept, c.name()) })
		for i := range cases {
			cases[i].bound += crowd
		}
	} else {
		// The minute's limit in one-second slices: N/R minutes are the optimum.
		for _, headers := range []string{"openai", "none"} {
			cases = append(cases, paceCase{"slices", headers, "requests", 1800, 1.10, 0.02, 60 * minutes})
		}
	}
	var all sync.WaitGroup
	for _, c := range cases {
		all.Go(func() {
			if err := c.measure(ctx, b); err != nil {
				b.fail("1", c.name(), err)
			}
		})
		harness.Pause(ctx, 1500*time.Millisecond, nil)
	}
	all.Wait()
}

func (c paceCase) measure(ctx context.Context, b *bench) error {
	dir, err := b.folder("pace")
	if err != nil {
		return err
	}
	lengths := same(c.operations, 10)
	switch c.load {
	case "mixed":
		lengths = spread(c.operations)
	case "heavy":
		lengths = heavyFirst(spread(c.operations))
	}
	ids, err := write(dir, lengths, 40)
	if err != nil {
		return err
	}
	weight, err := b.reserved(ctx, dir)
	if err != nil {
		return err
	}
	// A third of the whole is one minute's limit. The token limit has room for
	// one operation more: windows are not packed to the last token.
	rpm, tpm := c.operations/minutes, weight/minutes+slices.Max(lengths)*2+60
	switch c.load {
	case "requests":
		tpm *= 10
	case "tokens":
		rpm *= 10
	}
	limits := []string{"--rpm", strconv.Itoa(rpm), "--tpm", strconv.Itoa(tpm)}
	m, err := b.mock(ctx, dir, append(limits, "--window", c.window, "--headers", c.headers, "--accounting", "sum",
		"--latency", latency.String(), "--output-tokens", "20")...)
	if err != nil {
		return err
	}
	defer m.Kill()
	p, err := b.run(ctx, dir, append(limits, "run", "x.jsonl", "--base-url", m.URL(), "--accounting", "sum", "--json")...)
	if err != nil {
		return err
	}
	return c.judge(ctx, b, m, p, ids, dir, rpm, tpm, weight)
}

func (c paceCase) judge(ctx context.Context, b *bench, m *harness.Mock, p *harness.Process, ids []string, dir string, rpm, tpm, weight int) error {
	r, err := p.Report()
	if err != nil {
		return err
	}
	l, err := m.Ledger(ctx)
	if err != nil {
		return err
	}
	if err := verify(outcome{ids: ids, dir: dir, report: r, ledger: l}); err != nil {
		return err
	}
	optimum := c.optimum
	if optimum == 0 {
		windows := max(math.Ceil(float64(len(ids))/float64(rpm)), math.Ceil(float64(weight)/float64(tpm)))
		optimum = 60 * (windows - 1)
	}
	b.equal("1", c.name()+": completed", r.Completed, len(ids))
	b.atMost("1", c.name()+": makespan/optimum", (l.Makespan-latency.Seconds())/optimum, c.bound, "")
	b.atMost("1", c.name()+": refused/calls", float64(l.Refused)/float64(l.Asked), c.refusals, "")
	b.atMost("1", c.name()+": rolling minute/limit", max(float64(l.PeakRequests)/float64(rpm), float64(l.PeakTokens)/float64(tpm)), 1, "")
	return nil
}

// reserved is what the program reserves for all of x.jsonl, as a run without
// limits reports it.
func (b *bench) reserved(ctx context.Context, dir string) (int, error) {
	m, err := b.mock(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer m.Kill()
	if err := os.Mkdir(dir+"/probe", 0o700); err != nil {
		return 0, err
	}
	p, err := b.run(ctx, dir, "run", "x.jsonl", "--base-url", m.URL(), "--accounting", "sum", "--json", "--output", "probe/x.results.jsonl")
	if err != nil {
		return 0, err
	}
	r, err := p.Report()
	if err == nil && r.TokensReserved == 0 {
		err = fmt.Errorf("the report's tokens_reserved is 0")
	}
	return r.TokensReserved, err
}

// openRouter is point 2: 60 calls against 20 a minute with a bucket of 30.
func openRouter(ctx context.Context, b *bench) {
	cases := []struct {
		name     string
		flags    []string
		optimum  float64
		bound    float64
		refusals float64
	}{
		{"20 a minute, bucket 30, --rpm 20", []string{"--rpm", "20"}, 120, 1.05, 0},
		{"20 a minute, bucket 30, no limit given", nil, 90, 1.1, 6},
	}
	var all sync.WaitGroup
	for _, c := range cases {
		all.Go(func() {
			if err := func() error {
				dir, err := b.folder("openrouter")
				if err != nil {
					return err
				}
				ids, err := write(dir, same(60, 10), 40)
				if err != nil {
					return err
				}
				m, err := b.mock(ctx, dir, "--rpm", "20", "--burst", "30", "--headers", "openrouter", "--latency", latency.String())
				if err != nil {
					return err
				}
				defer m.Kill()
				p, err := b.run(ctx, dir, append(c.flags, "run", "x.jsonl", "--base-url", m.URL(), "--concurrency", "10", "--json")...)
				if err != nil {
					return err
				}
				r, err := p.Report()
				if err != nil {
					return err
				}
				l, err := m.Ledger(ctx)
				if err != nil {
					return err
				}
				b.equal("2", c.name+": completed", r.Completed, 60)
				b.atMost("2", c.name+": makespan/optimum", l.Makespan/c.optimum, c.bound, "")
				b.atMost("2", c.name+": refused", float64(l.Refused), c.refusals, "")
				return verify(outcome{ids: ids, dir: dir, report: r, ledger: l})
			}(); err != nil {
				b.fail("2", c.name, err)
			}
		})
	}
	all.Wait()
}

// backlog is point 3: a day's tickets, with nothing said about concurrency.
func backlog(ctx context.Context, b *bench) {
	operations, rpm, tpm := 38_000, 6_000, 2_000_000
	if b.short {
		operations, rpm, tpm = 4_000, 2_000, 700_000
	}
	name := fmt.Sprintf("%d tickets at %d a minute", operations, rpm)
	if err := func() error {
		const latency = 3 * time.Second
		dir, err := b.folder("backlog")
		if err != nil {
			return err
		}
		ids, err := write(dir, same(operations, 30), 150)
		if err != nil {
			return err
		}
		limits := []string{"--rpm", strconv.Itoa(rpm), "--tpm", strconv.Itoa(tpm)}
		m, err := b.mock(ctx, dir, append(limits, "--window", "sliding", "--headers", "openai", "--latency", latency.String(), "--jitter", "500ms", "--output-tokens", "60")...)
		if err != nil {
			return err
		}
		defer m.Kill()
		p, err := b.run(ctx, dir, append(limits, "run", "x.jsonl", "--base-url", m.URL(), "--json")...)
		if err != nil {
			return err
		}
		r, err := p.Report()
		if err != nil {
			return err
		}
		l, err := m.Ledger(ctx)
		if err != nil {
			return err
		}
		// What was reached a minute, against the limit: the search for the
		// concurrency at the start is part of it.
		utilization := float64(operations) / (l.Makespan - latency.Seconds()) * 60 / float64(rpm)
		b.equal("3", name+": completed", r.Completed, operations)
		b.atMost("3", name+": refused/calls", float64(l.Refused)/float64(l.Asked), 0.005, "")
		if operations > 5*rpm { // in a few minutes the burst at the start lifts it above 1, whatever the pace
			b.add("3", name+": utilization of the binding limit", ">= 0.97", utilization >= 0.97, "%.3f", utilization)
		}
		b.atMost("3", name+": rolling minute/limit", float64(l.PeakRequests)/float64(rpm), 1, "")
		b.add("3", name+": concurrency found by itself", "> 8 at once", l.PeakInFlight > 8, "%d at once", l.PeakInFlight)
		return verify(outcome{ids: ids, dir: dir, report: r, ledger: l})
	}(); err != nil {
		b.fail("3", name, err)
	}
}
