package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// dripping gives a byte a second until its request's context ends.
type dripping struct {
	ctx  context.Context
	left int
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.left == 0 {
		<-d.ctx.Done()
		return 0, context.Cause(d.ctx)
	}
	select {
	case <-time.After(time.Second):
		d.left--
		p[0] = '.'
		return 1, nil
	case <-d.ctx.Done():
		return 0, context.Cause(d.ctx)
	}
}

// TestStreamTimers: every byte counts as life for the idle timer, none for the
// total; what has come whole needs no end.
func TestStreamTimers(t *testing.T) {
	all := func(r io.Reader) error { _, err := io.ReadAll(r); return err }
	two := func(r io.Reader) error { _, err := io.ReadFull(r, make([]byte, 2)); return err }
	for _, tt := range []struct {
		name  string
		drips int
		read  func(io.Reader) error
		want  Kind
		after time.Duration
	}{
		{"stalls", 5, all, KindTimeoutMidStream, 5*time.Second + 3*time.Second},
		{"drips for ever", 1000, all, KindTimeoutMidStream, 30 * time.Second},
		{"whole, left open", 2, two, KindNone, 2*time.Second + drainTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr := NewTransport(TransportOptions{Timeouts: Timeouts{Idle: 3 * time.Second, Total: 30 * time.Second}, RoundTripper: roundTripper(func(r *http.Request) (*http.Response, error) {
				return answer(200, &dripping{r.Context(), tt.drips}), nil //nolint:bodyclose // the transport closes it
			})})
			begun := time.Now()
			_, e := tr.Stream(t.Context(), Exchange{URL: target, Body: []byte("{}")}, tt.read)
			got := KindNone
			if e != nil {
				got = e.Kind
			}
			if took := time.Since(begun); got != tt.want || took != tt.after || (e != nil && !e.Unknown()) {
				t.Errorf("%s: got %v after %v, want %s after %v", tt.name, e, took, tt.want, tt.after)
			}
		})
	}
}

func TestStreamErrors(t *testing.T) {
	fails := func(err error) func(io.Reader) error { return func(io.Reader) error { return err } }
	all := func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }
	for name, tt := range map[string]struct {
		body io.Reader
		read func(io.Reader) error
		want Kind
	}{
		"ends early":   {strings.NewReader("x"), fails(io.ErrUnexpectedEOF), KindTruncated},
		"own":          {strings.NewReader("x"), fails(&Error{Kind: KindBadContentType, Message: "m"}), KindBadContentType},
		"broken":       {iotest.ErrReader(errors.New("reset")), all, KindBroken},
		"past the cap": {strings.NewReader(strings.Repeat("x", 4097)), all, KindResponseTooLarge},
		"at the cap":   {strings.NewReader(strings.Repeat("x", 4095)), all, KindNone},
	} {
		tr := NewTransport(TransportOptions{MaxResponse: 1024, RoundTripper: roundTripper(func(*http.Request) (*http.Response, error) {
			return answer(200, tt.body), nil //nolint:bodyclose // the transport closes it
		})})
		_, e := tr.Stream(t.Context(), Exchange{URL: target}, tt.read)
		switch {
		case tt.want == KindNone && e != nil, tt.want != KindNone && (e == nil || e.Kind != tt.want || e.Phase != PhaseBody || !e.Sent):
			t.Errorf("%s: got %+v, want %s", name, e, tt.want)
		}
	}
}

func TestAnthropicRate(t *testing.T) {
	h := http.Header{}
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	h.Set("Date", at.Format(http.TimeFormat))
	for name, limit := range map[string]string{"Requests": "50", "Input-Tokens": "40000", "Output-Tokens": "8000", "Tokens": "8000"} {
		h.Set("Anthropic-Ratelimit-"+name+"-Limit", limit)
		h.Set("Anthropic-Ratelimit-"+name+"-Remaining", "7")
		h.Set("Anthropic-Ratelimit-"+name+"-Reset", at.Add(90*time.Second).Format(time.RFC3339))
	}
	want := NoRate()
	want.Requests = Window{50, 7, 90 * time.Second}
	want.Input = Window{40000, 7, 90 * time.Second}
	want.Output = Window{8000, 7, 90 * time.Second}
	if got := ParseRate(h, DialectAnthropic, time.Time{}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestNativeProfiles(t *testing.T) {
	env := map[string]string{"ANTHROPIC_BASE_URL": "https://gw/anthropic", "GOOGLE_GEMINI_BASE_URL": "https://gw"}
	for name, want := range map[string]struct {
		wire       Wire
		accounting string
		base       string
	}{
		"anthropic": {WireAnthropic, "split", "https://gw/anthropic"}, "gemini": {WireGemini, "input", "https://gw/v1beta"}, "google": {WireGemini, "input", "https://gw/v1beta"},
	} {
		p, ok := Lookup(name)
		base, fromEnv := p.Base(func(k string) string { return env[k] })
		if !ok || p.Wire != want.wire || p.Accounting != want.accounting || base != want.base || !fromEnv || p.CapParam("/chat/completions", "m") != "max_tokens" {
			t.Errorf("%s: got %+v, %s; want %+v", name, p, base, want)
		}
	}
}
