package fake

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestTools has the model call the first tool that is offered, in each API's shape, whole and streamed.
func TestTools(t *testing.T) {
	for _, c := range []struct {
		path, body string
		words      []string
	}{
		{"/v1/chat/completions", `{"model":"m","tools":[{"type":"function","function":{"name":"find","parameters":{}}}],"messages":[{"role":"user","content":"[[fault:tool]]"}]}`, []string{
			`"name":"find"`, `"arguments":"{\"id\":7}"`, `"finish_reason":"tool_calls"`, `"content":null`,
		}},
		{"/v1/chat/completions", `{"model":"m","stream":true,"tools":[{"type":"function","function":{"name":"find"}}],"messages":[{"role":"user","content":"[[fault:tool]]"}]}`, []string{
			`"name":"find"`, `"arguments":"{\"id\""`, `"arguments":":7}"`, `"finish_reason":"tool_calls"`, "[DONE]",
		}},
		{"/v1/responses", `{"model":"m","tools":[{"type":"function","name":"find"}],"input":"[[fault:tool]]"}`, []string{
			`"output":[{"arguments":"{\"id\":7}","call_id":"call_mock"`, `"status":"completed"`, `"name":"find"`,
		}},
		{"/v1/responses", `{"model":"m","stream":true,"tools":[{"type":"function","name":"find"}],"input":"[[fault:tool]]"}`, []string{
			"event: response.function_call_arguments.delta\n", "event: response.function_call_arguments.done\n", "event: response.completed\n",
		}},
		{messagesPath, `{"model":"m","max_tokens":90,"tools":[{"name":"find","input_schema":{}}],"messages":[{"role":"user","content":"[[fault:tool]]"}]}`, []string{
			`"type":"tool_use"`, `"input":{"id":7}`, `"name":"find"`, `"stop_reason":"tool_use"`,
		}},
		{messagesPath, `{"model":"m","stream":true,"max_tokens":90,"tools":[{"name":"find","input_schema":{}}],"messages":[{"role":"user","content":"[[fault:tool]]"}]}`, []string{
			`"input":{}`, `"partial_json":"{\"id\""`, `"stop_reason":"tool_use"`, "event: content_block_stop", "event: message_stop",
		}},
		{geminiPath, `{"tools":[{"functionDeclarations":[{"name":"find"}]}],"contents":[{"parts":[{"text":"[[fault:tool]]"}]}]}`, []string{
			`"functionCall":{"args":{"id":7},"name":"find"}`, `"finishReason":"STOP"`,
		}},
		{"/v1beta/models/m:streamGenerateContent?alt=sse", `{"tools":[{"functionDeclarations":[{"name":"find"}]}],"contents":[{"parts":[{"text":"[[fault:tool]]"}]}]}`, []string{
			`"functionCall":{"args":{"id":7},"name":"find"}`, `"finishReason":"STOP"`,
		}},
	} {
		g := native(t.Context(), t, &Transport{Server: New(Config{})}, c.path, c.body)
		if g.status != 200 || g.err != nil || strings.HasPrefix(g.body, "{") && !json.Valid([]byte(g.body)) {
			t.Errorf("%s: got %+v", c.path, g)
		}
		for _, w := range c.words {
			if !strings.Contains(g.body, w) {
				t.Errorf("%s %s: got %s, want %s in it", c.path, c.body, g.body, w)
			}
		}
	}
}

// TestPieces joins to the whole text however many pieces are asked for, and cuts no escape.
func TestPieces(t *testing.T) {
	for n := range 12 {
		s := New(Config{Chunks: n, Echo: true})
		g := native(t.Context(), t, &Transport{Server: s}, streamed[0].path, ask(streamed[0].body, ` a \" b \u00e9  \\ c`))
		text, events := collect(t, g.body)
		if want := " a \" b é  \\ c"; text != want || n > 0 && events > n+3 {
			t.Errorf("%d pieces: got %q in %d events, want %q", n, text, events, want)
		}
	}
}
