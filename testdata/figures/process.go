package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// folder makes a new one for a case.
func (b *bench) folder(name string) (string, error) {
	return os.MkdirTemp(b.dir, strings.ReplaceAll(name, " ", "-")+"-")
}

// spawn starts a command in dir; prefix may wrap it, as strace does.
func (b *bench) spawn(ctx context.Context, dir string, prefix []string, args ...string) (*harness.Process, error) {
	return b.spawnOf(ctx, b.binary, dir, prefix, args...)
}

// spawnOf is spawn of another build.
func (b *bench) spawnOf(ctx context.Context, binary, dir string, prefix []string, args ...string) (*harness.Process, error) {
	argv := append(append(append([]string{}, prefix...), binary), args...)
	return harness.Command{Argv: argv, Dir: dir, Env: []string{"OPENAI_API_KEY=sk-figures"}}.Start(ctx)
}

// run runs llmbatch to its end.
func (b *bench) run(ctx context.Context, dir string, args ...string) (*harness.Process, error) {
	p, err := b.spawn(ctx, dir, nil, args...)
	if err == nil {
		p.Wait()
	}
	return p, err
}

func (b *bench) mock(ctx context.Context, dir string, args ...string) (*harness.Mock, error) {
	return harness.StartMock(ctx, b.binary, dir, harness.Anywhere, args...)
}

// peakMiB is the largest resident set that the kernel saw, of one that has ended.
func peakMiB(p *harness.Process) float64 {
	usage, ok := p.Cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return float64(usage.Maxrss) / 1024
}

// entry is one call in a mock's log.
type entry struct {
	Time   time.Time `json:"t"`
	Ended  time.Time
	Status int
}

// logged lists the calls that have ended.
func logged(ctx context.Context, m *harness.Mock) (all []entry, err error) {
	raw, err := m.Get(ctx, "/log")
	for line := range bytes.Lines(raw) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("log: %w in %.200q", err, line)
		}
		all = append(all, e)
	}
	return all, err
}
