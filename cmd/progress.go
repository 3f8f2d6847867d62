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

// The values of --progress.
const (
	progressBar   = "bar" // plain where stderr is no terminal
	progressPlain = "plain"
	progressJSON  = "json"
	progressNone  = "none"
)

// plainEvery is how often a run without a terminal tells how it stands, and
// jsonEvery how often it does so to machines.
const (
	plainEvery = 10 * time.Second
	jsonEvery  = time.Second
)

// progress shows a run on stderr: a bar on a terminal, plain lines elsewhere,
// JSON lines or nothing. Notices and the bar share it, so that they do not tear
// each other.
type progress struct {
	w      io.Writer
	env    Env
	form   string
	mu     sync.Mutex
	bar    *progressbar.ProgressBar
	last   time.Time // of the last line
	latest *runner.Progress
}

// newProgress makes one in a form that is one of the values of --progress.
func newProgress(env Env, form string) *progress {
	if form == progressBar && (!env.IsTTY() || env.Getenv("NO_COLOR") != "" || env.Getenv("TERM") == "dumb") {
		form = progressPlain
	}
	return &progress{w: env.Stderr, env: env, form: form}
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
	p.latest = &s
	switch p.form {
	case progressNone:
		return
	case progressJSON:
		if now.Sub(p.last) >= jsonEvery {
			p.last = now
			p.line(now)
		}
		return
	case progressPlain:
		if p.last.IsZero() {
			p.last = now
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

// figures are those of a run as --progress json prints them. A limit that is 0
// is none.
type figures struct {
	Time           time.Time  `json:"time"`
	Total          int        `json:"total"`
	Done           int        `json:"done"` // failed ones included
	Failed         int        `json:"failed"`
	InFlight       int        `json:"in_flight"`
	Delayed        int        `json:"delayed"`
	Calls          int64      `json:"calls"`
	RateLimited    int64      `json:"rate_limited"`
	RequestsMinute int64      `json:"requests_minute"`
	RPM            int64      `json:"rpm"`
	TokensMinute   int64      `json:"tokens_minute"`
	TPM            int64      `json:"tpm"`
	Limiting       string     `json:"limiting"`
	Until          *time.Time `json:"until"` // null = not known
	Elapsed        float64    `json:"elapsed_seconds"`
	Remaining      *float64   `json:"remaining_seconds"` // null = not known yet
	Cost           *string    `json:"cost"`              // null = no price is known
	Stopping       bool       `json:"stopping"`
}

// line prints the latest figures as one JSON object.
func (p *progress) line(now time.Time) {
	s := p.latest
	f := figures{
		Time: now.UTC(), Total: s.Total, Done: s.Done, Failed: s.Dead, InFlight: s.InFlight, Delayed: s.Delayed, Calls: s.Calls,
		RateLimited: s.RateLimited, RequestsMinute: s.RequestsMinute, RPM: s.RPM, TokensMinute: s.TokensMinute, TPM: s.TPM,
		Limiting: s.Limiting, Elapsed: s.Elapsed.Seconds(), Stopping: s.Stopping,
	}
	if !s.Until.IsZero() {
		until := s.Until.UTC()
		f.Until = &until
	}
	if left := s.Remaining.Seconds(); left > 0 || s.Done >= s.Total {
		f.Remaining = &left
	}
	if s.Cost != "" {
		f.Cost = &s.Cost
	}
	_ = printJSON(p.w, f) // a stderr that is gone is no reason to stop
}

func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.form == progressJSON && p.latest != nil {
		p.line(time.Now())
	}
	if p.bar != nil {
		_ = p.bar.Clear()
		_ = p.bar.Exit()
		p.bar = nil
	}
}
