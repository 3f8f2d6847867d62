package anthropic

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/providertest"
)

// sent returns what a request leaves the machine as.
func sent(t *testing.T, r provider.Request) (providertest.Seen, error) {
	t.Helper()
	var seen providertest.Seen
	s := providertest.Serve(t, func(c net.Conn, r providertest.Seen) bool {
		seen = r
		providertest.Write(c, "HTTP/1.0 200 OK", success)
		return false
	})
	_, err := dial(t, s.URL, provider.TransportOptions{}).Do(t.Context(), r)
	return seen, err
}

func TestNativePassesByteForByte(t *testing.T) {
	body := `{ "model":"m", "max_tokens":1e1, "messages":[{"role":"user","content":"\ud835 <&>"}], "n":9007199254740993 }`
	seen, err := sent(t, provider.Request{API: apiMessages, Body: []byte(body), Key: "key-1"})
	if err != nil {
		t.Fatal(err)
	}
	h := seen.Header
	if seen.Body != body || seen.Path != "/v1/messages" || h.Get("X-Api-Key") != canary || h.Get("Anthropic-Version") != "2023-06-01" || h.Get("Authorization") != "" || h.Get("Idempotency-Key") != "key-1" {
		t.Errorf("got %+v, want the body byte for byte, path, key and version", seen)
	}
	seen, err = sent(t, provider.Request{API: apiMessages, Body: []byte(`{"model":"m","stream":false}`), Stream: true})
	if err != nil || seen.Body != `{"model":"m","stream":true}` {
		t.Errorf("streamed: got %s, %v; want the member set in its place", seen.Body, err)
	}
}

func TestTarget(t *testing.T) {
	for base, want := range map[string]string{
		"https://api.anthropic.com": "https://api.anthropic.com/v1/messages", "http://localhost/v1/": "http://localhost/v1/messages",
		"http://localhost/a%2Fb": "http://localhost/a%2Fb/v1/messages",
	} {
		if got := dial(t, base, provider.TransportOptions{}).target().String(); got != want {
			t.Errorf("%s: got %s, want %s", base, got, want)
		}
	}
}

func TestTranslation(t *testing.T) {
	const ask = `"messages":[{"role":"user","content":"hi"}]`
	const asked = `"messages":[{"role":"user","content":"hi"}]`
	for _, tt := range []struct{ name, body, want string }{
		{"plain", `{"model":"m",` + ask + `}`, `{"model":"m","max_tokens":4096,` + asked + `}`},
		{"neutral", `{"model":"m","n":1,"stream":false,"logprobs":false,"frequency_penalty":0,"seed":null,"store":false,"response_format":{"type":"text"},"service_tier":"auto","metadata":{"a":"b"},` + ask + `}`, `{"model":"m","max_tokens":4096,` + asked + `}`},
		{
			"sampling",
			`{"model":"m","temperature":0.70,"top_p":1.0,"top_k":40,"max_tokens":7,"max_completion_tokens":9,"stop":"END","user":"u1","reasoning_effort":"high",` + ask + `}`,
			`{"model":"m","max_tokens":9,` + asked + `,"temperature":0.70,"top_p":1.0,"top_k":40,"stop_sequences":["END"],"output_config":{"effort":"high"},"metadata":{"user_id":"u1"}}`,
		},
		{"stops", `{"model":"m","stop":["a","b"],"thinking":{"type":"adaptive"},` + ask + `}`, `{"model":"m","max_tokens":4096,` + asked + `,"stop_sequences":["a","b"],"thinking":{"type":"adaptive"}}`},
		{
			"system",
			`{"model":"m","messages":[{"role":"system","content":"a <b>"},{"role":"developer","content":[{"type":"text","text":"c"}]},{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]},{"role":"assistant","content":"z","refusal":null},{"role":"user","content":"w"}]}`,
			`{"model":"m","max_tokens":4096,"system":"a <b>\n\nc","messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]},{"role":"assistant","content":"z"},{"role":"user","content":"w"}]}`,
		},
		{
			"media",
			`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"auto"}},{"type":"image_url","image_url":{"url":"https://h/x.png"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBE"}}]}]}`,
			`{"model":"m","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"image","source":{"type":"url","url":"https://h/x.png"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBE"},"title":"a.pdf"}]}]}`,
		},
		{
			"tools",
			`{"model":"m","tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"x":{"type":"number"}}},"strict":true}},{"type":"function","function":{"name":"g"}}],"tool_choice":"required","parallel_tool_calls":false,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": 1.0}"}},{"id":"b","type":"function","function":{"name":"g","arguments":""}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"2"}]},{"role":"user","content":"and?"}]}`,
			`{"model":"m","max_tokens":4096,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"x":1.0}},{"type":"tool_use","id":"b","name":"g","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"},{"type":"tool_result","tool_use_id":"b","content":"2"}]},{"role":"user","content":"and?"}],"tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"x":{"type":"number"}}},"strict":true},{"name":"g","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`,
		},
		{"no tool", `{"model":"m","tool_choice":"none",` + ask + `}`, `{"model":"m","max_tokens":4096,` + asked + `,"tool_choice":{"type":"none"}}`},
		{"one tool", `{"model":"m","tool_choice":{"type":"function","function":{"name":"f"}},` + ask + `}`, `{"model":"m","max_tokens":4096,` + asked + `,"tool_choice":{"type":"tool","name":"f"}}`},
		{"schema", `{"model":"m","response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}},` + ask + `}`, `{"model":"m","max_tokens":4096,` + asked + `,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}`},
	} {
		seen, err := sent(t, provider.Request{API: apiChat, Body: []byte(tt.body)})
		if err != nil || seen.Body != tt.want {
			t.Errorf("%s: got %v\n%s\nwant\n%s", tt.name, err, seen.Body, tt.want)
		}
	}
}

// TestNothingIsDropped: what cannot be carried over is an error that names the
// field, and nothing leaves.
func TestNothingIsDropped(t *testing.T) {
	const ask = `"messages":[{"role":"user","content":"hi"}]`
	turn := func(m string) string { return `{"messages":[{"role":"user","content":"hi"},` + m + `]}` }
	for body, field := range map[string]string{
		`{"n":2,` + ask + `}`:                                                       "n:",
		`{"seed":1,` + ask + `}`:                                                    "seed:",
		`{"logit_bias":{"1":2},` + ask + `}`:                                        "logit_bias:",
		`{"frequency_penalty":0.5,` + ask + `}`:                                     "frequency_penalty:",
		`{"presence_penalty":0.5,` + ask + `}`:                                      "presence_penalty:",
		`{"logprobs":true,` + ask + `}`:                                             "logprobs:",
		`{"web_search_options":{},"x":1,` + ask + `}`:                               "web_search_options:",
		`{"reasoning_effort":"minimal",` + ask + `}`:                                "reasoning_effort",
		`{"response_format":{"type":"json_object"},` + ask + `}`:                    "response_format.type",
		`{"response_format":{"type":"grammar"},` + ask + `}`:                        "response_format.type",
		`{"tools":[{"type":"custom"}],` + ask + `}`:                                 "tools[0].type",
		`{"tools":[{"type":"function","function":{"name":"f","x":1}}],` + ask + `}`: "tools[0].function.x:",
		`{"tool_choice":{"type":"allowed_tools"},` + ask + `}`:                      "tool_choice:",
		`{"temperature":"hot",` + ask + `}`:                                         "temperature:",
		`{"stop":7,` + ask + `}`:                                                    "stop:",
		`{"stream":true,` + ask + `}`:                                               "stream",
		`{}`:                                                                        "messages:",
		`[]`:                                                                        "no JSON object",
		turn(`{"role":"system","content":"late"}`):                                  "messages[1]",
		turn(`{"role":"function","content":"x"}`):                                   "messages[1].role",
		turn(`{"role":"user","content":"x","name":"bob"}`):                          "messages[1].name:",
		turn(`{"role":"assistant","content":"x","reasoning_content":"hm"}`):         "messages[1].reasoning_content:",
		turn(`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"[1]"}}]}`): "messages[1].tool_calls[0].function.arguments:",
		turn(`{"role":"tool","content":"x"}`): "messages[1].tool_call_id:",
		turn(`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}]}`):      "messages[1].content[0].input_audio",
		turn(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://h/x","detail":"high"}}]}`): "messages[1].content[0].image_url.detail:",
		turn(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"ftp://h/x"}}]}`):                   "messages[1].content[0].image_url.url:",
		turn(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png,x"}}]}`):            "messages[1].content[0].image_url.url:",
		turn(`{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}`):                            "messages[1].content[0].file.file_id:",
		turn(`{"role":"user","content":[{"type":"video"}]}`):                                                       "messages[1].content[0].type",
		turn(`{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}`):        "messages[1].content[0].cache_control:",
	} {
		seen, err := sent(t, provider.Request{API: apiChat, Model: "m", Body: []byte(body)})
		var e *provider.Error
		if !errors.As(err, &e) || e.Kind != provider.KindInvalid || e.Sent || seen.N != 0 || !strings.Contains(e.Message, field) {
			t.Errorf("%s: got %v and %d requests, want it refused by %q", body, err, seen.N, field)
		}
	}
	for _, api := range []string{"/responses", "/embeddings", "/completions", "/../x"} {
		if _, err := sent(t, provider.Request{API: api, Body: []byte(`{}`)}); err == nil {
			t.Errorf("%s: got no error", api)
		}
	}
}
