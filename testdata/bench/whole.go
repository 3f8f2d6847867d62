package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// contender is a program that takes a file of prompts to its end.
type contender struct {
	name   string
	run    func(ctx context.Context, dir, url string) (spent, error)
	rates  []float64 // operations a second, by round
	costs  []float64 // processor time of an operation, microseconds
	served []float64 // the server's
}

// wholeRun sends -lines short prompts without limits to a server without
// latency, each program in turn.
func wholeRun(ctx context.Context, b *bench) error {
	batch := func(binary string) func(context.Context, string, string) (spent, error) {
		return func(ctx context.Context, dir, url string) (spent, error) {
			return b.complete(ctx, dir, binary, url, b.lines)
		}
	}
	plainLoop := func(ctx context.Context, dir, url string) (spent, error) {
		return b.run(ctx, dir, b.self, "net-http", url, "x.jsonl", "0")
	}
	all := []*contender{
		{name: "llmbatch", run: batch(b.product)},
		{name: "without records", run: batch(b.without)},
		{name: "keeping nothing", run: batch(b.nothing)},
		{name: "net/http", run: plainLoop},
	}
	if !b.short {
		sdk, err := b.buildSDK(ctx)
		if err != nil {
			return err
		}
		all = append(all, &contender{name: "openai-go", run: func(ctx context.Context, dir, url string) (spent, error) {
			return b.run(ctx, dir, sdk, url, "x.jsonl")
		}})
	}
	for range b.rounds {
		for _, c := range all {
			if err := b.turn(ctx, c); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	mocked, err := b.againstMock(ctx)
	if err != nil {
		return err
	}
	batched, bare, nothing, plain := all[0], all[1], all[2], all[3]
	what := fmt.Sprintf("%d prompts, both records durable", b.lines)
	b.atLeast(what, median(batched.rates), 12_000, 100, " op/s", fmt.Sprintf("the server takes %.0f us a call", median(batched.served)))
	b.atMost("processor time of an operation", median(batched.costs), 110, 1000, " us",
		fmt.Sprintf("without records %.0f us, keeping nothing %.0f us, net/http %.0f us", median(bare.costs), median(nothing.costs), median(plain.costs)))
	b.ratio("with both records / without (results written and synced)", batched, bare, 0.85, 0.2)
	b.ratio("the same / keeping nothing, no results either", batched, nothing, 0, 0)
	b.ratio("llmbatch / net/http loop", batched, plain, 0, 0)
	if !b.short {
		b.ratio("llmbatch / openai-go loop", batched, all[4], 2, 0)
	}
	b.add("the same against llmbatch mock", number(mocked)+" op/s", "the mock counts, logs and measures each call", "", true)
	return nil
}

// turn is one round of a contender.
func (b *bench) turn(ctx context.Context, c *contender) error {
	dir, err := b.folder(b.lines)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	z, err := b.zero(ctx)
	if err != nil {
		return err
	}
	s, err := c.run(ctx, dir, z.url)
	served := z.cpu()
	if endErr := z.end(); err == nil {
		err = endErr
	}
	if err != nil {
		return err
	}
	n := float64(b.lines)
	c.rates = append(c.rates, n/s.wall.Seconds())
	c.costs = append(c.costs, float64(s.cpu.Microseconds())/n)
	c.served = append(c.served, float64(served.Microseconds())/n)
	fmt.Fprintf(os.Stderr, "  %s: %.0f op/s, %.0f us an operation, %.0f MB\n", c.name, n/s.wall.Seconds(), float64(s.cpu.Microseconds())/n, s.peakMB)
	return nil
}

// ratio compares rates, round by round; goal 0 = it is only shown.
func (b *bench) ratio(name string, x, y *contender, goal, loose float64) {
	var all []float64
	for i := range x.rates {
		all = append(all, x.rates[i]/y.rates[i])
	}
	beside := fmt.Sprintf("%.0f and %.0f op/s", median(x.rates), median(y.rates))
	if goal == 0 {
		b.add(name, number(median(all)), beside, "", true)
		return
	}
	b.atLeast(name, median(all), goal, loose, "", beside)
}

// againstMock is a whole run against the mock that users have: operations a
// second.
func (b *bench) againstMock(ctx context.Context) (float64, error) {
	dir, err := b.folder(b.lines)
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	addr := filepath.Join(dir, "addr")
	m, err := b.command(ctx, dir, nil, b.product, "mock", "--listen", "127.0.0.1:0", "--addr-file", addr, "--log-max", "1")
	if err != nil {
		return 0, err
	}
	defer func() {
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait() // it was killed
	}()
	host, err := waitFile(ctx, addr)
	if err != nil {
		return 0, err
	}
	s, err := b.complete(ctx, dir, b.product, "http://"+host+"/v1", b.lines)
	return float64(b.lines) / s.wall.Seconds(), err
}

// waitFile waits for a file's content.
func waitFile(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if raw, err := os.ReadFile(path); err == nil && len(raw) > 0 {
			return strings.TrimSpace(string(raw)), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
