package cmd

import (
	"fmt"
	"io"
	"sync"
	"time"

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
	bar    bar
	last   time.Time // of the last line or drawing
	latest *runner.Progress
}

// newProgress makes one in a form that is one of the values of --progress.
func newProgress(env Env, form string) *progress {
	if form == progressBar && !env.draws() {
		form = progressPlain
	}
	return &progress{w: env.Stderr, env: env, form: form, bar: bar{w: env.Stderr}}
}

func (p *progress) notice(msg string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bar.erase()
	p.env.say("%s", msg)
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
	if now.Sub(p.last) >= barEvery {
		p.last = now
		p.bar.draw(s, p.env.Width())
	}
}

// describe tells in one line how a run stands and what limits it now.
func describe(s runner.Progress) string {
	all := parts(s)
	all[0].long = fmt.Sprintf("%s (%d%%)", all[0].long, percentOf(s))
	return joined(all)
}

func percentOf(s runner.Progress) int {
	if s.Total == 0 {
		return 100
	}
	return s.Done * 100 / s.Total
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
	Rate           float64    `json:"operations_minute"` // done by this run, over its whole time
	Calls          int64      `json:"calls"`
	RateLimited    int64      `json:"rate_limited"`
	CacheHits      int64      `json:"cache_hits"` // operations served by a kept answer
	RequestsMinute int64      `json:"requests_minute"`
	RPM            int64      `json:"rpm"`
	TokensMinute   int64      `json:"tokens_minute"`
	TPM            int64      `json:"tpm"`
	Limiting       string     `json:"limiting"`
	LimitedAt      string     `json:"limiting_target,omitempty"` // where there are several limit groups
	Until          *time.Time `json:"until"`                     // null = not known
	Elapsed        float64    `json:"elapsed_seconds"`
	Remaining      *float64   `json:"remaining_seconds"` // null = not known yet
	Cost           *string    `json:"cost"`              // null = no price is known
	Stopping       bool       `json:"stopping"`
	Pressure       string     `json:"pressure,omitempty"`  // its level; none is left out
	HeldBack       int        `json:"held_back,omitempty"` // operations
}

// line prints the latest figures as one JSON object.
func (p *progress) line(now time.Time) {
	s := p.latest
	f := figures{
		Time: now.UTC(), Total: s.Total, Done: s.Done, Failed: s.Dead, InFlight: s.InFlight, Delayed: s.Delayed, Rate: s.Rate, Calls: s.Calls,
		RateLimited: s.RateLimited, CacheHits: s.CacheHits, RequestsMinute: s.RequestsMinute, RPM: s.RPM, TokensMinute: s.TokensMinute, TPM: s.TPM,
		Limiting: s.Limiting, LimitedAt: s.LimitedAt, Elapsed: s.Elapsed.Seconds(), Stopping: s.Stopping, Pressure: s.Pressure, HeldBack: s.HeldBack,
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
	p.bar.erase()
	switch {
	case p.latest == nil:
	case p.form == progressJSON:
		p.line(time.Now())
	case p.form == progressPlain && p.latest.Calls > 0:
		fmt.Fprintf(p.w, "llmbatch: %s\n", describe(*p.latest))
	}
}
