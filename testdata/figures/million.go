package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// million is point 8: 1,000,000 lines of about 300 bytes. The short form goes on
// for a few seconds after the first call, the long one to the end.
func million(ctx context.Context, b *bench) {
	const n = 1_000_000
	if err := func() error {
		dir, err := b.folder("million")
		if err != nil {
			return err
		}
		if _, err = write(dir, same(n, 40), 40); err != nil {
			return err
		}
		m, err := b.mock(ctx, dir, "--output-tokens", "20")
		if err != nil {
			return err
		}
		defer m.Kill()
		p, err := b.spawn(ctx, dir, nil, "run", "x.jsonl", "--base-url", m.URL(), "--json")
		if err != nil {
			return err
		}
		defer p.Kill()
		err = harness.Until(ctx, func() bool {
			l, err := m.Ledger(ctx)
			return err == nil && l.Asked > 0 || !p.Running()
		})
		first := time.Since(p.Began).Seconds()
		if err != nil || !p.Running() {
			return fmt.Errorf("no call: %v %s", err, p.Tail())
		}
		b.atMost("8", "1,000,000 lines: first call", first, 20, " s")
		if b.short {
			harness.Pause(ctx, 10*time.Second, p)
			p.Signal(syscall.SIGINT)
		}
		r, err := p.Report()
		if err != nil {
			return err
		}
		b.equal("8", "1,000,000 lines: counted", r.Operations, n)
		if !b.short {
			b.equal("8", "1,000,000 lines: completed", r.Completed, n)
		}
		b.atMost("8", fmt.Sprintf("1,000,000 lines: peak memory (%d done)", r.Completed), peakMiB(p), 400, " MiB")
		return nil
	}(); err != nil {
		b.fail("8", "1,000,000 lines", err)
	}
}
