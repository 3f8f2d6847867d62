package input

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// open writes text to a file and opens it.
func open(t testing.TB, text string) *File {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), path, nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func preflight(t testing.TB, f *File, s *Settings) (*Index, *Report) {
	t.Helper()
	ix, rep, err := Preflight(context.Background(), f, s)
	if err != nil {
		t.Fatal(err)
	}
	return ix, rep
}

// records gives the requests of all operations of a text that has no faults.
func records(t testing.TB, text string, s *Settings) []Record {
	t.Helper()
	f := open(t, text)
	ix, rep := preflight(t, f, s)
	for _, p := range rep.Problems {
		t.Errorf("%s", p)
	}
	var list []Record
	for i := range ix.Operations() {
		r, err := f.Record(ix, i, s)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
		r.Op, r.Digest = "", [32]byte{}
		err = f.Peek(ix, i, s, func(seen *Record) {
			if !reflect.DeepEqual(*seen, r) {
				t.Errorf("line %d: Peek gives %+v, want %+v", r.Line, *seen, r)
			}
		})
		if err != nil {
			t.Errorf("line %d: Peek: %v", r.Line, err)
		}
	}
	return list
}

func TestBodies(t *testing.T) {
	for _, c := range []struct {
		name string
		set  Settings
		line string
		api  string
		body string
	}{
		{
			"batch byte for byte",
			Settings{System: "S", MaxTokens: 5},
			`{"custom_id": "a", "method":"POST","url":"/v1/chat/completions", "body": { "messages": [], "model":"m", "x":1.0, "y":1e400, "z":"\ud835\u0041<" } }`,
			"/chat/completions", `{ "messages": [], "model":"m", "x":1.0, "y":1e400, "z":"\ud835\u0041<" }`,
		},
		{
			"batch override",
			Settings{OverrideModel: `n"`},
			`{"custom_id":"a","url":"/v1/responses","body":{ "model" : "m" , "input":"x"}}`,
			"/responses", `{ "model" : "n\"" , "input":"x"}`,
		},
		{"batch model put first", Settings{Model: "n"}, `{"url":"/v1/embeddings","body":{ "input":"x"}}`, "/embeddings", `{"model":"n", "input":"x"}`},
		{"batch by escaped names", Settings{Model: "n"}, `{"u\u0072l":"/v1/embeddings","b\u006fdy":{"mod\u0065l":"m"}}`, "/embeddings", `{"mod\u0065l":"m"}`},
		{"batch empty body", Settings{Model: "n"}, `{"url":"/v1/embeddings","body":{ }}`, "/embeddings", `{"model":"n" }`},
		{
			"anthropic",
			Settings{Anthropic: true},
			`{"custom_id":"a","params":{"model":"c","max_tokens":3,"messages":[]}}`,
			"/messages", `{"model":"c","max_tokens":3,"messages":[]}`,
		},
		{
			"raw",
			Settings{Model: "other", System: "S"},
			`{"model":"m","messages":[{"role":"user","content":"x"}],"metadata":{"row":1},"frequency_penalty":0.5}`,
			"/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}],"metadata":{"row":1},"frequency_penalty":0.5}`,
		},
		{
			"raw loses what is llmbatch's",
			Settings{IDField: "key"},
			`{"task":"t", "model":"m",  "key":1 ,"tenant":"u","messages":[] , "priority":"high","retry":"never" }`,
			"/chat/completions", `{"model":"m","messages":[] }`,
		},
		{"raw override", Settings{OverrideModel: "n"}, `{"task":"t","model":"m","input":[1]}`, "/responses", `{"model":"n","input":[1]}`},
		{"raw embeddings", Settings{}, `{"model":"text-embedding-3-small","input":"x"}`, "/embeddings", `{"model":"text-embedding-3-small","input":"x"}`},
		{
			"plain with one cap",
			Settings{Model: "m", ExtraBody: []byte(`{"max_completion_tokens":9,"n":2}`)},
			`{"prompt":"a","max_tokens":5}`, "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":5,"n":2}`,
		},
		{"plain", Settings{Model: "m"}, `{"prompt":"a\u00e9\ud835<"}`, "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"a\u00e9\ud835<"}]}`},
		{
			"plain settings",
			Settings{Model: "m", System: `S "x"`, MaxTokens: 7, Temperature: "0.50", ExtraBody: []byte(` {"seed":1, "n": 2} `), OutputCap: func(string) string { return "max_completion_tokens" }},
			`{"id":1,"seed":3,"stop":["a"],"top_p":1,"topic":"x","tools":[ ],"response_format":{ },"reasoning_effort":"low","prompt":"p"}`,
			"/chat/completions", `{"model":"m","messages":[{"role":"system","content":"S \"x\""},{"role":"user","content":"p"}],"max_completion_tokens":7,"temperature":0.50,"top_p":1,"stop":["a"],"seed":3,"response_format":{ },"tools":[ ],"reasoning_effort":"low","n":2}`,
		},
		{
			"line wins",
			Settings{Model: "m", System: "S", MaxTokens: 7, Temperature: "1"},
			`{"prompt":"p","model":"o","system":"L","max_tokens":9,"temperature":0}`,
			"/chat/completions", `{"model":"o","messages":[{"role":"system","content":"L"},{"role":"user","content":"p"}],"max_tokens":9,"temperature":0}`,
		},
		{
			"null is left out",
			Settings{Model: "m", System: "S", Temperature: "1"},
			`{"prompt":"p","model":null,"system":null,"temperature":null,"stop":null}`,
			"/chat/completions", `{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"p"}],"temperature":1}`,
		},
		{"empty system", Settings{Model: "m", System: "S"}, `{"prompt":"p","system":""}`, "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"p"}]}`},
		{
			"messages",
			Settings{Model: "m", System: "S"},
			`{"messages":[ {"role":"user","content":[{"type":"text","text":"x"}]} ]}`,
			"/chat/completions", `{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"x"}]} ]}`,
		},
		{
			"messages with system",
			Settings{Model: "m", System: "S"},
			`{"messages":[{"role":"developer","content":"x"}]}`,
			"/chat/completions", `{"model":"m","messages":[{"role":"developer","content":"x"}]}`,
		},
		{"no messages", Settings{Model: "m", System: "S"}, `{"messages":[ ]}`, "/chat/completions", `{"model":"m","messages":[{"role":"system","content":"S"}]}`},
		{"input", Settings{Model: "e", MaxTokens: 3, ExtraBody: []byte(`{"dimensions":8}`)}, `{"id":"a","input":["x"]}`, "/embeddings", `{"model":"e","input":["x"],"dimensions":8}`},
		{"prompt field", Settings{Model: "m", PromptField: "q"}, `{"q":"x","input":3,"url":1,"body":{},"messages":4}`, "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`},
		{
			"template",
			Settings{Model: "m", Template: "{{.n}} {{.s}}{{.z}} {{.o.a}} {{.o}} {{range .l}}<{{.}}>{{end}} {{.l}} {{if .f}}no{{end}}"},
			`{"n":1.50,"s":"\ud835\"","z":null,"o":{"b":9007199254740993,"a":true},"l":[1,"x",null],"f":false}`,
			"/chat/completions", `{"model":"m","messages":[{"role":"user","content":"1.50 \ud835\" true {\"a\":true,\"b\":9007199254740993} <1><x><> [1,\"x\",null] "}]}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := records(t, c.line, &c.set)
			if len(got) != 1 {
				t.Fatalf("got %d operations, want 1", len(got))
			}
			if got[0].API != c.api || string(got[0].Body) != c.body {
				t.Errorf("got  %s %s\nwant %s %s", got[0].API, got[0].Body, c.api, c.body)
			}
		})
	}
}

func batchLines(size, n int) string {
	var b strings.Builder
	text := strings.Repeat("the quick brown fox, jumps over \\\"the\\\" lazy dog. ", size/50+1)[:size-200]
	for i := range n {
		b.WriteString(`{"custom_id": "request-`)
		b.WriteString(strings.Repeat("x", i%3))
		b.Write([]byte{byte('0' + i/1000%10), byte('0' + i/100%10), byte('0' + i/10%10), byte('0' + i%10)})
		b.WriteString(`", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "`)
		b.WriteString(text)
		b.WriteString("\"}], \"max_tokens\": 100}}\n")
	}
	return b.String()
}

func plainLines(size, n int) string {
	var b bytes.Buffer
	text := strings.Repeat("the quick brown fox jumps over the lazy dog and on ", size/50+1)[:size-20]
	for i := range n {
		b.WriteString(`{"prompt": "`)
		b.Write([]byte{byte('0' + i/1000%10), byte('0' + i/100%10), byte('0' + i/10%10), byte('0' + i%10)})
		b.WriteString(text)
		b.WriteString("\"}\n")
	}
	return b.String()
}

func BenchmarkPreflight(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"batch1k", batchLines(1000, 10000)},
		{"plain300", plainLines(300, 10000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := open(b, c.text)
			s := &Settings{Model: "m"}
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				if _, rep := preflight(b, f, s); rep.Operations != 10000 {
					b.Fatalf("got %+v", rep)
				}
			}
		})
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"batch1k", batchLines(1000, 1000)},
		{"plain300", plainLines(300, 1000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := open(b, c.text)
			s := &Settings{Model: "m"}
			ix, _ := preflight(b, f, s)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, err := f.Record(ix, i%ix.Len(), s); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
