package fake

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFaults(t *testing.T) {
	played := map[string]bool{}
	for _, c := range []struct {
		marker string
		status int
		words  string // in the body
		billed bool
		err    error
	}{
		{"429", 429, "rate_limit_exceeded", false, nil},
		{"500", 500, "server_error", false, nil},
		{"503", 503, "server_is_overloaded", false, nil},
		{"529", 529, "server_is_overloaded", false, nil},
		{"413", 413, "Request Entity Too Large", false, nil},
		{"retryafter=12", 429, "rate_limit_exceeded", false, nil},
		{"slowdown", 429, "slow_down", false, nil},
		{"daily", 429, "requests per day (RPD)", false, nil},
		{"quota", 429, "insufficient_quota", false, nil},
		{"auth", 401, "invalid_api_key", false, nil},
		{"model", 404, "model_not_found", false, nil},
		{"context", 400, "context_length_exceeded", false, nil},
		{"policy", 400, "content_policy_violation", false, nil},
		{"invalid", 400, "invalid_request_error", false, nil},
		{"unsupported", 400, "unsupported_parameter", false, nil},
		{"drop", 0, "", false, io.EOF},
		{"lost", 0, "", true, io.EOF},
		{"truncated", 200, `"choices"`, true, io.ErrUnexpectedEOF},
		{"short", 200, `"choices"`, true, nil},
		{"html", 200, "<!DOCTYPE html>", false, nil},
		{"htmlerror", 502, "<html>", false, nil},
		{"empty", 200, `"choices":[]`, true, nil},
		{"error200", 200, `"error":{`, false, nil},
		{"choice_error", 200, `"finish_reason":"error","error":{"code":502`, true, nil},
		{"length", 200, `"finish_reason":"length"`, true, nil},
		{"filter", 200, `"finish_reason":"content_filter"`, true, nil},
		{"refusal", 200, `"refusal":"I'm sorry`, true, nil},
		{"redirect", 307, "", false, nil},
		{"bomb", 200, `"content":"    `, true, nil},
		{"slow=3s", 200, `"finish_reason":"stop"`, true, nil},
		{"slow=soon", 400, "invalid duration", false, nil},
		{"nonsense", 400, "unknown fault", false, nil},
		{"retryafter", 400, "unknown fault", false, nil},
		{"overloaded", 503, "server_is_overloaded", false, nil},
		{"daily=azure", 429, "Please retry after 86400 seconds", false, nil},
		{"quota=credit_balance", 400, "credit balance is too low", false, nil},
		{"quota=nonsense", 400, "unknown fault", false, nil},
		{"daily=nonsense", 400, "unknown fault", false, nil},
		{"tool", 200, `"tool_calls":[{"function":{"arguments":"{\"id\":7}","name":"lookup"}`, true, nil},
		{"blank", 200, `"content":""`, true, nil},
		{"hint=12", 200, `"finish_reason":"stop"`, true, nil},
		{"wrapped", 503, `[{"error":{`, false, nil},
		{"region", 403, "unsupported_country", false, nil},
		{"moderation", 403, "flagged_input", false, nil},
		{"finish=pause", 200, `"finish_reason":"pause"`, true, nil},
		{"keepalive=3s", 200, "\n\n{", true, nil},
		{"stream_cut=2", 200, `"finish_reason":"stop"`, true, nil},
		{"stream_lost=2", 200, `"finish_reason":"stop"`, true, nil},
		{"stream_stall=2", 200, `"finish_reason":"stop"`, true, nil},
		{"stream_end", 200, `"finish_reason":"stop"`, true, nil},
		{"stream_error", 200, `"finish_reason":"stop"`, true, nil},
		{"stream_undone", 200, `"finish_reason":"stop"`, true, nil},
		{"stream_open", 200, `"finish_reason":"stop"`, true, nil},
		{"hang", 0, "", false, context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(Config{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			g := send(ctx, &Transport{Server: s}, "http://fake", "/v1/chat/completions", chat("say [[fault:"+c.marker+"]]"), "")
			if g.status != c.status || !strings.Contains(g.body, c.words) || !errors.Is(g.err, c.err) {
				t.Errorf("%s: got %d, %v, %.300s", c.marker, g.status, g.err, g.body)
			}
			st := s.Stats()
			if st.Billed == 1 != c.billed || st.InFlight != 0 || st.Asked != 1 {
				t.Errorf("%s: got %+v", c.marker, st)
			}
			for name := range st.Faults {
				played[name] = true
			}
			if c.err == nil && g.header.Get("Content-Type") == "application/json" && c.marker != "short" && c.marker != "redirect" && c.marker != "bomb" && !json.Valid([]byte(g.body)) {
				t.Errorf("%s: got a body that is no JSON: %.300s", c.marker, g.body)
			}
		})
	}
	for _, f := range faults {
		if !played[f.name] {
			t.Errorf("fault %s has no case", f.name)
		}
	}
}

// TestFaultHints looks at headers that faults come with.
func TestFaultHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // starts at a UTC midnight
		for _, c := range []struct {
			marker, header, want string
			style                Style
		}{
			{"retryafter=12", "Retry-After", "12", NoHeaders},
			{"429", "Retry-After", "1", OpenAI},
			{"429", "Retry-After", "", NoHeaders},
			{"slowdown", "Retry-After", "1", RetryAfter},
			{"quota", "Retry-After", "", OpenAI},
			{"daily", "Retry-After", "86400", OpenAI},
			{"daily", "X-Ratelimit-Reset", "946771200000", OpenRouter},
			{"hint=12", "Retry-After", "12", OpenRouter},
			{"redirect", "Location", "/redirected/chat/completions", OpenAI},
		} {
			s := New(Config{Style: c.style})
			g := post(t, &Transport{Server: s}, "/v1/chat/completions", chat("[[fault:"+c.marker+"]]"), "")
			if got := g.header.Get(c.header); got != c.want {
				t.Errorf("%s: %s: got %q, want %q", c.marker, c.header, got, c.want)
			}
		}
	})
}

// TestFaultScript plays several markers in their order, counted by the body whatever its key.
func TestFaultScript(t *testing.T) {
	s := New(Config{})
	rt := &Transport{Server: s}
	body := chat("[[fault:429x1]] and [[fault: 500 x2]] then [[fault:lostx1]]")
	var got []int
	for i := range 6 {
		got = append(got, post(t, rt, "/v1/chat/completions", body, string(rune('a'+i))).status)
	}
	want := []int{429, 500, 500, 0, 200, 200}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	if other := post(t, rt, "/v1/chat/completions", chat("[[fault:429x1]]"), ""); other.status != 429 {
		t.Errorf("another body: got %d, want 429", other.status)
	}
	st := s.Stats()
	if st.Rekeyed != 1 || st.Twice.Operations != 0 || st.TwiceBodies.Operations != 1 || st.TwiceBodies.Extra != 2 {
		t.Errorf("keys changed under one body: got %+v", st)
	}
}

func TestBomb(t *testing.T) {
	packed := New(Config{}).bomb()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, z)
	if err != nil || len(packed) > 1<<17 || n < 64<<20 {
		t.Errorf("got %d bytes that unpack to %d, %v", len(packed), n, err)
	}
}

func TestFaultDocs(t *testing.T) {
	docs := Faults()
	if len(docs) != len(faults)+len(spends)+2 {
		t.Errorf("got %d, want a line for each fault, one for each form of quota and two on the notation", len(docs))
	}
	for _, d := range docs {
		if !strings.HasPrefix(d.Marker, "[[fault:") || d.Doc == "" {
			t.Errorf("got %+v", d)
		}
	}
}

// TestRates draws errors and losses by seed: the shares are met, and a retry is drawn anew.
func TestRates(t *testing.T) {
	s := New(Config{ErrorRate: 0.2, LostRate: 0.1, Seed: 3})
	rt := &Transport{Server: s}
	again := 0
	for i := range 2000 {
		body := chat(hexID(uint64(i)))
		if first := post(t, rt, "/v1/chat/completions", body, ""); first.status >= 500 {
			if second := post(t, rt, "/v1/chat/completions", body, ""); second.status >= 500 {
				again++
			}
		}
	}
	st := s.Stats()
	share := func(n int64) float64 { return float64(n) / float64(st.Admitted) }
	if e := share(st.Faults["error"]); e < 0.18 || e > 0.22 {
		t.Errorf("got a share of %.3f errors, want 0.2", e)
	}
	if l := share(st.Lost); l < 0.06 || l > 0.1 { // of the four fifths that are no error
		t.Errorf("got a share of %.3f lost, want 0.08", l)
	}
	if again == 0 || again > 130 {
		t.Errorf("got %d retries that failed again of about 400, want about 80", again)
	}
	if st.Statuses["500"] == 0 || st.Statuses["503"] == 0 || st.Statuses["529"] == 0 {
		t.Errorf("got %v", st.Statuses)
	}
}

func TestAbandonedIsBilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Latency: 10 * time.Second, HonourKeys: true})
		rt := &Transport{Server: s}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if g := send(ctx, rt, "http://fake", "/v1/chat/completions", chat("x"), "k"); !errors.Is(g.err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", g.err)
		}
		if g := post(t, rt, "/v1/chat/completions", chat("x"), "k"); g.status != 200 || g.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("got %+v", g)
		}
		if st := s.Stats(); st.Abandoned != 1 || st.Billed != 1 || st.Duplicates != 1 || st.Answered != 1 || st.Statuses["aborted"] != 1 {
			t.Errorf("got %+v", st)
		}
	})
}

func TestHeaderTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &Transport{Server: New(Config{}), HeaderTimeout: 5 * time.Second}
		start := time.Now()
		g := post(t, rt, "/v1/chat/completions", chat("[[fault:hang]]"), "")
		var timeout interface{ Timeout() bool }
		if !errors.As(g.err, &timeout) || !timeout.Timeout() || time.Since(start) != 5*time.Second {
			t.Errorf("got %v after %v", g.err, time.Since(start))
		}
	})
}

func TestRedirectFollowed(t *testing.T) {
	s := New(Config{})
	c := &http.Client{Transport: &Transport{Server: s}}
	res, err := c.Post("http://fake/v1/chat/completions", "application/json", strings.NewReader(chat("[[fault:redirectx1]]")))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if st := s.Stats(); res.StatusCode != 200 || st.Redirects != 1 || st.Asked != 2 {
		t.Errorf("got %d, %+v", res.StatusCode, st)
	}
}
