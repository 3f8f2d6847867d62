package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// counting is the speed of the dry run: what a token costs to count, against
// tiktoken-go on the same texts by turns, and a file of a gigabyte. Ratios hold
// on a busy machine; for the seconds the load average stands beside them.
func counting(ctx context.Context, b *bench) {
	for _, part := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"ratios", b.ratios}, {"megabytes", b.megabytes}, {"first count", b.firstCount}, {"gigabyte", b.gigabyte},
	} {
		if err := part.measure(ctx); err != nil {
			b.fail("count", part.name, err)
		}
	}
}

// ratios are those of the package's own benchmark.
func (b *bench) ratios(ctx context.Context) error {
	rows, err := benchmark(ctx, "BenchmarkText", "12x")
	for _, r := range rows {
		atLeast := 10.0
		for _, fast := range []string{"english", "code", "json"} {
			if strings.Contains(r.name, "corpus="+fast+"/") {
				atLeast = 20
			}
		}
		b.add("count", r.name, fmt.Sprintf(">= %.0f x tiktoken-go", atLeast), r.value["ratio"] >= atLeast,
			"%.1f x (%.1f against %.2f MB/s)", r.value["ratio"], r.value["MB/s"], r.value["tiktoken-go-MB/s"])
	}
	return err
}

// megabytes are texts without a break, on which tiktoken-go takes minutes.
func (b *bench) megabytes(ctx context.Context) error {
	rows, err := benchmark(ctx, "BenchmarkMegabyte", "3x")
	for _, r := range rows {
		b.atMost("count", r.name, r.value["ns/op"]/1e9, 1, " s")
	}
	return err
}

// row is one line of what go test -bench prints.
type row struct {
	name  string
	value map[string]float64 // by unit
}

func benchmark(ctx context.Context, name, times string) (rows []row, err error) {
	c := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^"+name+"$", "-benchtime", times, "github.com/llmbatch/llmbatch/estimate")
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", name, err, out)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasPrefix(f[0], name+"/") {
			continue
		}
		r := row{strings.TrimPrefix(f[0], name+"/"), map[string]float64{}}
		for i := 2; i+1 < len(f); i += 2 {
			if r.value[f[i+1]], err = strconv.ParseFloat(f[i], 64); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s printed nothing: %s", name, out)
	}
	return rows, nil
}

// firstCount is a whole process that counts one line: the best of nine, since
// any other program may come between.
func (b *bench) firstCount(ctx context.Context) error {
	dir, err := b.folder("first")
	if err != nil {
		return err
	}
	if _, err := write(dir, same(1, 10), 40); err != nil {
		return err
	}
	best := harness.Patience.Seconds()
	for range 9 {
		start := time.Now()
		p, err := b.run(ctx, dir, "estimate", "x.jsonl", "--per-line")
		if err != nil {
			return err
		}
		if !strings.Contains(p.Out.String(), `"text_tokens":`) {
			return errors.New(p.Tail())
		}
		best = min(best, time.Since(start).Seconds())
	}
	b.atMost("count", fmt.Sprintf("first count, from start to end of the process, load %.1f", load()), best*1000, 60, " ms")
	return nil
}

// gigabyte is a dry run of 1,000,000 lines, or of a tenth of them with -short.
func (b *bench) gigabyte(ctx context.Context) error {
	n, atMost := 1_000_000, 12.0
	if b.short {
		n, atMost = 100_000, 2.0
	}
	dir, err := b.folder("gigabyte")
	if err != nil {
		return err
	}
	size, err := mixed(dir, n)
	if err != nil {
		return err
	}
	defer os.Remove(filepath.Join(dir, "x.jsonl"))
	before, start := load(), time.Now()
	p, err := b.run(ctx, dir, "estimate", "x.jsonl", "--rpm", "5000", "--tpm", "2000000", "--json")
	if err != nil {
		return err
	}
	took := time.Since(start).Seconds()
	if p.Wait() != 0 {
		return errors.New(p.Tail())
	}
	name := fmt.Sprintf("dry run of %d lines, %d MB", n, size/1e6)
	// The limit of the time is that of a machine with two processors and nothing
	// else to do; on a busy one only the processor time tells.
	usage := p.Cmd.ProcessState
	b.atMost("count", name+": processor time", (usage.UserTime() + usage.SystemTime()).Seconds(), 2*atMost, " s")
	b.add("count", fmt.Sprintf("%s: time, load %.1f", name, before), fmt.Sprintf("<= %.0f s if nothing else runs", atMost), took <= atMost || before > 0.5, "%.1f s", took)
	b.atMost("count", name+": peak memory", peakMiB(p)*1.048576, 100, " MB")
	return nil
}

// load is the load average of the last minute; 0 where the system does not
// tell it.
func load() (one float64) {
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		// What cannot be read is not told.
		_, _ = fmt.Sscan(string(raw), &one)
	}
	return one
}
