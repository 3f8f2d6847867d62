package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// soaked is what a soak adds up to.
type soaked struct {
	batches, operations, kills int
	lost, twice                int
	watched, leaked            int // runs long enough to tell, and the descriptors that they leaked
}

// killsWanted is how many kills a full soak has to survive.
const killsWanted = 200

// soak runs inputs against a server with bad days, killing at random, until the
// time is over.
func soak(ctx context.Context, b *bench) {
	deadline := time.Now().Add(b.soak)
	var s soaked
	for time.Now().Before(deadline) && ctx.Err() == nil {
		if err := s.batch(ctx, b); err != nil {
			b.fail("soak", fmt.Sprintf("batch %d", s.batches+1), err)
			break
		}
	}
	wanted := 1
	if b.soak >= 30*time.Minute {
		wanted = killsWanted
	}
	b.add("soak", "kills survived", fmt.Sprintf(">= %d", wanted), s.kills >= wanted, "%d in %d batches of faults", s.kills, s.batches)
	b.equal("soak", "operations lost", s.lost, 0)
	b.equal("soak", "billed twice, with keys honoured", s.twice, 0)
	b.add("soak", "descriptors leaked", "0 in one run at least", s.leaked == 0 && s.watched > 0, "%d in %d runs", s.leaked, s.watched)
	b.add("soak", "operations", "all completed", s.batches > 0, "%d", s.operations)
}

// batch kills runs of one input up to five times and lets the next one finish: it
// has enough left to do for its descriptors to be watched.
func (s *soaked) batch(ctx context.Context, b *bench) error {
	sc, err := b.scene(ctx, "soak", spread(3000), 40, "--latency", "100ms", "--jitter", "80ms", "--error-rate", "0.05", "--lost-rate", "0.01", "--honour-keys")
	if err != nil {
		return err
	}
	defer os.RemoveAll(sc.dir)
	defer sc.mock.Kill()
	var acked map[string]string
	for range 5 {
		p, err := sc.start(ctx, "--concurrency", "32")
		if err != nil {
			return err
		}
		harness.Pause(ctx, time.Duration(200+rand.IntN(3000))*time.Millisecond, p)
		if !p.Running() {
			break
		}
		s.kills++
		p.Kill()
		if acked, err = harness.Acknowledged(sc.dir + "/x.results.jsonl"); err != nil {
			return err
		}
	}
	p, err := sc.start(ctx, "--concurrency", "32")
	if err != nil {
		return err
	}
	leaked := watchFiles(ctx, p)
	o, err := sc.ended(ctx, p)
	if err != nil {
		return err
	}
	o.acked = acked
	lines, err := harness.ReadLines(sc.dir + "/x.results.jsonl")
	if err != nil {
		return err
	}
	s.batches++
	s.operations += len(o.ids)
	s.lost += len(o.ids) - len(lines)
	s.twice += o.ledger.Twice.Extra
	if n, enough := leaked(); enough {
		s.watched++
		s.leaked += n
	}
	// Retries of the killed runs are in no report: the number of calls is free.
	o.ledger.Asked = 0
	if o.report.Completed != len(o.ids) {
		return fmt.Errorf("completed %d of %d: %s", o.report.Completed, len(o.ids), p.Tail())
	}
	return verify(o)
}

// watchFiles looks at the descriptors of a running process, but for sockets,
// which are a pool. The figure, valid after the process's end, is how many more
// there were late than early; what opens for a moment is none. A run that was
// over too soon tells nothing.
func watchFiles(ctx context.Context, p *harness.Process) (leaked func() (n int, enough bool)) {
	var early int64
	var late []int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p.Running() && ctx.Err() == nil {
			harness.Pause(ctx, 100*time.Millisecond, p)
			n := files(p)
			switch {
			case n == 0 || time.Since(p.Began) < time.Second:
			case early == 0:
				early = n
			default:
				late = append(late[max(0, len(late)-9):], n)
			}
		}
	}()
	return func() (n int, enough bool) {
		<-done
		if len(late) < 10 {
			return 0, false
		}
		// The snapshot of the second and the folder's sync are there at times.
		return max(0, int(slices.Min(late)-early)-3), true
	}
}

// files counts a process's open files; 0 = it has ended.
func files(p *harness.Process) (n int64) {
	dir := fmt.Sprintf("/proc/%d/fd", p.Cmd.Process.Pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if to, err := os.Readlink(dir + "/" + e.Name()); err == nil && !strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
