package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// told is one line of --progress json.
type told struct {
	Total, Done int
	Elapsed     float64  `json:"elapsed_seconds"`
	Remaining   *float64 `json:"remaining_seconds"`
	Limiting    string
}

// How far off what a run says of its end may be: of the whole time from a tenth
// of it on, and of what is left when it is started again with a tenth to do.
const (
	etaOff    = 0.15
	resumeOff = 0.20
	// Below that a share of what is left is no longer a figure that anyone reads.
	etaLeast = 1.0
)

// eta is what run says of its own end while it goes on, for the batches of
// forecast, and after it was killed with nine tenths done.
func eta(ctx context.Context, b *bench) {
	var all sync.WaitGroup
	for _, c := range forecastCases() {
		for _, m := range []struct {
			name    string
			short   bool // -short runs it
			measure func(context.Context, *bench, string) error
		}{
			{c.name + ": whole", c.short && c.name != "short uniform", c.whole},
			{c.name + ": resumed", c.name == "in flight", c.resumed},
		} {
			if b.short && !m.short {
				continue
			}
			all.Go(func() {
				if err := m.measure(ctx, b, m.name); err != nil {
					b.fail("eta", m.name, err)
				}
			})
			harness.Pause(ctx, 700*time.Millisecond, nil)
		}
	}
	all.Wait()
}

// begin starts a mock for the case and gives the arguments of its run.
func (c forecastCase) begin(ctx context.Context, b *bench) (m *harness.Mock, dir string, args []string, err error) {
	if dir, err = b.folder("eta"); err != nil {
		return nil, "", nil, err
	}
	if _, err = write(dir, c.lengths, c.maxTokens); err != nil {
		return nil, "", nil, err
	}
	limits, err := c.limits(ctx, b, dir)
	if err != nil {
		return nil, "", nil, err
	}
	m, err = b.mock(ctx, dir, append(limits, "--accounting", "sum", "--latency", c.latency.String(), "--output-tokens", strconv.Itoa(c.output))...)
	if err != nil {
		return nil, "", nil, err
	}
	args = append(slices.Concat([]string{"run", "--base-url", m.URL()}, limits, c.flags), "x.jsonl", "--accounting", "sum", "--json", "--progress", "json")
	if c.concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(c.concurrency))
	}
	return m, dir, args, nil
}

// whole compares every time that a run names with the one that it took.
func (c forecastCase) whole(ctx context.Context, b *bench, name string) error {
	m, dir, args, err := c.begin(ctx, b)
	if err != nil {
		return err
	}
	defer m.Kill()
	p, err := b.run(ctx, dir, args...)
	if err != nil {
		return err
	}
	if _, err := p.Report(); err != nil {
		return err
	}
	lines, took := progress(p)
	worst, ofRest, at, silent := 0.0, 0.0, told{}, 0
	for _, l := range lines {
		switch left := took - l.Elapsed; {
		case l.Elapsed < took/10 || l.Done >= l.Total:
		case l.Remaining == nil:
			silent++
		default:
			off := math.Abs(*l.Remaining - left)
			if off/took > worst {
				worst, at = off/took, l
			}
			if off > etaLeast {
				ofRest = max(ofRest, off/left)
			}
		}
	}
	within := etaOff
	if b.short {
		within += crowd
	}
	said := ""
	if at.Remaining != nil {
		said = fmt.Sprintf(" (said %.1f s at %.1f of %.1f s; of what remained %.2f)", *at.Remaining, at.Elapsed, took, ofRest)
	}
	b.add("eta", name+": off by, of the whole", fmt.Sprintf("<= %.2f", within), worst <= within && len(lines) > 3, "%.4f%s", worst, said)
	b.equal("eta", name+": silent", silent, 0)
	return nil
}

// resumed kills a run with nine tenths done and takes the first time that the
// next one names.
func (c forecastCase) resumed(ctx context.Context, b *bench, name string) error {
	m, dir, args, err := c.begin(ctx, b)
	if err != nil {
		return err
	}
	defer m.Kill()
	p, err := b.spawn(ctx, dir, nil, args...)
	if err != nil {
		return err
	}
	for p.Running() && ctx.Err() == nil {
		l, err := m.Ledger(ctx)
		if err == nil && 10*l.Billed >= 9*len(c.lengths) {
			break
		}
		harness.Pause(ctx, 20*time.Millisecond, p)
	}
	p.Kill()
	if p, err = b.run(ctx, dir, args...); err != nil {
		return err
	}
	if _, err := p.Report(); err != nil {
		return err
	}
	lines, took := progress(p)
	for _, l := range lines {
		if l.Remaining == nil || l.Done >= l.Total {
			continue
		}
		left := took - l.Elapsed
		off := math.Abs(*l.Remaining - left)
		within, least := resumeOff, etaLeast
		if b.short {
			within, least = within+2*crowd, 3*least
		}
		b.add("eta", name+": first is off by", fmt.Sprintf("<= %.2f, or %.0f s", within, least), off <= within*left || off <= least,
			"%.4f (said %.1f s after %.1f s, took %.1f s more)", off/left, *l.Remaining, l.Elapsed, left)
		return nil
	}
	b.add("eta", name+": first is off by", "one is named", took < etaLeast, "none within %.1f s", took)
	return nil
}

// progress reads what --progress json said, and when the last operation was done.
func progress(p *harness.Process) (lines []told, took float64) {
	for line := range strings.Lines(p.Errs.String()) {
		var l told
		if json.Unmarshal([]byte(line), &l) == nil {
			lines = append(lines, l)
		}
	}
	for _, l := range slices.Backward(lines) {
		if l.Done < l.Total {
			break
		}
		took = l.Elapsed
	}
	return lines, took
}
