package providertest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/anthropic"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/provider/gemini"
	"github.com/llmbatch/llmbatch/runner/provider/openai"
	"github.com/llmbatch/llmbatch/runner/provider/providertest"
)

// clients makes one client a wire format, all calling the mock.
func clients(t *testing.T, s *fake.Server) map[string]provider.Client {
	t.Helper()
	return clientsAt(t, "http://127.0.0.1", &fake.Transport{Server: s})
}

// clientsAt makes one client a wire format; without rt they call over the network.
func clientsAt(t *testing.T, base string, rt http.RoundTripper) map[string]provider.Client {
	t.Helper()
	o := func(name, path string) provider.Options {
		return providertest.Options(t, name, "CANARY-key-12345", base+path, provider.TransportOptions{RoundTripper: rt})
	}
	oc, err1 := openai.New(o("openai", "/v1"))
	ac, err2 := anthropic.New(o("anthropic", ""))
	gc, err3 := gemini.New(o("gemini", "/v1beta"))
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return map[string]provider.Client{"openai": oc, "anthropic": ac, "gemini": gc}
}

// completion is what all chat completions have in common.
type completion struct {
	Object  string
	Choices []struct {
		Message struct {
			Role, Content string
			Calls         []struct {
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Finish string `json:"finish_reason"`
	}
}

// TestOneShape asks all formats the same, streamed or not: whoever answers, the
// answer is a chat completion with the same text, finish and usage.
func TestOneShape(t *testing.T) {
	for _, tt := range []struct{ name, message, finish string }{
		{"text", "hello there, écho", provider.FinishStop},
		{"length", "[[fault:length]]", provider.FinishLength},
		{"tool", "[[fault:tool]]", provider.FinishToolCalls},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := fake.New(fake.Config{Latency: 2 * time.Second, Echo: true})
			var first string
			for name, c := range clients(t, s) {
				for _, stream := range []bool{false, true} {
					body := fmt.Sprintf(`{"model":"m","max_tokens":50,"tools":[{"type":"function","function":{"name":"find"}}],"messages":[{"role":"user","content":%q}]}`, tt.message)
					resp, err := c.Do(t.Context(), provider.Request{API: "/chat/completions", Model: "m", Body: []byte(body), Stream: stream})
					if err != nil {
						t.Errorf("%s, %s, streamed %t: %v", tt.name, name, stream, err)
						continue
					}
					var got completion
					if err := json.Unmarshal(resp.Body, &got); err != nil {
						t.Fatal(err)
					}
					if resp.Finish != tt.finish || got.Object != "chat.completion" || len(got.Choices) != 1 || (resp.Native == nil) != (name == "openai") {
						t.Errorf("%s, %s, streamed %t: got %s: %s", tt.name, name, stream, resp.Finish, resp.Body)
					}
					same := fmt.Sprintf("%+v %d", got.Choices, resp.Usage.Output)
					if first == "" {
						first = same
					}
					if same != first {
						t.Errorf("%s, %s, streamed %t: got %s, want %s", tt.name, name, stream, same, first)
					}
				}
			}
		})
	}
}

// TestFaultsByEachFormat: one fault gets one class, whoever says it.
func TestFaultsByEachFormat(t *testing.T) {
	for word, want := range map[string]provider.Kind{
		"429": provider.KindRateLimited, "500": provider.KindServer, "401": provider.KindAuth, "empty": provider.KindEmptyAnswer,
	} {
		synctest.Test(t, func(t *testing.T) {
			for name, c := range clients(t, fake.New(fake.Config{})) {
				for _, stream := range []bool{false, true} {
					body := `{"model":"m","messages":[{"role":"user","content":"[[fault:` + word + `]]"}]}`
					_, err := c.Do(t.Context(), provider.Request{API: "/chat/completions", Model: "m", Body: []byte(body), Stream: stream})
					var e *provider.Error
					if !errors.As(err, &e) || e.Kind != want && (word != "empty" || !stream || e.Kind != provider.KindTruncated) {
						t.Errorf("%s, %s, streamed %t: got %v, want %s", word, name, stream, err, want)
					}
				}
			}
		})
	}
}

func TestEmbeddingsByEachFormat(t *testing.T) {
	all := clients(t, fake.New(fake.Config{}))
	for _, name := range []string{"openai", "gemini"} {
		resp, err := all[name].Do(t.Context(), provider.Request{API: "/embeddings", Model: "m", Body: []byte(`{"model":"m","input":"hi"}`), Stream: true})
		var got struct {
			Object string
			Data   []struct{ Embedding []float64 }
		}
		if err != nil || json.Unmarshal(resp.Body, &got) != nil || got.Object != "list" || len(got.Data) != 1 || len(got.Data[0].Embedding) != 8 {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}
