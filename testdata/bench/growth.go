package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// inFlight measures memory with 10,000 calls on the wire.
func inFlight(ctx context.Context, b *bench) error {
	calls, n, latency := 10_000, 60_000, 2*time.Second
	if b.short {
		calls, n, latency = 500, 3_000, 200*time.Millisecond
	}
	dir, err := b.folder(n)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	z, err := b.zero(ctx, "-latency", latency.String())
	if err != nil {
		return err
	}
	s, err := b.complete(ctx, dir, b.product, z.url, n, "--concurrency", fmt.Sprint(calls))
	if endErr := z.end(); err == nil {
		err = endErr
	}
	if err != nil {
		return err
	}
	b.atMost(fmt.Sprintf("memory, up to %d calls in flight", calls), s.peakMB, 400, 400, " MB", fmt.Sprintf("%d calls of %s in %.0f s", n, latency, s.wall.Seconds()))
	return nil
}

// size is what one size of file came to.
type size struct {
	lines                  int
	dry, run, again        spent
	first, resumed         time.Duration // to the first call: of a new run, and of one that finds half of it done
	checkpointMB, outputMB float64
}

// growth measures files of 10,000 lines, ten times as many, and so on to -most.
func growth(ctx context.Context, b *bench) error {
	var all []size
	for n := min(10_000, b.most); n <= b.most; n *= 10 {
		s, err := b.grow(ctx, n)
		if err != nil {
			return fmt.Errorf("%d lines: %w", n, err)
		}
		all = append(all, s)
	}
	for _, row := range []struct {
		name, unit string
		of         func(size) float64
		most       map[int]float64 // limits, by lines
	}{
		{"dry run: processor time", " s", func(s size) float64 { return s.dry.cpu.Seconds() }, nil},
		{"dry run: memory", " MB", func(s size) float64 { return s.dry.peakMB }, map[int]float64{10_000: 100, 100_000: 100, 1_000_000: 100}},
		{"run: time", " s", func(s size) float64 { return s.run.wall.Seconds() }, nil},
		{"run: processor time", " s", func(s size) float64 { return s.run.cpu.Seconds() }, nil},
		{"run: memory", " MB", func(s size) float64 { return s.run.peakMB }, map[int]float64{1_000_000: 200, 10_000_000: 1000}},
		{"run: first call", " s", func(s size) float64 { return s.first.Seconds() }, map[int]float64{1_000_000: 5}},
		{"again, nothing left: time", " s", func(s size) float64 { return s.again.wall.Seconds() }, nil},
		{"again, half done: first call", " s", func(s size) float64 { return s.resumed.Seconds() }, map[int]float64{1_000_000: 10}},
		{"checkpoint", " MB", func(s size) float64 { return s.checkpointMB }, nil},
		{"output", " MB", func(s size) float64 { return s.outputMB }, nil},
	} {
		for i, s := range all {
			name, beside := fmt.Sprintf("%s, %d lines", row.name, s.lines), ""
			if i > 0 {
				beside = fmt.Sprintf("grows with the power %.2f", math.Log10(row.of(s)/row.of(all[i-1]))/math.Log10(float64(s.lines)/float64(all[i-1].lines)))
			}
			if limit, has := row.most[s.lines]; has {
				b.atMost(name, row.of(s), limit, limit, row.unit, beside)
			} else {
				b.add(name, number(row.of(s))+row.unit, beside, "", true)
			}
		}
	}
	return nil
}

// grow measures one size.
func (b *bench) grow(ctx context.Context, n int) (s size, err error) {
	s.lines = n
	dir, err := b.folder(n)
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	if s.dry, err = b.run(ctx, dir, b.product, "estimate", "x.jsonl", "--model", "gpt-4o-mini", "--rpm", "600000"); err != nil {
		return s, err
	}
	z, err := b.zero(ctx, "-tell", "1")
	if err != nil {
		return s, err
	}
	start := time.Now()
	if s.run, err = b.complete(ctx, dir, b.product, z.url, n); err != nil {
		return s, err
	}
	at, err := z.came()
	if err != nil {
		return s, err
	}
	s.first = at.Sub(start)
	if s.again, err = b.complete(ctx, dir, b.product, z.url, n); err != nil {
		return s, err
	}
	if err := z.end(); err != nil {
		return s, err
	}
	for to, name := range map[*float64]string{&s.checkpointMB: "x.llmbatch.db", &s.outputMB: "x.results.jsonl"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return s, err
		}
		*to = float64(info.Size()) / 1e6
	}
	s.resumed, err = b.resume(ctx, dir, n)
	return s, err
}

// resume doubles a file that is done and measures the time to the first call of
// a run that goes on with it; that run is interrupted.
func (b *bench) resume(ctx context.Context, dir string, n int) (time.Duration, error) {
	if err := write(filepath.Join(dir, "x.jsonl"), n, n); err != nil {
		return 0, err
	}
	z, err := b.zero(ctx, "-tell", "1")
	if err != nil {
		return 0, err
	}
	// The run before was at another port: --on-changed keep says that it is the same server.
	p, err := b.command(ctx, dir, nil, b.product, runArgs(z.url, "--on-changed", "keep")...)
	if err != nil {
		return 0, err
	}
	at, err := z.came()
	_ = p.cmd.Process.Signal(syscall.SIGINT) // one that has ended needs none
	_ = p.cmd.Wait()                         // its report tells
	if err != nil {
		return 0, fmt.Errorf("no call: %w: %s", err, p.errs.String())
	}
	var report struct{ Operations, Completed, Calls int }
	if err := json.Unmarshal(p.out.Bytes(), &report); err != nil {
		return 0, err
	}
	if report.Operations != 2*n || report.Completed != n+report.Calls {
		return 0, fmt.Errorf("got %+v of %d lines, of which half were done", report, 2*n)
	}
	return at.Sub(p.start), z.end()
}
