package anthropic

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/providertest"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

const canary = "sk-ant-CANARY-7f3a9c0d5e"

const (
	success = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello there"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}`
	stream  = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}

event: ping
data: {"type": "ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello there"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`
	streamed = `{"content":[{"text":"hello there","type":"text"}],"id":"msg_1","model":"m","role":"assistant","stop_reason":"end_turn","type":"message","usage":{"input_tokens":3,"output_tokens":2}}`
)

// dial makes a client with the canary for a key.
func dial(t testing.TB, base string, o provider.TransportOptions) *Client {
	t.Helper()
	c, err := New(providertest.Options(t, "anthropic", canary, base, o))
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
		API: apiMessages, Success: success, Stream: stream, Streamed: streamed,
		Folders: []string{"anthropic"},
	})
}

func TestRecordedErrors(t *testing.T) {
	wants := map[string]provider.Kind{
		"model: claude-sonet-4-5": provider.KindModelNotFound, "model: claude-does-not-exist": provider.KindModelNotFound,
		"does not support effort level": provider.KindInvalid,
	}
	n := 0
	for _, r := range providertest.Recordings(t, "real_error_responses.jsonl") {
		if r.Provider != "api.anthropic.com" {
			continue
		}
		n++
		_, err := dial(t, r.Serve(t).URL, provider.TransportOptions{}).Do(t.Context(), provider.Request{API: apiMessages, Body: []byte("{}")})
		var e *provider.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got %v, want a provider error", r.Body, err)
			continue
		}
		for piece, want := range wants {
			if strings.Contains(e.Message, piece) && e.Kind != want {
				t.Errorf("%s: got %s, want %s", r.Body, e.Kind, want)
			}
		}
		if e.Kind != provider.KindModelNotFound && e.Kind != provider.KindInvalid {
			t.Errorf("%s: got %s", r.Body, e.Kind)
		}
	}
	if n != 3 {
		t.Errorf("got %d recordings, want 3", n)
	}
}

// TestRecordedHeaders: what a success says of limits is learned, and its
// retry-after says nothing.
func TestRecordedHeaders(t *testing.T) {
	n := 0
	for _, r := range providertest.Recordings(t, "real_ratelimit_headers.jsonl") {
		if r.Provider != "api.anthropic.com" && r.Provider != "gateway" {
			continue
		}
		n++
		r.Status, r.Body = 200, []byte(success)
		got, err := dial(t, r.Serve(t).URL, provider.TransportOptions{}).Do(t.Context(), provider.Request{API: apiMessages, Body: []byte("{}")})
		if err != nil {
			t.Fatalf("%v: %v", r.Headers, err)
		}
		for name, w := range map[string]provider.Window{"requests": got.Rate.Requests, "input-tokens": got.Rate.Input, "output-tokens": got.Rate.Output} {
			for field, have := range map[string]int64{"limit": w.Limit, "remaining": w.Remaining} {
				want := int64(-1)
				if said, ok := r.Headers["anthropic-ratelimit-"+name+"-"+field]; ok {
					want, _ = strconv.ParseInt(said, 10, 64)
				}
				if have != want {
					t.Errorf("%v: %s %s: got %d, want %d", r.Headers, name, field, have, want)
				}
			}
		}
	}
	if n == 0 {
		t.Error("got no recordings")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(success, 200, true)
	for _, g := range providertest.LoadGolden(f, "anthropic") {
		f.Add(g.Body, 429, false)
		f.Add(g.Body, 200, true)
	}
	c := dial(f, "http://127.0.0.1:1", provider.TransportOptions{})
	f.Fuzz(func(t *testing.T, body string, status int, translated bool) {
		api := apiMessages
		if translated {
			api = apiChat
		}
		resp, e := c.read(api, &provider.Reply{StatusCode: status, Header: http.Header{}, Body: []byte(body)})
		providertest.Sane(t, body, resp, e, canary)
	})
}

// FuzzStream: whatever a stream holds, it is put together to an answer that
// can be judged, or it is not whole.
func FuzzStream(f *testing.F) {
	f.Add(stream)
	for _, g := range providertest.LoadGolden(f, "anthropic") {
		if g.Want["stream"] != "" {
			f.Add(g.Body)
		}
	}
	c := dial(f, "http://127.0.0.1:1", provider.TransportOptions{})
	f.Fuzz(func(t *testing.T, body string) {
		whole, err := wire.Collect(strings.NewReader(body), &messageStream{})
		if err != nil {
			return
		}
		resp, e := c.read(apiMessages, &provider.Reply{StatusCode: 200, Header: http.Header{}, Body: whole})
		providertest.Sane(t, body, resp, e, canary)
	})
}
