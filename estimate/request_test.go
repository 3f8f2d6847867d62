package estimate

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// o200k counts a text for the expectations below.
func o200k(s string) int { return counter.Text(O200kBase, s) }

func TestRequest(t *testing.T) {
	t.Parallel()
	const hello = "Hello, wörld!" // 13 characters
	h := o200k(hello)
	for _, c := range []struct {
		name, api, model, body string
		want                   Tokens
	}{
		{
			"chat", "/chat/completions", "gpt-4o",
			`{"model":"x","messages":[{"role":"user","content":"Hello, wörld!"}],"max_tokens":50}`,
			Tokens{Text: h, Prompt: 3 + 1 + h + 3, Chars: 13 + 4, MaxOutput: 50},
		},
		{
			"chat with escapes, a name and n", "/chat/completions", "gpt-4o",
			`{"messages" : [ {"content":"Hello, w\u00f6rld!","name":"bob","role":"user"} ], "n": 3, "max_completion_tokens": 7}`,
			Tokens{Text: h, Prompt: 3 + 1 + h + 1 + 1 + 3, Chars: 13 + 4, MaxOutput: 21, Extra: 2},
		},
		{
			"parts", "/chat/completions", "gpt-4o",
			`{"messages":[{"role":"user","content":[{"type":"text","text":"Hello, wörld!"},{"text":"Hello, wörld!","type":"text"}]},{"role":"assistant","content":null,"refusal":"Hello, wörld!"}]}`,
			Tokens{Text: 3 * h, Prompt: 3 + 1 + 2*h + 3 + 1 + h + 3, Chars: 3*13 + 4 + 9},
		},
		{
			"special tokens as text", "/chat/completions", "gpt-4o",
			`{"messages":[{"role":"user","content":"a<|endoftext|>b"}]}`,
			Tokens{Text: 9, Prompt: 16, Chars: 15 + 4},
		},
		{
			"half a surrogate pair", "/chat/completions", "gpt-4o",
			`{"messages":[{"role":"user","content":"x\ud835y \ud83d\udc4d \ud83dA"}]}`,
			Tokens{Text: o200k("x\ufffdy 👍 \ufffdA"), Prompt: 7 + o200k("x\ufffdy 👍 \ufffdA"), Chars: 8 + 4},
		},
		{
			"tool calls", "/chat/completions", "gpt-4o",
			`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"ask","arguments":"{\"q\":1}"}}]},{"role":"tool","tool_call_id":"call_1","content":"42"}]}`,
			Tokens{Text: 1, Prompt: 3 + 1 + 3 + 1 + o200k(`{"q":1}`) + 3 + 1 + 1 + 3, Chars: 9 + 4 + 2},
		},
		{
			"image with size", "/chat/completions", "gpt-4o",
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + dataURL(pngHeader(1024, 1024)) + `"}}]}]}`,
			Tokens{Prompt: 3 + 1 + 765 + 3, Chars: 4, Images: 765, Pictures: 1},
		},
		{
			"image of low detail", "/chat/completions", "gpt-4o",
			`{"messages":[{"role":"user","content":[{"image_url":{"detail":"low","url":"https://example.com/a.png"},"type":"image_url"}]}]}`,
			Tokens{Prompt: 3 + 1 + 85 + 3, Chars: 4, Images: 85, Pictures: 1},
		},
		{
			"sound and file", "/chat/completions", "gpt-4o",
			`{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,AAAA"}}]}]}`,
			Tokens{Prompt: 3 + 1 + 2*flatMedia + 3, Chars: 4},
		},
		{
			"schema of the answer", "/chat/completions", "gpt-4o",
			`{"messages":[],"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}}}`,
			Tokens{Prompt: o200k(`"n"`) + o200k(`{"type":"object"}`) + 3},
		},
		{
			"responses, string", "/responses", "gpt-5",
			`{"input":"Hello, wörld!","instructions":"Be brief.","max_output_tokens":20}`,
			Tokens{Text: h + 3, Prompt: 3 + 1 + h + 3 + 1 + 3 + 3, Chars: 13 + 4 + 9 + 6, MaxOutput: 20},
		},
		{
			"responses, items", "/responses", "gpt-5",
			`{"input":[{"role":"user","content":[{"type":"input_text","text":"Hello, wörld!"}]},{"type":"function_call","call_id":"c","name":"ask","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"42"},{"type":"reasoning","encrypted_content":"AAAAAAAAAAAAAAAA"}]}`,
			Tokens{Text: h + 1, Prompt: 3 + 1 + h + 3 + 1 + 1 + 1 + 3 + 1 + 3 + 3, Chars: 13 + 4 + 2},
		},
		{
			"embeddings, array", "/embeddings", "text-embedding-3-small",
			`{"input":["hello world","hello world"]}`,
			Tokens{Text: 4, Prompt: 4, Chars: 22},
		},
		{
			"embeddings, tokens", "/embeddings", "text-embedding-3-small",
			`{"input":[[1,2,3],[4,5]]}`,
			Tokens{Text: 5, Prompt: 5},
		},
		{
			"completion", "/completions", "gpt-3.5-turbo-instruct",
			`{"prompt":["hello world","rer"],"max_tokens":5,"n":2}`,
			Tokens{Text: 3, Prompt: 3, Chars: 14, MaxOutput: 20, Extra: 3},
		},
		{
			"moderation", "/moderations", "omni-moderation-latest",
			`{"input":[{"type":"text","text":"hello world"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}`,
			Tokens{Text: 2, Prompt: 2 + flatMedia, Chars: 11, Images: flatMedia, Pictures: 1},
		},
		{
			"anthropic", "/messages", "claude-sonnet-4-5",
			`{"system":[{"type":"text","text":"Be brief."}],"max_tokens":9,"messages":[{"role":"user","content":"Hello, wörld!"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"ask","input":{"q":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"42"}]}]}]}`,
			Tokens{Text: 3 + h + 1, Prompt: 3 + 1 + 3 + 3 + 1 + h + 3 + 1 + 3 + 1 + o200k(`{"q":1}`) + 3 + 1 + 1 + 3, Chars: 6 + 9 + 4 + 13 + 9 + 4 + 2, MaxOutput: 9},
		},
		{
			"anthropic, media", "/messages", "claude-sonnet-4-5",
			`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + base64Of(pngHeader(560, 280)) + `"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"hello world"}},{"type":"document","source":{"type":"base64","data":"AAAA"}}]}]}`,
			Tokens{Text: 2, Prompt: 3 + 1 + 200 + 2 + flatMedia + 3, Chars: 4 + 11, Images: 200, Pictures: 1},
		},
		{
			"anthropic, tools", "/messages", "claude-sonnet-4-5",
			`{"messages":[],"tools":[{"name":"ask","input_schema":{"type":"object"}}]}`,
			Tokens{Prompt: o200k(`{"name":"ask","input_schema":{"type":"object"}}`) + anthropicTools + 3},
		},
		{"nothing", "/chat/completions", "gpt-4o", `{}`, Tokens{Prompt: 3}},
		{"odd types", "/chat/completions", "gpt-4o", `{"messages":[7,"x",[],{"role":1,"content":2}],"n":"a","max_tokens":-1,"tools":{}}`, Tokens{Prompt: 4*3 + 3}},
		{"huge caps", "/chat/completions", "gpt-4o", `{"messages":[],"n":1e3,"max_tokens":99999999999999999999999}`, Tokens{Prompt: 3, MaxOutput: maxInteger}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := counter.Request(c.api, c.model, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// Nested schemas are counted like the cookbook's flat ones.
func TestTools(t *testing.T) {
	t.Parallel()
	const function = `{"name":"f","description":"Does it.","parameters":{"type":"object","properties":{"a":{"type":"object","description":"An a","properties":{"b":{"type":"string","enum":["x","y"]}}},"c":{"type":"array","items":{"type":"object","properties":{"d":{"type":["string","null"]}}}}}}}`
	want := 7 + o200k("f:Does it") +
		3 + 3 + o200k("a:object:An a") +
		3 + 3 + o200k("b:string:") - 3 + 3 + o200k("x") + 3 + o200k("y") +
		3 + o200k("c:array:") + 3 + 3 + o200k("d::") +
		12 + 3
	for _, c := range []struct{ api, tools string }{
		{"/chat/completions", `"tools":[{"type":"function","function":` + function + `}]`},
		{"/chat/completions", `"functions":[` + function + `]`},
		{"/responses", `"tools":[` + strings.Replace(function, "{", `{"type":"function",`, 1) + `]`},
	} {
		got, err := counter.Request(c.api, "gpt-4o", []byte(`{`+c.tools+`}`))
		if err != nil || got.Prompt != want {
			t.Errorf("%s: got %d, %v, want %d", c.tools, got.Prompt, err, want)
		}
	}
	got, err := counter.Request("/responses", "gpt-4o", []byte(`{"tools":[{"type":"web_search"}]}`))
	if err != nil || got.Prompt != o200k(`{"type":"web_search"}`)+3 {
		t.Errorf("a hosted tool: got %d, %v", got.Prompt, err)
	}
}

func TestRequestErrors(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"", "[]", `"x"`, "{", `{"messages"`, `{"messages":`, `{"messages":[`, `{"messages":[{"role":"user`, `{"messages":[}`,
		`{"messages":[]`, `{"a":}`, `{"a":,}`, `{"a" 1}`, `{"a":1 "b":2}`, `{} x`, `{a:1}`, `{"messages":[{"content":"\`,
	} {
		if got, err := counter.Request("/chat/completions", "gpt-4o", []byte(body)); err == nil {
			t.Errorf("%q: got %+v, want an error", body, got)
		}
	}
	if _, err := counter.Request("/images", "gpt-4o", []byte(`{}`)); err == nil {
		t.Error("an unknown api gives no error")
	}
}

// Base64 is passed over, and time does not grow faster than the body does.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	for name, body := range map[string]string{
		"image":   `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + dataURL(pngHeader(512, 512)) + strings.Repeat("QUJD", size/4) + `"}}]}]}`,
		"escapes": `{"metadata":"` + strings.Repeat(`\"\n`, size/4) + `"}`,
		"depth":   `{"tools":[{"parameters":` + strings.Repeat(`{"properties":{"a":`, size/64) + `1` + strings.Repeat(`}}`, size/64) + `}]}`,
		"arrays":  `{"messages":` + strings.Repeat(`[`, size/8) + strings.Repeat(`]`, size/8) + `}`,
	} {
		start := time.Now()
		got, err := counter.Request("/chat/completions", "gpt-4o", []byte(body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got.Prompt > 2000 {
			t.Errorf("%s: got %d tokens", name, got.Prompt)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

func TestRequestAllocations(t *testing.T) {
	body := []byte(`{"model":"gpt-4o","messages":[{"role":"system","content":"Be \"brief\"."},{"role":"user","content":[{"type":"text","text":"Hello\nworld"}]}],"max_tokens":50}`)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := counter.Request("/chat/completions", "gpt-4o", body); err != nil {
			t.Fatal(err)
		}
	}); n > 20 {
		t.Errorf("%v allocations a request", n)
	}
}

// The framing is exact for most recorded calls without tools and media.
func TestRecordedCalls(t *testing.T) {
	t.Parallel()
	calls, exact := 0, 0
	for _, p := range readLines[struct {
		Model    string
		Messages json.RawMessage
		Tools    int  `json:"n_tools"`
		NoText   int  `json:"nontext_parts"`
		Prompt   *int `json:"prompt_tokens"`
	}](t, sharedData(t, "real_usage_pairs.jsonl")) {
		if _, known := Encoding(p.Model); !known || p.Tools > 0 || p.NoText > 0 || p.Prompt == nil {
			continue
		}
		got, err := counter.Request("/chat/completions", p.Model, append(append([]byte(`{"messages":`), p.Messages...), '}'))
		if err != nil {
			t.Fatal(err)
		}
		calls++
		if got.Prompt == *p.Prompt {
			exact++
		}
	}
	if exact*3 < calls*2 || calls == 0 {
		t.Errorf("exact for %d of %d calls, want two thirds", exact, calls)
	}
	t.Logf("exact for %d of %d calls", exact, calls)
}

// What encoding/json accepts is accepted, and its text is counted as it reads
// it.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"a\u00e9\ud83d\udc4d\n"}],"n":2}`))
	f.Add([]byte(`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`))
	f.Add([]byte(`{"tools":[{"function":{"name":"f","parameters":{"properties":{"a":{"enum":[1,"b"]}}}}}],"input":[[1]]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, api := range []string{"/chat/completions", "/responses", "/messages", "/embeddings", "/completions"} {
			got, err := counter.Request(api, "gpt-4o", body)
			if got.Prompt < got.Text || got.Prompt < got.Images || got.Text < 0 || got.MaxOutput < 0 {
				t.Errorf("%s of %q: got %+v", api, body, got)
			}
			var object map[string]json.RawMessage
			if err != nil && json.Unmarshal(body, &object) == nil && object != nil {
				t.Errorf("%s of %q: %v", api, body, err)
			}
		}
		var text string
		if json.Unmarshal(body, &text) != nil || !utf8.Valid(body) {
			return
		}
		body = append(append([]byte(`{"input":`), body...), '}')
		got, err := counter.Request("/embeddings", "gpt-4o", body)
		if err != nil || got.Text != o200k(text) {
			t.Errorf("%q: got %d tokens, %v, want %d", body, got.Text, err, o200k(text))
		}
	})
}

func BenchmarkRequest(b *testing.B) {
	r := rand.New(rand.NewPCG(6, 6))
	var text bytes.Buffer
	for text.Len() < 1000 {
		text.WriteString(englishWords[r.IntN(len(englishWords))] + " ")
	}
	body := []byte(`{"model":"gpt-4o","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"` + text.String() + `"}],"max_tokens":50}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := counter.Request("/chat/completions", "gpt-4o", body); err != nil {
			b.Fatal(err)
		}
	}
}
