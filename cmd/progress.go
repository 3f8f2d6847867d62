package cmd

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/llmbatch/llmbatch/runner"
)

// plainEvery is how often a run without a terminal tells how it stands.
const plainEvery = 10 * time.Second

// progress shows a run on stderr: a bar on a terminal, plain lines elsewhere.
// Notices and the bar share it, so that they do not tear each other.
type progress struct {
	w     io.Writer
	env   Env
	tty   bool
	mu    sync.Mutex
	bar   *progressbar.ProgressBar
	last  time.Time
	first time.Time
}

func newProgress(env Env, plain bool) *progress {
	return &progress{w: env.Stderr, env: env, tty: !plain && env.IsTTY() && env.Getenv("NO_COLOR") == "" && env.Getenv("TERM") != "dumb"}
}

func (p *progress) notice(msg string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear() // a bar that cannot be drawn is no reason to stop
	}
	fmt.Fprintf(p.w, "llmbatch: %s\n", clean(msg))
}

func (p *progress) update(s runner.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.tty {
		if p.first.IsZero() {
			p.first, p.last = now, now
		}
		if now.Sub(p.last) >= plainEvery {
			p.last = now
			fmt.Fprintf(p.w, "llmbatch: %s\n", describe(s))
		}
		return
	}
	if p.bar == nil {
		p.bar = p.newBar(s)
	}
	// The description and the counter share one line: keep it on one.
	text := describe(s)
	if w := p.env.Width(); w > 0 && len(text) > w-1 {
		text = text[:max(0, w-1)]
	}
	p.bar.Describe(text)
	_ = p.bar.Set(s.Done)
}

func (p *progress) newBar(s runner.Progress) *progressbar.ProgressBar {
	return progressbar.NewOptions(max(1, s.Total),
		progressbar.OptionSetWriter(p.w), progressbar.OptionSetWidth(10), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetTheme(progressbar.ThemeASCII))
}

// describe tells in one line how a run stands and what limits it now.
func describe(s runner.Progress) string {
	var b strings.Builder
	percent := 100
	if s.Total > 0 {
		percent = s.Done * 100 / s.Total
	}
	fmt.Fprintf(&b, "%s/%s done (%d%%)", grouped(int64(s.Done)), grouped(int64(s.Total)), percent)
	fmt.Fprintf(&b, ", %d in flight", s.InFlight)
	if s.Delayed > 0 {
		fmt.Fprintf(&b, ", %d delayed", s.Delayed)
	}
	if s.Dead > 0 {
		fmt.Fprintf(&b, ", %d failed", s.Dead)
	}
	rate := func(name string, n, limit int64) {
		if limit > 0 {
			fmt.Fprintf(&b, ", %s/%s %s", grouped(n), grouped(limit), name)
		} else if n > 0 {
			fmt.Fprintf(&b, ", %s %s", grouped(n), name)
		}
	}
	rate("rpm", s.RequestsMinute, s.RPM)
	rate("tpm", s.TokensMinute, s.TPM)
	if s.Cost != "" {
		fmt.Fprintf(&b, ", cost %s", s.Cost)
	}
	if left := s.Remaining.Round(time.Second); left > 0 {
		fmt.Fprintf(&b, ", about %s left", left)
	}
	if s.Limiting != "" {
		fmt.Fprintf(&b, ", limited by %s", clean(s.Limiting))
		if wait := time.Until(s.Until); !s.Until.IsZero() && wait > time.Second {
			fmt.Fprintf(&b, " until %s", runner.Clock(time.Now(), s.Until))
		}
	}
	return b.String()
}

func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
		_ = p.bar.Exit()
		p.bar = nil
	}
}
