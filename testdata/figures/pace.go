package main

import (
	"context"
	"errors"
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
		all.Go(func() { b.try("1", c.name(), func() error { return c.measure(ctx, b) }) })
		harness.Pause(ctx, 1500*time.Millisecond, nil)
	}
	all.Wait()
}

func (c paceCase) measure(ctx context.Context, b *bench) error {
	lengths := same(c.operations, 10)
	switch c.load {
	case "mixed":
		lengths = spread(c.operations)
	case "heavy":
		lengths = heavyFirst(spread(c.operations))
	}
	s, err := b.input("pace", lengths, 40)
	if err != nil {
		return err
	}
	weight, err := s.reserved(ctx)
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
	if err := s.serve(ctx, append(limits, "--window", c.window, "--headers", c.headers, "--accounting", "sum",
		"--latency", latency.String(), "--output-tokens", "20")...); err != nil {
		return err
	}
	defer s.mock.Kill()
	o, err := s.run(ctx, append(limits, "--accounting", "sum")...)
	if err != nil {
		return err
	}
	if err := verify(o); err != nil {
		return err
	}
	c.judge(b, o, rpm, tpm, weight)
	return nil
}

func (c paceCase) judge(b *bench, o outcome, rpm, tpm, weight int) {
	l := o.ledger
	optimum := c.optimum
	if optimum == 0 {
		windows := max(math.Ceil(float64(len(o.ids))/float64(rpm)), math.Ceil(float64(weight)/float64(tpm)))
		optimum = 60 * (windows - 1)
	}
	b.equal("1", c.name()+": completed", o.report.Completed, len(o.ids))
	b.atMost("1", c.name()+": makespan/optimum", (l.Makespan-latency.Seconds())/optimum, c.bound, "")
	b.atMost("1", c.name()+": refused/calls", float64(l.Refused)/float64(l.Asked), c.refusals, "")
	b.atMost("1", c.name()+": rolling minute/limit", max(float64(l.PeakRequests)/float64(rpm), float64(l.PeakTokens)/float64(tpm)), 1, "")
}

// reserved is what the program reserves for all of x.jsonl, as a run without
// limits reports it.
func (s *scene) reserved(ctx context.Context) (int, error) {
	if err := s.serve(ctx); err != nil {
		return 0, err
	}
	defer s.mock.Kill()
	if err := os.Mkdir(s.dir+"/probe", 0o700); err != nil {
		return 0, err
	}
	o, err := s.run(ctx, "--accounting", "sum", "--output", "probe/x.results.jsonl")
	if err == nil && o.report.TokensReserved == 0 {
		err = errors.New("the report's tokens_reserved is 0")
	}
	return o.report.TokensReserved, err
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
			b.try("2", c.name, func() error {
				s, err := b.scene(ctx, "openrouter", same(60, 10), 40, "--rpm", "20", "--burst", "30", "--headers", "openrouter", "--latency", latency.String())
				if err != nil {
					return err
				}
				defer s.mock.Kill()
				o, err := s.run(ctx, append(c.flags, "--concurrency", "10")...)
				if err != nil {
					return err
				}
				b.equal("2", c.name+": completed", o.report.Completed, 60)
				b.atMost("2", c.name+": makespan/optimum", o.ledger.Makespan/c.optimum, c.bound, "")
				b.atMost("2", c.name+": refused", float64(o.ledger.Refused), c.refusals, "")
				return verify(o)
			})
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
	b.try("3", name, func() error {
		const latency = 3 * time.Second
		limits := []string{"--rpm", strconv.Itoa(rpm), "--tpm", strconv.Itoa(tpm)}
		s, err := b.scene(ctx, "backlog", same(operations, 30), 150,
			append(limits, "--window", "sliding", "--headers", "openai", "--latency", latency.String(), "--jitter", "500ms", "--output-tokens", "60")...)
		if err != nil {
			return err
		}
		defer s.mock.Kill()
		o, err := s.run(ctx, limits...)
		if err != nil {
			return err
		}
		l := o.ledger
		// What was reached a minute, against the limit: the search for the
		// concurrency at the start is part of it.
		utilization := float64(operations) / (l.Makespan - latency.Seconds()) * 60 / float64(rpm)
		b.equal("3", name+": completed", o.report.Completed, operations)
		b.atMost("3", name+": refused/calls", float64(l.Refused)/float64(l.Asked), 0.005, "")
		if operations > 5*rpm { // in a few minutes the burst at the start lifts it above 1, whatever the pace
			b.add("3", name+": utilization of the binding limit", ">= 0.97", utilization >= 0.97, "%.3f", utilization)
		}
		b.atMost("3", name+": rolling minute/limit", float64(l.PeakRequests)/float64(rpm), 1, "")
		b.add("3", name+": concurrency found by itself", "> 8 at once", l.PeakInFlight > 8, "%d at once", l.PeakInFlight)
		return verify(o)
	})
}
