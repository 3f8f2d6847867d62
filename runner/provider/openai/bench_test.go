package openai

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// canned answers each request with the same completion.
type canned string

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, ContentLength: int64(len(c)), Request: r,
		Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"req_1"}, "Date": {"Mon, 05 Jan 2026 10:00:00 GMT"}},
		Body:   io.NopCloser(bytes.NewReader([]byte(c))),
	}, nil
}

// BenchmarkDo is what a call costs beside the network.
func BenchmarkDo(b *testing.B) {
	const answer = `{"id":"chatcmpl-9f3c5a7d1e2b4c60","object":"chat.completion","created":1735689600,"model":"gpt-4o-mini","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"It is about an order and asks for help with a refund","refusal":null,"annotations":[]},` +
		`"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":14,"total_tokens":34,` +
		`"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`
	c := dial(b, "openai", "http://127.0.0.1/v1", provider.TransportOptions{RoundTripper: canned(answer)})
	r := provider.Request{API: "/chat/completions", Body: []byte(`{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Say hello."}]}`), Key: "llmbatch-1"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Do(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}
