package openai

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

func newClient(t *testing.T, profile, base string) *Client {
	t.Helper()
	p, ok := provider.Lookup(profile)
	if !ok {
		t.Fatalf("no profile %q", profile)
	}
	key, err := provider.NewSecret("sk-CANARY-7f3a9c0d5e")
	if err != nil {
		t.Fatal(err)
	}
	tr := provider.NewTransport(provider.TransportOptions{})
	t.Cleanup(tr.Close)
	c, err := New(Options{Profile: p, BaseURL: base, Key: key, Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChat(t *testing.T) {
	var got *http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("X-Request-Id", "req_1")
		_, _ = w.Write([]byte("\n\n" + `{"id":"c1","model":"m-1","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`))
	}))
	defer srv.Close()
	c := newClient(t, "openai", srv.URL+"/v1/")
	sent := 0
	r, err := c.Do(context.Background(), provider.Request{API: "/chat/completions", Body: []byte(`{}`), Key: "k1", OnSent: func(time.Time) { sent++ }})
	if err != nil {
		t.Fatal(err)
	}
	if got.URL.Path != "/v1/chat/completions" || got.Header.Get("Authorization") != "Bearer sk-CANARY-7f3a9c0d5e" || got.Header.Get("Idempotency-Key") != "k1" {
		t.Errorf("request: path %q, headers %v", got.URL.Path, got.Header)
	}
	want := provider.Usage{Input: 9, Output: 2, Cached: 4, Known: true}
	if r.Usage != want || r.Finish != "stop" || r.ID != "c1" || r.Model != "m-1" || r.RequestID != "req_1" || sent != 1 {
		t.Errorf("got %+v, sent %d times", r, sent)
	}
}

func TestRefusal(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(429)
		_, _ = w.Write([]byte(`{"error":{"message":"Rate limit reached on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000. Please try again in 9.8s.","type":"tokens","code":"rate_limit_exceeded"}}`))
	}))
	defer srv.Close()
	_, err := newClient(t, "openai", srv.URL).Do(context.Background(), provider.Request{API: "/chat/completions", Body: []byte(`{}`)})
	var e *provider.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a provider error", err)
	}
	if e.Kind != provider.KindRateLimited || e.RetryAfter != 3*time.Second || e.LimitType != "tokens" || e.Rate.Tokens.Limit != 10000 || !e.Sent || e.Unknown() {
		t.Errorf("got %+v", e)
	}
}
