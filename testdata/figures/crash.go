package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// crash kills a run at its nth sync, write and rename, for n from 1 on, then
// lets another finish. strace counts calls by thread, so that one n is several
// moments; a moment that is never reached ends the sweep of its call.
func crash(ctx context.Context, b *bench) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		b.fail("crash", "sweep", err)
		return
	}
	last := 40
	if b.short {
		last = 6
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for _, call := range []string{"fdatasync", "pwrite64", "write", "rename,renameat,renameat2", "fsync", "ftruncate"} {
		var mu sync.Mutex
		var faults []error
		killed := 0
		var sweep sync.WaitGroup
		for n := 1; n <= last; n++ {
			sweep.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				died, err := b.crashAt(ctx, strace, call, n)
				mu.Lock()
				defer mu.Unlock()
				if died {
					killed++
				}
				if err != nil {
					faults = append(faults, fmt.Errorf("%s %d: %w", call, n, err))
				}
			})
		}
		all.Go(func() {
			sweep.Wait()
			name := fmt.Sprintf("killed at %s 1 to %d", strings.Split(call, ",")[0], last)
			if err := errors.Join(faults...); err != nil {
				b.fail("crash", name, err)
				return
			}
			b.add("crash", name, "none lost, one line each", true, "%d kills", killed)
		})
	}
	all.Wait()
}

func (b *bench) crashAt(ctx context.Context, strace, call string, n int) (died bool, err error) {
	s, err := b.scene(ctx, "crash", same(12, 5), 20, "--latency", "20ms", "--honour-keys")
	if err != nil {
		return false, err
	}
	defer s.mock.Kill()
	args := []string{"--concurrency", "3"}
	trap := []string{strace, "-f", "-qq", "-o", s.dir + "/trace", "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", call, n)}
	first, err := b.spawn(ctx, s.dir, trap, s.command(args...)...)
	if err != nil {
		return false, err
	}
	died = first.Wait() != 0
	acked, err := harness.Acknowledged(s.dir + "/x.results.jsonl")
	if err != nil {
		return died, err
	}
	before, err := s.mock.Ledger(ctx)
	if err != nil {
		return died, err
	}
	second, err := s.start(ctx, args...)
	if err != nil {
		return died, err
	}
	o, err := s.ended(ctx, second)
	if err != nil {
		return died, err
	}
	o.acked, o.flying = acked, max(0, before.Asked-len(acked))
	if o.report.Completed != len(o.ids) || o.ledger.Twice.Extra != 0 {
		return died, fmt.Errorf("completed %d of %d, %d billed twice: %s", o.report.Completed, len(o.ids), o.ledger.Twice.Extra, second.Tail())
	}
	return died, verify(o)
}
