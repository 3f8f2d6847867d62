package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// stops is point 7: what ends a run, what it says, and that the rest stays
// pending.
func stops(ctx context.Context, b *bench) {
	const n = 40
	cases := []struct {
		name   string
		mock   []string
		run    []string
		status int
		says   []string
	}{
		{"no key", []string{"--key", "sk-figures"}, []string{"--api-key-env", "NOT_SET"}, 2, []string{"NOT_SET"}},
		{"refused key", []string{"--key", "sk-another"}, nil, 4, []string{"key"}},
		{"spent quota", []string{"--quota-after", "10"}, []string{"--concurrency", "2"}, 4, []string{"quota"}},
		{"wrong model", []string{"--models", "gpt-4o"}, nil, 4, []string{"gpt-4o-mini"}},
	}
	for _, c := range cases {
		b.tell(ctx, "7", c.name, n, c.mock, func(s *story) {
			s.stopped(ctx, c.name, s.run(ctx, c.status, c.run...), c.says)
		})
	}
	b.tell(ctx, "7", "server down", n, nil, func(s *story) {
		s.mock.Kill()
		s.stopped(ctx, "server down", s.run(ctx, 4, "--max-outage", "3s"), []string{s.mock.Addr})
	})
	b.tell(ctx, "7", "disk full", 2000, nil, func(s *story) { s.diskFull(ctx) })
}

// stopped wants a message with a hint, and every operation completed or
// pending.
func (s *story) stopped(ctx context.Context, name string, p *harness.Process, says []string) {
	if s.err != nil {
		return
	}
	said := p.Errs.String()
	for _, word := range append(says, "hint:") {
		if !strings.Contains(said, word) {
			s.err = fmt.Errorf("no %q in %q", word, p.Tail())
			return
		}
	}
	status := p.Wait()
	if status == 2 {
		s.asked(ctx, name+": exit 2, said, nothing sent", 0)
		return
	}
	r, err := p.Report()
	if err != nil {
		s.err = err
		return
	}
	s.bench.equal(s.point, fmt.Sprintf("%s: exit %d, said, the rest pending", name, status),
		fmt.Sprintf("%d failed, %d unknown, %d done or pending", r.Failed, r.Unknown, r.Completed+r.Pending),
		fmt.Sprintf("0 failed, 0 unknown, %d done or pending", len(s.ids)))
}

// diskFull runs on a file system of 1 MiB, which the results outgrow, then on
// one with room. It needs to be root to mount one.
func (s *story) diskFull(ctx context.Context) {
	small := s.dir + "/small"
	if err := os.Mkdir(small, 0o700); err != nil {
		s.err = err
		return
	}
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		s.bench.add("7", "disk full", "measured", true, "left out: no file system may be mounted here (%v)", err)
		return
	}
	// The second unmount, after a fault in between, finds nothing: that is fine.
	defer func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) }()
	p := s.run(ctx, 1, "--output", "small/x.results.jsonl")
	if s.err != nil {
		return
	}
	if said := p.Errs.String(); !strings.Contains(said, "no space") || !strings.Contains(said, "hint:") {
		s.err = fmt.Errorf("no word of the full disk or no hint: %s", p.Tail())
		return
	}
	full, err := s.mock.Ledger(ctx)
	if err != nil {
		s.err = err
		return
	}
	s.err = syscall.Mount("tmpfs", small, "tmpfs", syscall.MS_REMOUNT, "size=64m")
	r := s.run(ctx, 0, "--output", "small/x.results.jsonl")
	if s.err != nil {
		return
	}
	last, err := r.Report()
	lines, readErr := harness.ReadLines(small + "/x.results.jsonl")
	l, statsErr := s.mock.Ledger(ctx)
	if s.err = errors.Join(err, readErr, statsErr); s.err != nil {
		return
	}
	s.bench.equal("7", "disk full: exit 1, then room again: one line each", len(lines), len(s.ids))
	s.bench.equal("7", "disk full: completed after there was room", last.Completed, len(s.ids))
	// What was on the wire when the disk was full is the most that is lost.
	s.bench.atMost("7", "disk full: calls made again", float64(l.Asked-len(s.ids)), 1024, "")
	s.bench.add("7", "disk full: sending stopped", "before the end", full.Asked < len(s.ids), "after %d calls", full.Asked)
}
