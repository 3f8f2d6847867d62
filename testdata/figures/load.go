package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// sample is what a process holds at one moment.
type sample struct {
	after       time.Duration
	rss         float64 // MiB
	descriptors int
	flying      int // calls, as the mock counts them
}

// heavy keeps 10,000 calls on the wire for ten minutes, each of which the mock
// holds for 10 s, and then 1,000 under the race detector. The short form keeps
// 1,000 for 20 s.
func heavy(ctx context.Context, b *bench) {
	if b.short {
		b.tryLoad(ctx, "1,000 in flight for 20 s", b.binary, 1_000, 20*time.Second, time.Second)
		return
	}
	b.tryLoad(ctx, "10,000 in flight for 10 min", b.binary, 10_000, 10*time.Minute, 10*time.Second)
	raced := filepath.Join(b.dir, "llmbatch-race")
	build := exec.CommandContext(ctx, "go", "build", "-race", "-o", raced, "github.com/llmbatch/llmbatch")
	if out, err := build.CombinedOutput(); err != nil {
		b.fail("load", "race detector", fmt.Errorf("%w: %s", err, out))
		return
	}
	b.tryLoad(ctx, "1,000 in flight, race detector", raced, 1_000, 40*time.Second, 2*time.Second)
}

func (b *bench) tryLoad(ctx context.Context, name, binary string, calls int, lasts, latency time.Duration) {
	b.try("load", name, func() error { return b.loaded(ctx, name, binary, calls, lasts, latency) })
}

func (b *bench) loaded(ctx context.Context, name, binary string, calls int, lasts, latency time.Duration) error {
	n := calls * int(lasts/latency)
	s, err := b.scene(ctx, "load", same(n, 20), 20, "--latency", latency.String(), "--output-tokens", "20", "--log-max", "0")
	if err != nil {
		return err
	}
	defer s.mock.Kill()
	p, err := b.spawnOf(ctx, binary, s.dir, nil, s.command("--concurrency", strconv.Itoa(calls), "--progress", "none")...)
	if err != nil {
		return err
	}
	defer p.Kill()
	all := watchLoad(ctx, p, s.mock)
	o, err := s.ended(ctx, p)
	if err != nil {
		return err
	}
	r, l := o.report, o.ledger
	b.equal("load", name+": answers stored", r.Completed, n)
	b.add("load", name+": in flight at most", fmt.Sprintf(">= %d", calls*9/10), l.PeakInFlight >= calls*9/10, "%d", l.PeakInFlight)
	if binary == b.binary {
		b.atMost("load", name+": peak memory", peakMiB(p), 400, " MiB")
	} else {
		b.equal("load", name+": races", strings.Count(p.Errs.String(), "DATA RACE"), 0)
	}
	b.equal("load", name+": calls made again", r.Calls-n, 0)
	// What is flat is judged while the load is on: it grows at first, and
	// ceases at the end.
	var steady []sample
	for _, s := range all {
		if s.flying >= calls*8/10 {
			steady = append(steady, s)
		}
	}
	if len(steady) < 4 {
		return fmt.Errorf("only %d of %d samples were taken under load", len(steady), len(all))
	}
	steady = steady[len(steady)/4:] // the heap takes its room in the first quarter
	half := len(steady) / 2
	rss := func(s sample) float64 { return s.rss }
	fds := func(s sample) float64 { return float64(s.descriptors) }
	minutes := steady[len(steady)-1].after.Minutes() - steady[0].after.Minutes()
	if binary == b.binary { // the race detector's own memory grows
		b.add("load", name+": memory, second half against first", "<= 1.15", mean(steady[half:], rss) <= 1.15*mean(steady[:half], rss), "%.3f (%.1f MiB to %.1f MiB, %d samples over %.1f min)",
			mean(steady[half:], rss)/mean(steady[:half], rss), mean(steady[:half], rss), mean(steady[half:], rss), len(steady), minutes)
	}
	b.add("load", name+": descriptors, second half against first", "<= 1.05", mean(steady[half:], fds) <= 1.05*mean(steady[:half], fds), "%.3f (%.0f to %.0f)",
		mean(steady[half:], fds)/mean(steady[:half], fds), mean(steady[:half], fds), mean(steady[half:], fds))
	return nil
}

func mean(all []sample, of func(sample) float64) (sum float64) {
	for _, s := range all {
		sum += of(s)
	}
	return sum / float64(max(1, len(all)))
}

// watchLoad looks at a process every second, or at a long run every few.
func watchLoad(ctx context.Context, p *harness.Process, m *harness.Mock) (all []sample) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-p.Exited:
			return all
		case <-ctx.Done():
			return all
		case <-tick.C:
		}
		now, err := m.Ledger(ctx)
		if err != nil {
			continue
		}
		s := sample{after: time.Since(p.Began), rss: resident(p.Cmd.Process.Pid), flying: now.InFlight}
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Cmd.Process.Pid))
		if s.descriptors = len(open); err == nil && s.rss > 0 {
			all = append(all, s)
		}
	}
}

// resident is what a process holds in memory now, in MiB; 0 if it has ended.
func resident(pid int) float64 {
	if runtime.GOOS != "linux" {
		return 0
	}
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	fields := strings.Fields(string(raw))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return float64(pages*os.Getpagesize()) / (1 << 20)
}
