package openai

import (
	"net"
	"strings"
	"testing"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/providertest"
)

const okHead = "HTTP/1.1 200 OK\nContent-Type: application/json\nConnection: close\n\n"

// lookups are those of the Responses API and of OpenRouter's generations.
func lookups() (all []providertest.Lookup) {
	const whole = `{"id":"id/1","object":"response","status":"completed","model":"m","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":3,"output_tokens":2}}`
	add := func(name, answer string, want provider.Fate, kind provider.Kind) {
		l := providertest.Lookup{Name: name, API: "/responses", Want: want, Kind: kind, Failed: name == "failed", Body: strings.TrimPrefix(answer, okHead)}
		if answer != "none" {
			l.Answers = map[string]string{"/responses/id%2F1": answer}
		}
		all = append(all, l)
	}
	add("whole", okHead+whole, provider.FateAnswered, provider.KindNone)
	add("cut at its cap", okHead+strings.Replace(whole, "completed", "incomplete", 1), provider.FateAnswered, provider.KindNone)
	add("at work", okHead+strings.Replace(whole, "completed", "in_progress", 1), provider.FateRunning, provider.KindNone)
	add("queued", okHead+strings.Replace(whole, "completed", "queued", 1), provider.FateRunning, provider.KindNone)
	add("cancelled", okHead+strings.Replace(whole, "completed", "cancelled", 1), provider.FateEnded, provider.KindNone)
	add("failed", okHead+strings.Replace(whole, "completed", "failed", 1), provider.FateEnded, provider.KindNone)
	add("empty", okHead+`{"id":"id/1","status":"completed","output":[]}`, provider.FateEnded, provider.KindNone)
	add("another's", okHead+strings.Replace(whole, "id/1", "id/2", 1), provider.FateGone, provider.KindNone)
	add("nobody's", okHead+strings.Replace(whole, `"id":"id/1",`, "", 1), provider.FateGone, provider.KindNone)
	add("not stored", "none", provider.FateGone, provider.KindNone)
	add("another page", "HTTP/1.1 200 OK\nContent-Type: text/html\nConnection: close\n\n<html>It works!</html>", provider.FateGone, provider.KindNone)
	add("no response", okHead+`{"object":"list"}`, provider.FateGone, provider.KindNone)
	add("server error", "HTTP/1.1 500 Error\nContent-Length: 2\n\n{}", provider.FateGone, provider.KindServer)
	add("refused", "HTTP/1.1 429 Slow\nContent-Length: 2\n\n{}", provider.FateGone, provider.KindRateLimited)
	add("reset", "", provider.FateGone, provider.KindBroken)

	figures := func(more string) string {
		return okHead + `{"data":{"id":"id/1","model":"m",` + more + `,"native_tokens_prompt":3,"native_tokens_completion":2,"native_tokens_reasoning":null}}`
	}
	text := okHead + `{"data":{"input":{"messages":[]},"output":{"completion":"hi","reasoning":null}}}`
	generation := func(name, figures, text string, want provider.Fate) {
		l := providertest.Lookup{
			Name: "generation " + name, Profile: "openrouter", API: "/chat/completions", Want: want, Answers: map[string]string{"/generation?id=id%2F1": figures},
			Body: `{"choices":[{"finish_reason":"stop","index":0,"message":{"content":"hi","role":"assistant"}}],"id":"id/1","model":"m","object":"chat.completion",` +
				`"usage":{"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":0},"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"total_tokens":5}}`,
		}
		if text != "" {
			l.Answers["/generation/content?id=id%2F1"] = text
		}
		all = append(all, l)
	}
	generation("with its text", figures(`"cancelled":false,"finish_reason":"stop"`), text, provider.FateAnswered)
	generation("without", figures(`"cancelled":false,"finish_reason":"stop"`), "", provider.FateGone)
	generation("of another call", strings.Replace(figures(`"cancelled":false,"finish_reason":"stop"`), "id/1", "id/2", 1), text, provider.FateGone)
	generation("cancelled", figures(`"cancelled":true,"finish_reason":null`), text, provider.FateEnded)
	generation("of a tool call", figures(`"cancelled":false,"finish_reason":"tool_calls"`), text, provider.FateGone)
	return all
}

// Of a stream of the Responses API that is cut behind its first event, and of a
// body that is cut behind its id, the id is told; a chat completion has none
// that could be looked up.
func TestAnswerID(t *testing.T) {
	const events = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\"}}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n"
	const sse = "HTTP/1.1 200 OK\nContent-Type: text/event-stream\nTransfer-Encoding: chunked"
	for _, tt := range []struct {
		name, profile, api, body, head, answer, want string
		stream                                       bool
	}{
		{name: "stream", api: "/responses", stream: true, head: sse, answer: "f0\r\n" + events, want: "resp_1"},
		{name: "stream, not stored", api: "/responses", body: `{"model":"m","store":false}`, stream: true, head: sse, answer: "f0\r\n" + events},
		{name: "chat stream", api: "/chat/completions", stream: true, head: sse, answer: "fff\r\n" + stream[:200]},
		{name: "body", api: "/responses", head: "HTTP/1.1 200 OK\nContent-Type: application/json\nContent-Length: 999", answer: `{"object":"response","id":"resp_1","output":[{"ty`, want: "resp_1"},
		{name: "short body", api: "/responses", head: "HTTP/1.1 200 OK\nContent-Type: application/json\nContent-Length: 21", answer: `{"id":"resp_1","outp[`[:21], want: "resp_1"},
		{name: "cut in the id", api: "/responses", head: "HTTP/1.1 200 OK\nContent-Type: application/json\nContent-Length: 999", answer: `{"id":"resp_`},
		{name: "generation", profile: "openrouter", api: "/chat/completions", head: "HTTP/1.1 200 OK\nContent-Type: application/json\nX-Generation-Id: gen-1\nContent-Length: 999", answer: `{"id":`, want: "gen-1"},
		{name: "generation's stream", profile: "openrouter", api: "/chat/completions", stream: true, head: sse + "\nX-Generation-Id: gen-1", answer: "fff\r\n" + stream[:40], want: "gen-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := providertest.Serve(t, func(c net.Conn, _ providertest.Seen) bool {
				providertest.Write(c, tt.head, tt.answer)
				return false
			})
			told := ""
			body := tt.body
			if body == "" {
				body = `{"model":"m"}`
			}
			_, err := dial(t, tt.profile, s.URL, provider.TransportOptions{}).Do(t.Context(), provider.Request{
				API: tt.api, Model: "m", Body: []byte(body), Stream: tt.stream, OnID: func(id string) { told += id },
			})
			e, ok := err.(*provider.Error)
			if !ok || !e.Unknown() || e.AnswerID != tt.want {
				t.Fatalf("got %+v with the id %q, want %q", err, e.AnswerID, tt.want)
			}
			if want := map[bool]string{true: tt.want}[tt.stream]; told != want {
				t.Errorf("got told %q, want %q", told, want)
			}
		})
	}
}
