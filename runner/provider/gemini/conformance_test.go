package gemini

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/providertest"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

const canary = "AIza-CANARY-7f3a9c0d5e"

const (
	success = `{"candidates":[{"content":{"parts":[{"text":"hello there"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2},"modelVersion":"m"}`
	stream  = `data: {"candidates":[{"content":{"parts":[{"text":"hel"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":3},"modelVersion":"m"}

data: {"candidates":[{"content":{"parts":[{"text":"lo "}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":3},"modelVersion":"m"}

data: {"candidates":[{"content":{"parts":[{"text":"there"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2},"modelVersion":"m"}

`
	streamed = `{"candidates":[{"content":{"parts":[{"text":"hello there"}],"role":"model"},"finishReason":"STOP","index":0}],"modelVersion":"m","usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}`
)

// dial makes a client with the canary for a key.
func dial(t testing.TB, base string, o provider.TransportOptions) *Client {
	t.Helper()
	opt := providertest.Options(t, "google", canary, base, o)
	if opt.Profile.Name != "gemini" {
		t.Fatal("google is no name of gemini's profile")
	}
	c, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Harness{
		New: func(t testing.TB, _, base string, o provider.TransportOptions) provider.Client {
			return dial(t, base, o)
		},
		API: apiChat, Success: success, Stream: stream, Streamed: streamed,
		Folders: []string{"gemini"},
	})
}

func TestRecordedErrors(t *testing.T) {
	n := 0
	for _, r := range providertest.Recordings(t, "real_error_responses.jsonl") {
		if !strings.HasSuffix(r.Provider, "googleapis.com") {
			continue
		}
		n++
		_, err := dial(t, r.Serve(t).URL, provider.TransportOptions{}).Do(t.Context(), provider.Request{API: apiChat, Model: "m", Body: []byte(`{"messages":[{"role":"user","content":"x"}]}`)})
		var e *provider.Error
		if !errors.As(err, &e) || e.Kind != provider.KindInvalid || !e.Sent {
			t.Errorf("%s: got %v, want invalid", r.Body, err)
		}
	}
	if n != 1 {
		t.Errorf("got %d recordings, want 1", n)
	}
}

// TestDayEndsAtPacificMidnight across the change of clocks.
func TestDayEndsAtPacificMidnight(t *testing.T) {
	for now, want := range map[string]string{
		"2026-11-20T10:00:00Z": "2026-11-21T08:00:00Z",
		"2026-11-20T07:59:59Z": "2026-11-20T08:00:00Z",
		"2026-07-20T10:00:00Z": "2026-07-21T07:00:00Z",
		"2026-03-08T09:00:00Z": "2026-03-09T07:00:00Z",
	} {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := pacificMidnight(at).UTC().Format(time.RFC3339); got != want {
			t.Errorf("%s: got %s, want %s", now, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(success, 200, apiChat)
	for _, g := range providertest.LoadGolden(f, "gemini") {
		f.Add(g.Body, 429, apiChat)
		f.Add(g.Body, 200, apiChat)
		f.Add(g.Body, 200, apiEmbeddings)
	}
	c := dial(f, "http://127.0.0.1:1", provider.TransportOptions{})
	f.Fuzz(func(t *testing.T, body string, status int, api string) {
		resp, e := c.read(api, call{model: "m"}, &provider.Reply{StatusCode: status, Header: http.Header{}, Body: []byte(body)})
		providertest.Sane(t, body, resp, e, canary)
	})
}

// FuzzStream: whatever a stream holds, it is put together to an answer that
// can be judged, or it is not whole.
func FuzzStream(f *testing.F) {
	f.Add(stream)
	for _, g := range providertest.LoadGolden(f, "gemini") {
		if g.Want["stream"] != "" {
			f.Add(g.Body)
		}
	}
	c := dial(f, "http://127.0.0.1:1", provider.TransportOptions{})
	f.Fuzz(func(t *testing.T, body string) {
		whole, err := wire.Collect(strings.NewReader(body), &contentStream{})
		if err != nil {
			return
		}
		resp, e := c.read(apiChat, call{model: "m"}, &provider.Reply{StatusCode: 200, Header: http.Header{}, Body: whole})
		providertest.Sane(t, body, resp, e, canary)
	})
}
