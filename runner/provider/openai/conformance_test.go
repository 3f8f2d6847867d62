package openai

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/providertest"
)

const canary = "sk-CANARY-7f3a9c0d5e"

const success = `{"id":"c1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello there"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`

// dial makes a client of a profile with the canary for a key.
func dial(t testing.TB, profile, base string, o provider.TransportOptions) *Client {
	t.Helper()
	if profile == "" {
		profile = "openai"
	}
	p, ok := provider.Lookup(profile)
	if !ok {
		t.Fatalf("no profile %q", profile)
	}
	key, err := provider.NewSecret(canary)
	if err != nil {
		t.Fatal(err)
	}
	tr := provider.NewTransport(o)
	t.Cleanup(tr.Close)
	c, err := New(Options{Profile: p, BaseURL: base, Key: key, Transport: tr})
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
		API: "/chat/completions", Success: success,
		Folders: []string{"openai", "azure", "openrouter", "groq", "mistral", "together", "deepseek", "vllm", "ollama", "llamacpp", "openai-compatible"},
	})
}

// shared opens a file of recorded answers kept beside the repository.
func shared(t *testing.T, name string) *bufio.Scanner {
	t.Helper()
	f, err := os.Open(filepath.Join(providertest.ModuleRoot(t), "..", "shared", "data", name))
	if err != nil {
		t.Skipf("no recordings here: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	return s
}

type recording struct {
	Provider string            `json:"provider"`
	Status   int               `json:"status"`
	Headers  map[string]string `json:"headers"`
	Body     json.RawMessage   `json:"body"`
}

// serve replays a recording and returns what the client makes of it.
func (r recording) serve(t *testing.T, profile string) (*provider.Response, error) {
	t.Helper()
	s := providertest.Serve(t, func(c net.Conn, _ providertest.Seen) bool {
		head := fmt.Sprintf("HTTP/1.1 %d X\nContent-Length: %d", r.Status, len(r.Body))
		for k, v := range r.Headers {
			head += "\n" + k + ": " + v
		}
		providertest.Write(c, head, string(r.Body))
		return false
	})
	return dial(t, profile, s.URL, provider.TransportOptions{}).Do(t.Context(), provider.Request{API: "/chat/completions", Body: []byte("{}")})
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
	for lines := shared(t, "real_error_responses.jsonl"); lines.Scan(); {
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		profile, ok := profiles[r.Provider]
		if !ok {
			continue
		}
		n++
		_, err := r.serve(t, profile)
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
	for lines := shared(t, "real_ratelimit_headers.jsonl"); lines.Scan(); {
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		r.Status, r.Body = 200, json.RawMessage(success)
		got, err := r.serve(t, "openai")
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
		switch {
		case (resp == nil) == (e == nil):
			t.Fatalf("%q: got %v and %v, want one of them", body, resp, e)
		case resp != nil && !json.Valid(resp.Body):
			t.Errorf("%q: a success whose body is no JSON", body)
		case e != nil && (e.Kind == provider.KindNone || len(e.Message) > 2<<10 || strings.Contains(e.Message+e.Code, canary[:12]) || strings.ContainsAny(e.Message, "\x1b\n\r\u202e")):
			t.Errorf("%q: got %+v", body, e)
		}
	})
}
