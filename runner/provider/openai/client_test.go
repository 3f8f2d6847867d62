package openai

import (
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/providertest"
)

func TestTarget(t *testing.T) {
	for _, tt := range []struct{ profile, base, api, model, want string }{
		{"openai", "http://localhost/v1", "/chat/completions", "m", "http://localhost/v1/chat/completions"},
		{"openai", "http://localhost/v1/", "/embeddings", "m", "http://localhost/v1/embeddings"},
		{"openai", "http://localhost/a%2Fb", "/responses", "m", "http://localhost/a%2Fb/responses"},
		{"deepseek", "", "/chat/completions", "m", "https://api.deepseek.com/chat/completions"},
		{"azure", "https://r.openai.azure.com", "/chat/completions", "gpt 4/x?y", "https://r.openai.azure.com/openai/deployments/gpt%204%2Fx%3Fy/chat/completions?api-version=2024-10-21"},
		{"azure", "https://r.openai.azure.com/", "/responses", "m", "https://r.openai.azure.com/openai/responses?api-version=2024-10-21"},
		{"azure", "https://r.openai.azure.com/openai/v1", "/chat/completions", "m", "https://r.openai.azure.com/openai/v1/chat/completions"},
		{"azure", "https://r.openai.azure.com/openai/deployments/d", "/embeddings", "m", "https://r.openai.azure.com/openai/deployments/d/embeddings?api-version=2024-10-21"},
		{"openai", "", "/../../x", "m", ""},
		{"openai", "", "//127.0.0.2/x", "m", ""},
		{"openai", "", "/messages", "m", ""},
	} {
		u, err := dial(t, tt.profile, tt.base, provider.TransportOptions{}).target(tt.api, tt.model)
		if tt.want == "" {
			if err == nil {
				t.Errorf("%s: got %s, want it refused", tt.api, u)
			}
		} else if err != nil || u.String() != tt.want {
			t.Errorf("%s %s: got %v, %v; want %s", tt.profile, tt.api, u, err, tt.want)
		}
	}
}

func TestHeaders(t *testing.T) {
	key, _ := provider.NewSecret(canary)
	profile := func(name string) provider.Profile { p, _ := provider.Lookup(name); return p }
	for _, tt := range []struct {
		name    string
		o       provider.Options
		ok      bool
		want    string // of the auth header
		header  string
		carries string
	}{
		{"bearer", provider.Options{Profile: profile("openai"), Key: key}, true, "Bearer " + canary, "Authorization", ""},
		{"bare", provider.Options{Profile: profile("azure"), Key: key, BaseURL: "https://r"}, true, canary, "Api-Key", ""},
		{"user's own", provider.Options{Profile: profile("openai"), Key: key, Headers: http.Header{"X-Title": {"t"}}}, true, "t", "X-Title", ""},
		{"user's authorization, no key", provider.Options{Profile: profile("openai"), Headers: http.Header{"Authorization": {"Basic x"}}}, true, "Basic x", "Authorization", ""},
		{"both", provider.Options{Profile: profile("openai"), Key: key, Headers: http.Header{"authorization": {"x"}}}, false, "", "", ""},
		{"ours", provider.Options{Profile: profile("openai"), Key: key, Headers: http.Header{"idempotency-key": {"x"}}}, false, "", "", ""},
		{"no key", provider.Options{Profile: profile("openai")}, false, "", "", ""},
		{"no key needed", provider.Options{Profile: profile("vllm")}, true, "", "Authorization", ""},
		{"no base URL", provider.Options{Profile: profile("openai-compatible")}, false, "", "", ""},
		{"plain HTTP", provider.Options{Profile: profile("openai-compatible"), BaseURL: "http://10.0.0.1"}, false, "", "", ""},
		{"a query", provider.Options{Profile: profile("openai"), Key: key, BaseURL: "https://r/v1?key=x"}, false, "", "", ""},
		{"a name that none may have", provider.Options{Profile: profile("openai"), Key: key, Headers: http.Header{"X Y": {"a"}}}, false, "", "", ""},
		{"a line break", provider.Options{Profile: profile("openai"), Key: key, Headers: http.Header{"X-Y": {"a\r\nb"}}}, false, "", "", ""},
		{"plain HTTP allowed", provider.Options{Profile: profile("openai-compatible"), BaseURL: "http://10.0.0.1", AllowPlain: true}, true, "", "Authorization", ""},
	} {
		c, err := New(tt.o)
		if (err == nil) != tt.ok {
			t.Errorf("%s: got %v, want ok %t", tt.name, err, tt.ok)
			continue
		}
		if err == nil && c.Header(tt.header) != tt.want {
			t.Errorf("%s: got %s %q, want %q", tt.name, tt.header, c.Header(tt.header), tt.want)
		}
	}
}

// TestWire compares what leaves with what was asked for.
func TestWire(t *testing.T) {
	var seen providertest.Seen
	s := providertest.Serve(t, func(c net.Conn, r providertest.Seen) bool {
		seen = r
		providertest.Write(c, "HTTP/1.0 200 OK", success)
		return false
	})
	body := `{ "model":"m", "temperature":1.0, "n":9007199254740993, "x":"\ud835 <&>" }`
	c := dial(t, "openai", s.URL+"/v1", provider.TransportOptions{})
	if _, err := c.Do(t.Context(), provider.Request{API: "/chat/completions", Body: []byte(body), Key: "key-1"}); err != nil {
		t.Fatal(err)
	}
	if seen.Body != body || seen.Path != "/v1/chat/completions" || seen.Header.Get("Idempotency-Key") != "key-1" || seen.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %+v, want the body byte for byte, path, key and type", seen)
	}
}

func TestStreamIsRefusedUnsent(t *testing.T) {
	for body, refused := range map[string]bool{
		`{"stream":true}`: true, `{"stream": false}`: false, `{"messages":[{"stream":true}]}`: false, `{"background":true}`: true, `not json "stream"`: false,
	} {
		s := providertest.Serve(t, func(c net.Conn, _ providertest.Seen) bool {
			providertest.Write(c, "HTTP/1.0 200 OK", success)
			return false
		})
		_, err := dial(t, "openai", s.URL, provider.TransportOptions{}).Do(t.Context(), provider.Request{API: "/chat/completions", Body: []byte(body)})
		var e *provider.Error
		if got := errors.As(err, &e) && e.Kind == provider.KindInvalid && !e.Sent && s.Requests() == 0; got != refused {
			t.Errorf("%s: got %v and %d requests, want refused %t", body, err, s.Requests(), refused)
		}
	}
}

// TestTake: what matters is taken out whatever stands around it, and a field of
// another type is not there.
func TestTake(t *testing.T) {
	var a answer
	a.take([]byte(` { "id" : "a\u00e9\n" , "model":null, "object":7, "x":{"id":"no"}, "error" : null,
		"incomplete_details":{"reason":"content_filter"}, "usage":{"input_tokens":9,"output_tokens":4,"output_tokens_details":{"reasoning_tokens":3}},
		"choices":[{"message":[],"finish_reason":"stop"},{"message":{"content":"hi","refusal":null},"finish_reason":"length"}]}`))
	if a.ID != "aé\n" || a.Model != "" || a.Object != "7" || a.Incomplete != "content_filter" {
		t.Errorf("got %+v", a)
	}
	if got, want := a.Usage.public(), (provider.Usage{Input: 9, Output: 4, Reasoning: 3, Known: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if v := a.judge("/chat/completions", nil); v.kind != provider.KindNone || v.finish != provider.FinishLength {
		t.Errorf("got %+v, want the second choice to speak for the answer", v)
	}
	for _, body := range []string{`{}`, `{"choices":{"a":1}}`, `{"choices":"x"}`, `{"choices":[]}`, `{"choices":[7,null,"x",[]]}`, `{"choices":null}`, `{"usage":[]}`} {
		var a answer
		a.take([]byte(body))
		if v := a.judge("/chat/completions", nil); v.kind != provider.KindEmptyAnswer {
			t.Errorf("%s: got %+v, want an empty answer", body, v)
		}
	}
}

// TestImpossibleUsage: numbers that no call can have used are no usage at all.
func TestImpossibleUsage(t *testing.T) {
	for _, u := range []usage{{prompt: -5, completion: 3}, {prompt: 5, completion: 2_000_000_000_000}, {total: -1}} {
		if got := u.public(); got != (provider.Usage{}) {
			t.Errorf("%+v: got %+v, want none", u, got)
		}
	}
	for body, known := range map[string]bool{
		`{"prompt_tokens":1e30,"completion_tokens":2}`: false, `{"prompt_tokens":99999999999999999999}`: false,
		`{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":"none"}}`: true, `{"prompt_tokens":7,"completion_tokens":null}`: true,
		`{"prompt_tokens":7.5}`: false, `{"prompt_tokens":[7]}`: false, `{"prompt_tokens":"7"}`: false, `null`: false, `[]`: false, `7`: false,
	} {
		got := takeUsage([]byte(body))
		if got := got.public(); got.Known != known {
			t.Errorf("%s: got %+v; want known %t", body, got, known)
		}
	}
	u := usage{prompt: 7, completion: 3, cached: 9}
	if got, want := u.public(), (provider.Usage{Input: 7, Output: 3, Cached: 7, Known: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
