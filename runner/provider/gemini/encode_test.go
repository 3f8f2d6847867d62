package gemini

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
		answer := success
		switch {
		case strings.HasSuffix(r.Path, ":embedContent"):
			answer = `{"embedding":{"values":[1]}}`
		case strings.HasSuffix(r.Path, ":batchEmbedContents"):
			answer = `{"embeddings":[{"values":[1]}]}`
		}
		providertest.Write(c, "HTTP/1.0 200 OK", answer)
		return false
	})
	_, err := dial(t, s.URL, provider.TransportOptions{}).Do(t.Context(), r)
	return seen, err
}

func TestTarget(t *testing.T) {
	chat := func(model string) call { return call{method: "generateContent", model: model} }
	for _, tt := range []struct {
		base   string
		call   call
		stream bool
		want   string
	}{
		{"https://generativelanguage.googleapis.com/v1beta", chat("gemini-3"), false, "https://generativelanguage.googleapis.com/v1beta/models/gemini-3:generateContent"},
		{"http://localhost", chat("models/gemini-3"), true, "http://localhost/v1beta/models/gemini-3:streamGenerateContent?alt=sse"},
		{"http://localhost/v1", chat("m"), true, "http://localhost/v1/models/m:streamGenerateContent?alt=sse"},
		{"http://localhost/v1/publishers/google", chat("m"), false, "http://localhost/v1/publishers/google/models/m:generateContent"},
		{"http://localhost", chat("a/b?c d"), false, "http://localhost/v1beta/models/a%2Fb%3Fc%20d:generateContent"},
		{"http://localhost", call{method: "batchEmbedContents", model: "m"}, true, "http://localhost/v1beta/models/m:batchEmbedContents"},
		{"http://localhost", chat(""), false, ""},
		{"http://localhost", chat(".."), false, ""},
	} {
		u, err := dial(t, tt.base, provider.TransportOptions{}).target(tt.call, tt.stream)
		switch {
		case tt.want == "" && err == nil:
			t.Errorf("%q: got %s, want it refused", tt.call.model, u)
		case tt.want != "" && (err != nil || u.String() != tt.want):
			t.Errorf("%s: got %v, %v; want %s", tt.base, u, err, tt.want)
		}
	}
}

func TestTranslation(t *testing.T) {
	const ask = `"messages":[{"role":"user","content":"hi"}]`
	const asked = `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`
	for _, tt := range []struct{ name, model, body, want string }{
		{"plain", "m", `{"model":"m",` + ask + `}`, `{` + asked + `,"generationConfig":{}}`},
		{
			"sampling", "gemini-2.5-flash",
			`{"n":3,"temperature":0.70,"top_p":1.0,"top_k":40,"seed":7,"max_tokens":9,"stop":"END","frequency_penalty":0.5,"presence_penalty":-1,"reasoning_effort":"low",` + ask + `}`,
			`{` + asked + `,"generationConfig":{"maxOutputTokens":9,"temperature":0.70,"topP":1.0,"topK":40,"seed":7,"frequencyPenalty":0.5,"presencePenalty":-1,"stopSequences":["END"],"candidateCount":3,"thinkingConfig":{"thinkingBudget":1024}}}`,
		},
		{"no thinking", "gemini-2.5-flash", `{"reasoning_effort":"none",` + ask + `}`, `{` + asked + `,"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}`},
		{"level", "gemini-3-pro", `{"reasoning_effort":"high",` + ask + `}`, `{` + asked + `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"high"}}}`},
		{"JSON", "m", `{"response_format":{"type":"json_object"},` + ask + `}`, `{` + asked + `,"generationConfig":{"responseMimeType":"application/json"}}`},
		{"schema", "m", `{"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},` + ask + `}`, `{` + asked + `,"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}}`},
		{"native", "m", `{"safetySettings":[{"category":"c"}],"cachedContent":"cachedContents/x",` + ask + `}`, `{` + asked + `,"generationConfig":{},"safetySettings":[{"category":"c"}],"cachedContent":"cachedContents/x"}`},
		{
			"media", "m",
			`{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"image_url","image_url":{"url":"https://h/x.PNG?a"}},{"type":"input_audio","input_audio":{"data":"BB","format":"wav"}}]}]}`,
			`{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"x"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}},{"fileData":{"mimeType":"image/png","fileUri":"https://h/x.PNG?a"}},{"inlineData":{"mimeType":"audio/wav","data":"BB"}}]}],"generationConfig":{}}`,
		},
		{
			"tools", "m",
			`{"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}}],"tool_choice":"auto","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"},"extra_content":{"google":{"thought_signature":"c2ln"}}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"b","content":"plain"},{"role":"tool","tool_call_id":"a","content":"{\"y\":2}"}]}`,
			`{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{"x":1}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"b","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"b","name":"f","response":{"output":"plain"}}},{"functionResponse":{"id":"a","name":"f","response":{"y":2}}}]}],"tools":[{"functionDeclarations":[{"name":"f","description":"d","parametersJsonSchema":{"type":"object"}}]}],"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}},"generationConfig":{}}`,
		},
		{"one tool", "m", `{"tool_choice":{"type":"function","function":{"name":"f"}},` + ask + `}`, `{` + asked + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}},"generationConfig":{}}`},
	} {
		seen, err := sent(t, provider.Request{API: apiChat, Model: tt.model, Body: []byte(tt.body), Key: "k"})
		if err != nil || seen.Body != tt.want {
			t.Errorf("%s: got %v\n%s\nwant\n%s", tt.name, err, seen.Body, tt.want)
		}
		if seen.Path != "/v1beta/models/"+tt.model+":generateContent" || seen.Header.Get("X-Goog-Api-Key") != canary || seen.Header.Get("Authorization") != "" {
			t.Errorf("%s: got %+v, want the model's path and the key", tt.name, seen)
		}
	}
}

func TestEmbeddings(t *testing.T) {
	seen, err := sent(t, provider.Request{API: apiEmbeddings, Model: "e", Body: []byte(`{"model":"e","input":["a","b"],"dimensions":8,"encoding_format":"float"}`)})
	want := `{"requests":[{"model":"models/e","content":{"parts":[{"text":"a"}]},"outputDimensionality":8},{"model":"models/e","content":{"parts":[{"text":"b"}]},"outputDimensionality":8}]}`
	if err != nil || seen.Body != want || seen.Path != "/v1beta/models/e:batchEmbedContents" {
		t.Errorf("got %v\n%s %s\nwant\n%s", err, seen.Path, seen.Body, want)
	}
	seen, err = sent(t, provider.Request{API: apiEmbeddings, Model: "e", Body: []byte(`{"input":"a","taskType":"RETRIEVAL_QUERY"}`)})
	want = `{"model":"models/e","content":{"parts":[{"text":"a"}]},"taskType":"RETRIEVAL_QUERY"}`
	if err != nil || seen.Body != want || seen.Path != "/v1beta/models/e:embedContent" {
		t.Errorf("got %v\n%s %s\nwant\n%s", err, seen.Path, seen.Body, want)
	}
	for body, field := range map[string]string{
		`{"input":"a","encoding_format":"base64"}`: "encoding_format", `{"input":[1,2]}`: "input:", `{"input":"a","user":"u"}`: "user:", `{}`: "input:",
	} {
		seen, err := sent(t, provider.Request{API: apiEmbeddings, Model: "e", Body: []byte(body)})
		if err == nil || seen.N != 0 || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v, want it refused by %q", body, err, field)
		}
	}
}

// TestNothingIsDropped: what cannot be carried over is an error that names the
// field, and nothing leaves.
func TestNothingIsDropped(t *testing.T) {
	const ask = `"messages":[{"role":"user","content":"hi"}]`
	for body, field := range map[string]string{
		`{"parallel_tool_calls":false,` + ask + `}`:                       "parallel_tool_calls:",
		`{"user":"u",` + ask + `}`:                                        "user:",
		`{"logprobs":true,` + ask + `}`:                                   "logprobs:",
		`{"reasoning_effort":"none",` + ask + `}`:                         "reasoning_effort",
		`{"reasoning_effort":"xhigh",` + ask + `}`:                        "reasoning_effort",
		`{"thinking":{"type":"enabled"},` + ask + `}`:                     "thinking:",
		`{"messages":[{"role":"tool","tool_call_id":"z","content":"x"}]}`: "tool_call_id:",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:;base64,A"}}]}]}`: "messages[0].content[0].image_url.url:",
	} {
		seen, err := sent(t, provider.Request{API: apiChat, Model: "gemini-3", Body: []byte(body)})
		var e *provider.Error
		if !errors.As(err, &e) || e.Kind != provider.KindInvalid || e.Sent || seen.N != 0 || !strings.Contains(e.Message, field) {
			t.Errorf("%s: got %v and %d requests, want it refused by %q", body, err, seen.N, field)
		}
	}
	for _, api := range []string{"/responses", "/messages", "/completions"} {
		if _, err := sent(t, provider.Request{API: api, Model: "m", Body: []byte(`{}`)}); err == nil {
			t.Errorf("%s: got no error", api)
		}
	}
}
