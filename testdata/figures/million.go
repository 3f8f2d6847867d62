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
	b.try("8", "1,000,000 lines", func() error {
		s, err := b.scene(ctx, "million", same(n, 40), 40, "--output-tokens", "20")
		if err != nil {
			return err
		}
		defer s.mock.Kill()
		p, err := s.start(ctx)
		if err != nil {
			return err
		}
		defer p.Kill()
		err = harness.Until(ctx, func() bool {
			l, err := s.mock.Ledger(ctx)
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
	})
}
