package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// restart is point 4, first part: the minute in which a run was killed counts
// for the one that follows. The mock enforces nothing, so that its log shows
// what was sent.
func restart(ctx context.Context, b *bench) {
	const rpm = 120
	b.try("4", "killed after 10 s, started at once", func() error {
		s, err := b.scene(ctx, "restart", same(2*rpm, 10), 40, "--latency", latency.String())
		if err != nil {
			return err
		}
		defer s.mock.Kill()
		first, err := s.start(ctx, "--rpm", fmt.Sprint(rpm))
		if err != nil {
			return err
		}
		harness.Pause(ctx, 10*time.Second, first)
		first.Kill()
		acked, err := harness.Acknowledged(s.dir + "/x.results.jsonl")
		if err != nil {
			return err
		}
		before, err := s.mock.Ledger(ctx)
		if err != nil {
			return err
		}
		o, err := s.run(ctx, "--rpm", fmt.Sprint(rpm))
		if err != nil {
			return err
		}
		o.acked, o.flying = acked, before.Asked-len(acked)
		b.equal("4", "killed after 10 s, started at once: completed", o.report.Completed, len(o.ids))
		b.atMost("4", "killed after 10 s, started at once: rolling minute", float64(o.ledger.PeakRequests), rpm, "")
		return verify(o)
	})
}

// killCase is one way of dying, again and again, on one input.
type killCase struct {
	name   string
	signal syscall.Signal
	flags  []string // of the mock
	twice  bool     // whether calls in flight may be billed twice
}

// kills is point 4, second part.
func kills(ctx context.Context, b *bench) {
	rounds, operations := 50, 2000
	if b.short {
		rounds, operations = 8, 400
	}
	var all sync.WaitGroup
	for _, c := range []killCase{
		{"kill -9", syscall.SIGKILL, nil, true},
		{"kill -9, keys honoured", syscall.SIGKILL, []string{"--honour-keys"}, false},
		{"Ctrl-C", syscall.SIGINT, nil, false},
	} {
		all.Go(func() {
			name := fmt.Sprintf("%s x %d on %d operations", c.name, rounds, operations)
			b.try("4", name, func() error { return c.measure(ctx, b, name, rounds, operations) })
		})
	}
	all.Wait()
}

// concurrency in kill cases: the most that one kill can leave in flight.
const concurrency = 12

func (c killCase) measure(ctx context.Context, b *bench, name string, rounds, operations int) error {
	s, err := b.scene(ctx, "kills", same(operations, 10), 40, append(c.flags, "--latency", "250ms", "--jitter", "200ms")...)
	if err != nil {
		return err
	}
	defer s.mock.Kill()
	var o outcome
	killed, most, unlisted := 0, 0, 0
	asked := 0
	for range rounds {
		p, err := s.start(ctx, "--concurrency", fmt.Sprint(concurrency))
		if err != nil {
			return err
		}
		if c.signal == syscall.SIGINT { // before it listens, Go's default ends it
			if err := calledMoreThan(ctx, s.mock, asked, p); err != nil {
				return err
			}
		}
		harness.Pause(ctx, time.Duration(100+rand.IntN(700))*time.Millisecond, p)
		if !p.Running() {
			return fmt.Errorf("the run ended by itself after %d kills with status %d: %s", killed, p.Wait(), p.Tail())
		}
		p.Signal(c.signal)
		if status := p.Wait(); c.signal == syscall.SIGINT && status != 130 {
			return fmt.Errorf("exit status %d after Ctrl-C, want 130: %s", status, p.Tail())
		}
		killed++
		flying, err := s.died(ctx, &o, &asked, &unlisted)
		if err != nil {
			return fmt.Errorf("round %d: %w", killed, err)
		}
		most = max(most, flying)
	}
	acked, flew := o.acked, o.flying
	if o, err = s.run(ctx, "--concurrency", fmt.Sprint(concurrency)); err != nil {
		return err
	}
	o.acked, o.flying = acked, flew
	b.equal("4", name+": completed, one line each", o.report.Completed, len(o.ids))
	if c.twice {
		b.atMost("4", name+": billed twice/in flight at the kills", float64(o.ledger.Twice.Extra)/float64(max(1, o.flying)), 1, "")
	} else {
		b.equal("4", name+": billed twice", o.ledger.Twice.Extra, 0)
	}
	b.atMost("4", name+": most in flight at one kill", float64(most), concurrency, "")
	b.equal("4", name+": in flight at a kill and not listed as unknown", unlisted, 0)
	return verify(o)
}

// calledMoreThan waits until a run has made its first call, of those past n.
func calledMoreThan(ctx context.Context, m *harness.Mock, n int, p *harness.Process) error {
	for p.Running() && ctx.Err() == nil {
		l, err := m.Ledger(ctx)
		if err != nil || l.Asked > n {
			return err
		}
		harness.Pause(ctx, 20*time.Millisecond, p)
	}
	return nil
}

// died looks at what one kill left. Calls that reached the mock in this round
// and have no line yet were in flight.
func (s *scene) died(ctx context.Context, o *outcome, asked, unlisted *int) (int, error) {
	l, err := s.mock.Ledger(ctx)
	if err != nil {
		return 0, err
	}
	now, err := harness.Acknowledged(s.dir + "/x.results.jsonl")
	if err != nil {
		return 0, err
	}
	for id, line := range o.acked {
		if now[id] != line {
			return 0, fmt.Errorf("the line of %s was acknowledged and is gone or changed", id)
		}
	}
	flying := (l.Asked - *asked) - (len(now) - len(o.acked))
	*asked, o.acked = l.Asked, now
	o.flying += max(0, flying)
	unknown, err := s.bench.unknown(ctx, s.dir)
	if err != nil {
		return 0, err
	}
	*unlisted += max(0, flying-unknown)
	return flying, nil
}

// unknown counts the calls that `llmbatch status` lists as of unknown outcome.
func (b *bench) unknown(ctx context.Context, dir string) (int, error) {
	var standing struct {
		Unknown int `json:"possibly_billed_twice"`
	}
	p, err := b.run(ctx, dir, "status", "x.jsonl", "--json")
	if err != nil {
		return 0, err
	}
	code := p.Wait()
	if _, err := os.Stat(filepath.Join(dir, "x.llmbatch.db")); os.IsNotExist(err) {
		return 0, nil // killed before it had one
	}
	if code != 0 {
		return 0, fmt.Errorf("status: exit status %d: %s", code, p.Tail())
	}
	if err := json.Unmarshal([]byte(p.Out.String()), &standing); err != nil {
		return 0, fmt.Errorf("status: %w in %.200q", err, p.Out.String())
	}
	return standing.Unknown, nil
}
