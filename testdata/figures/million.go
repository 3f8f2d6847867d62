package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
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
		defer m.kill()
		p, err := b.spawn(ctx, dir, nil, "run", "x.jsonl", "--base-url", m.url(), "--json")
		if err != nil {
			return err
		}
		defer p.kill()
		err = until(ctx, func() bool {
			l, err := m.stats(ctx)
			return err == nil && l.Asked > 0 || !p.running()
		})
		first := time.Since(p.start).Seconds()
		if err != nil || !p.running() {
			return fmt.Errorf("no call: %v %s", err, p.tail())
		}
		b.atMost("8", "1,000,000 lines: first call", first, 20, " s")
		if b.short {
			pause(ctx, 10*time.Second, p)
			p.signal(syscall.SIGINT)
		}
		r, err := p.result()
		if err != nil {
			return err
		}
		b.equal("8", "1,000,000 lines: counted", r.Operations, n)
		if !b.short {
			b.equal("8", "1,000,000 lines: completed", r.Completed, n)
		}
		b.atMost("8", fmt.Sprintf("1,000,000 lines: peak memory (%d done)", r.Completed), p.peakMiB(), 400, " MiB")
		return nil
	}(); err != nil {
		b.fail("8", "1,000,000 lines", err)
	}
}
