package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/providertest"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

const canary = "sk-CANARY-7f3a9c0d5e"

const success = `{"id":"c1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello there"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`

const (
	stream = `data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}

data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"hello "},"finish_reason":null}],"usage":null}

data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"there"},"finish_reason":null}],"usage":null}

data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}

data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}

data: [DONE]

`
	streamed = `{"id":"c1","object":"chat.completion","model":"m","usage":{"prompt_tokens":3,"completion_tokens":2},"choices":[{"index":0,"message":{"role":"assistant","content":"hello there"},"finish_reason":"stop"}]}`
)

// dial makes a client of a profile with the canary for a key.
func dial(t testing.TB, profile, base string, o provider.TransportOptions) *Client {
	t.Helper()
	if profile == "" {
		profile = "openai"
	}
	c, err := New(providertest.Options(t, profile, canary, base, o))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Harness{
		New: func(t testing.TB, profile, base string, o provider.TransportOptions) provider.Client {
			return dial(t, profile, base, o)
		},
		API: "/chat/completions", Success: success, Stream: stream, Streamed: streamed,
		Folders: []string{"openai", "azure", "openrouter", "groq", "mistral", "together", "deepseek", "vllm", "ollama", "llamacpp", "openai-compatible"},
		Lookups: lookups(),
	})
}

// replay returns what the client makes of a recording.
func replay(t *testing.T, r providertest.Recording, profile string) (*provider.Response, error) {
	t.Helper()
	return dial(t, profile, r.Serve(t).URL, provider.TransportOptions{}).Do(t.Context(), provider.Request{API: "/chat/completions", Body: []byte("{}")})
}

// TestRecordedErrors: the class of each recorded answer of a compatible server,
// by a piece of its message.
func TestRecordedErrors(t *testing.T) {
	profiles := map[string]string{"openrouter.ai": "openrouter", "api.openai.com": "openai", "api.groq.com": "groq", "api.voyageai.com": "openai-compatible", "api.cohere.com": "openai-compatible"}
	wants := []struct {
		piece string
		kind  provider.Kind
	}{
		{"temporarily rate-limited upstream", provider.KindSharedPool},
		{"limited to 1 requests per minute", provider.KindRateLimited},
		{"does not exist or you do not have access", provider.KindModelNotFound},
		{"make sure the correct model ID", provider.KindModelNotFound},
		{"'max_tokens' is not supported with this model", provider.KindUnsupportedParam},
		{"Tool call validation failed", provider.KindToolCallMalformed},
		{"", provider.KindInvalid}, // the rest are plain 400s
	}
	n := 0
	for _, r := range providertest.Recordings(t, "real_error_responses.jsonl") {
		profile, ok := profiles[r.Provider]
		if !ok {
			continue
		}
		n++
		_, err := replay(t, r, profile)
		e, ok := err.(*provider.Error)
		if !ok {
			t.Errorf("%s: got %v, want a provider error", r.Body, err)
			continue
		}
		for _, w := range wants {
			if strings.Contains(e.Message, w.piece) {
				if e.Kind != w.kind {
					t.Errorf("%s: got %s, want %s", r.Body, e.Kind, w.kind)
				}
				break
			}
		}
		if r.Headers["x-ratelimit-reset"] != "" && !e.HasRetryAfter {
			t.Errorf("%s: the reset was not read", r.Body)
		}
	}
	if n < 15 {
		t.Errorf("got %d recordings of compatible servers, want 15 and more", n)
	}
}

// TestRecordedHeaders: limits of successes are learned, all of them a
// minute's; a retry-after on a success says nothing.
func TestRecordedHeaders(t *testing.T) {
	for _, r := range providertest.Recordings(t, "real_ratelimit_headers.jsonl") {
		r.Status, r.Body = 200, json.RawMessage(success)
		got, err := replay(t, r, "openai")
		if err != nil {
			t.Fatal(err)
		}
		for name, w := range map[string]provider.Window{"requests": got.Rate.Requests, "tokens": got.Rate.Tokens} {
			for field, n := range map[string]int64{"limit": w.Limit, "remaining": w.Remaining} {
				if want, said := r.Headers["x-ratelimit-"+field+"-"+name]; said && fmt.Sprint(n) != want {
					t.Errorf("%v: %s %s: got %d, want %s", r.Headers, name, field, n, want)
				}
			}
			if reset, said := r.Headers["x-ratelimit-reset-"+name]; said && w.ResetAfter.String() != reset {
				t.Errorf("%v: %s reset: got %v, want %s", r.Headers, name, w.ResetAfter, reset)
			}
		}
		if got.Rate.RequestsDay.Said() {
			t.Errorf("%v: taken for a day's limit", r.Headers)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(success, 200, "/chat/completions")
	for _, folder := range []string{"openai", "openrouter", "mistral"} {
		for _, g := range providertest.LoadGolden(f, folder) {
			f.Add(g.Body, 429, "/responses")
			f.Add(g.Body, 200, "/embeddings")
			f.Add(g.Body, 200, "/chat/completions")
		}
	}
	c := dial(f, "openrouter", "http://127.0.0.1:1", provider.TransportOptions{})
	f.Fuzz(func(t *testing.T, body string, status int, api string) {
		resp, e := c.read(api, &provider.Reply{StatusCode: status, Header: http.Header{}, Body: []byte(body)})
		providertest.Sane(t, body, resp, e, canary)
	})
}

// FuzzStream: whatever a stream holds, it is put together to an answer that
// can be judged, or it is not whole.
func FuzzStream(f *testing.F) {
	f.Add(stream, "/chat/completions")
	for _, g := range providertest.LoadGolden(f, "openai") {
		if g.Want["stream"] != "" {
			f.Add(g.Body, "/chat/completions")
			f.Add(g.Body, "/responses")
		}
	}
	c := dial(f, "openai", "http://127.0.0.1:1", provider.TransportOptions{})
	f.Fuzz(func(t *testing.T, body, api string) {
		a := c.assembler(provider.Request{API: api})
		if a == nil {
			return
		}
		whole, err := wire.Collect(strings.NewReader(body), a)
		if err != nil {
			return
		}
		resp, e := c.read(api, &provider.Reply{StatusCode: 200, Header: http.Header{}, Body: whole})
		providertest.Sane(t, body, resp, e, canary)
	})
}
