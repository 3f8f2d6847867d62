package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
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
			all.Go(func() { b.try("eta", m.name, func() error { return m.measure(ctx, b, m.name) }) })
			harness.Pause(ctx, 700*time.Millisecond, nil)
		}
	}
	all.Wait()
}

// whole compares every time that a run names with the one that it took.
func (c forecastCase) whole(ctx context.Context, b *bench, name string) error {
	s, args, err := c.begin(ctx, b)
	if err != nil {
		return err
	}
	defer s.mock.Kill()
	args = append([]string{"run", "--base-url", s.url, "--progress", "json"}, args...)
	p, err := b.run(ctx, s.dir, args...)
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
	s, args, err := c.begin(ctx, b)
	if err != nil {
		return err
	}
	defer s.mock.Kill()
	args = append([]string{"run", "--base-url", s.url, "--progress", "json"}, args...)
	p, err := b.spawn(ctx, s.dir, nil, args...)
	if err != nil {
		return err
	}
	for p.Running() && ctx.Err() == nil {
		l, err := s.mock.Ledger(ctx)
		if err == nil && 10*l.Billed >= 9*len(c.lengths) {
			break
		}
		harness.Pause(ctx, 20*time.Millisecond, p)
	}
	p.Kill()
	if p, err = b.run(ctx, s.dir, args...); err != nil {
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
