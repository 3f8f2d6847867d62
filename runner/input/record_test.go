package input

import (
	"context"
	"reflect"
	"testing"
)

func TestNotices(t *testing.T) {
	text := `{"id":"p","prompt":"","frequency_penalty":1,"n":2,"topic":"t"}
{"id":"q","messages":[{"role":"user","content":""}],"key":"k"}
{"id":"e","input":"x"}
{"custom_id":"b","url":"/v1/responses","body":{"model":"m","input":"x"}}
{"custom_id":"c","url":"/v1/responses","body":{"input":""}}
{"model":"m","messages":[]}
`
	set := &Settings{Model: "n", System: "S", MaxTokens: 3, Temperature: "0", ExtraBody: []byte(`{"n":1}`), IDField: "key"}
	_, rep := preflight(t, open(t, text), set)
	want := []string{
		"--system does not apply to 4 lines (batch, raw, embeddings)",
		"--max-tokens does not apply to 4 lines (batch, raw, embeddings)",
		"--temperature does not apply to 4 lines (batch, raw, embeddings)",
		"--extra-body does not apply to 3 lines (batch, raw)",
		"--model does not apply to 2 lines (batch, raw) with a model of their own: --override-model replaces it",
		`5 lines without the field "key" of --id-field`,
		"1 line (plain) with fields that plain lines do not send: frequency_penalty, n; a batch line sends its body as it stands",
		"4 lines with an empty prompt",
	}
	if !reflect.DeepEqual(rep.Notices, want) || len(rep.Problems) > 0 {
		t.Errorf("got %q, %+v", rep.Notices, rep)
	}
	if _, rep := preflight(t, open(t, text), &Settings{OverrideModel: "n"}); len(rep.Notices) != 2 {
		t.Errorf("got %q", rep.Notices)
	}
	mixed := text + `{"q":"x"}` + "\n"
	_, rep = preflight(t, open(t, mixed), &Settings{Model: "n", PromptField: "q"})
	if got := rep.Notices[1]; got != `--prompt-field does not apply to 6 lines without the field "q"` {
		t.Errorf("got %q", rep.Notices)
	}
	_, rep = preflight(t, open(t, text), &Settings{Model: "n", Template: "x"})
	if got := rep.Notices[1]; got != "--template does not apply to 2 lines (batch)" {
		t.Errorf("got %q", rep.Notices)
	}
}

func TestRecordFields(t *testing.T) {
	set := &Settings{Model: "m", Anthropic: true, IDField: "key"}
	text := `{"custom_id":12,"prompt":"x","task":"sum","tenant":"acme","priority":"high","topic": "t" ,"n":1.0,"url":"u","id":7}
{"prompt":"x","priority":"low","metadata":{"a": 1},"topic":"t"}
{"key":"k","prompt":"x","task":null,"priority":null,"retry":null}
{"model":"o","messages":[],"metadata":[1],"priority":"normal"}
{"custom_id":"b","url":"/v1/moderations","body":{"model":"x","metadata":{}},"metadata":"z","other":1}
`
	got := records(t, text, set)
	for i, want := range []Record{
		{Line: 1, CustomID: []byte("12"), API: "/chat/completions", Model: "m", Priority: High, Task: "sum", Tenant: "acme", Metadata: []byte(`{"topic": "t","n":1.0,"url":"u","id":7}`)},
		{Line: 2, API: "/chat/completions", Model: "m", Priority: Low, Metadata: []byte(`{"a": 1}`)},
		{Line: 3, CustomID: []byte(`"k"`), API: "/chat/completions", Model: "m"},
		{Line: 4, Shape: Raw, API: "/chat/completions", Model: "o", Metadata: []byte("[1]")},
		{Line: 5, CustomID: []byte(`"b"`), Shape: Batch, API: "/moderations", Model: "x", Metadata: []byte(`"z"`)},
	} {
		r := got[i]
		if r.Sum == 0 || r.Op == "" || r.Digest == [32]byte{} {
			t.Errorf("got %+v", r)
		}
		r.Sum, r.Op, r.Digest, r.Body = 0, "", [32]byte{}, nil
		if !reflect.DeepEqual(r, want) {
			t.Errorf("got  %+v\nwant %+v", r, want)
		}
	}
}

func TestNever(t *testing.T) {
	const url = `{"url":"/v1/responses","body":{"model":"m",`
	for line, want := range map[string]bool{
		`{"prompt":"x","retry":"never"}`:                                                      true,
		`{"prompt":"x","retry":null}`:                                                         false,
		url + `"tools":[{"type":"web_search"}]}}`:                                             true,
		url + `"tools":[{"type":"function"},{"type":"mcp"}]}}`:                                true,
		url + `"tools":[{"type":"function"},{"type":"c\u0075stom"},{"name":"x"},3,null]}}`:    false,
		url + `"tools":[]}}`:                                                                  false,
		url + `"tools":{"type":"mcp"}}}`:                                                      false,
		url + `"web_search_options":{}}}`:                                                     true,
		url + `"web_search_options":null}}`:                                                   false,
		`{"custom_id":"a","params":{"model":"m","mcp_servers":[{}]}}`:                         true,
		`{"custom_id":"a","params":{"model":"m","tools":[{"name":"x","input_schema":{}}]}}`:   false,
		`{"custom_id":"a","params":{"model":"m","tools":[{"type":"web_search_20250305"}]}}`:   true,
		`{"model":"m","messages":[],"plugins":[{"id":"web"}]}`:                                true,
		`{"prompt":"x","plugins":[{"id":"web"}]}`:                                             false,
		`{"prompt":"x","tools":[{"type":"code_interpreter"}]}`:                                true,
		`{"prompt":"x","tools":[{"type":"function","function":{"name":"f","type":"mcp"}}]}`:   false,
		`{"model":"m","input":"x","tools":[{"type":"function","x":[{"type":"web_search"}]}]}`: false,
	} {
		if got := records(t, line, &Settings{Model: "m", Anthropic: true}); got[0].Never != want {
			t.Errorf("%s: got %v, want %v", line, got[0].Never, want)
		}
	}
	set := &Settings{Model: "m", ExtraBody: []byte(`{"tools":[{"type":"web_search"}]}`)}
	if got := records(t, `{"prompt":"x"}`, set); !got[0].Never {
		t.Error("hosted tools of --extra-body: got false")
	}
}

func TestDigest(t *testing.T) {
	base := `{"prompt":"x"}`
	digest := func(line string, s Settings) [32]byte {
		if s.Model == "" {
			s.Model = "m"
		}
		return records(t, line, &s)[0].Digest
	}
	want := digest(base, Settings{})
	for _, c := range []struct {
		name string
		got  [32]byte
		same bool
	}{
		{"id and order", digest(`{ "topic":1, "prompt":"\u0078", "id":5}`, Settings{}), true},
		{"same as raw", digest(`{"messages":[{"content":"x","role":"user"}],"model":"m"}`, Settings{}), true},
		{"priority, limits of lines", digest(`{"priority":"high","retry":"never","prompt":"x"}`, Settings{MaxLineBytes: 99}), true},
		{"model", digest(base, Settings{Model: "n"}), false},
		{"system", digest(base, Settings{System: "s"}), false},
		{"max-tokens", digest(base, Settings{MaxTokens: 1}), false},
		{"temperature", digest(base, Settings{Temperature: "0"}), false},
		{"extra body", digest(base, Settings{ExtraBody: []byte(`{"n":1}`)}), false},
		{"template", digest(base, Settings{Template: "{{.prompt}}!"}), false},
		{"explicit 0", digest(`{"prompt":"x","temperature":0}`, Settings{}), false},
		{"embeddings", digest(`{"input":"x"}`, Settings{}), false},
	} {
		if (c.got == want) != c.same {
			t.Errorf("%s: same digest is %v, want %v", c.name, !c.same, c.same)
		}
	}
	if digest(`{"prompt":"x\ud835y"}`, Settings{}) == digest(`{"prompt":"x\ud836y"}`, Settings{}) {
		t.Error("lone surrogates are mixed up")
	}
	if digest(`{"prompt":"x","seed":1}`, Settings{}) == digest(`{"prompt":"x","seed":1000000000000000000001}`, Settings{}) {
		t.Error("numbers are mixed up")
	}
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		` { "b" : 1.0 , "a" : [ 1e5 , true , null , { } , [ ] ] } `: `{"a":[1e5,true,null,{},[]],"b":1.0}`,
		`{"\u0061":1,"a!":2,"a":3,"":4}`:                            `{"":4,"a":1,"a":3,"a!":2}`,
		`"\u003c\/\u00e9\ud83d\ude00\ud835\u0041\n\u000b\"\\"`:      `"</é😀\ud835A\n\u000b\"\\"`,
		`"\ude00\ud83d\ud83d\ude00"`:                                `"\ude00\ud83d😀"`,
		`{"b":{"z":1,"y":{"d":1,"c":2}},"a":{"z":1,"y":2}}`:         `{"a":{"y":2,"z":1},"b":{"y":{"c":2,"d":1},"z":1}}`,
		`-0`: `-0`,
	} {
		var c canonical
		if got := string(c.form([]byte(in))); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", in, got, want)
		}
	}
}

func TestReplaceModel(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": 1, "model" : "x" , "b":{"model":"y"}}`: `{"a": 1, "model" : "n" , "b":{"model":"y"}}`,
		`{"m\u006fdel":null}`:                         `{"m\u006fdel":"n"}`,
		` { } `:                                       `{"model":"n" }`,
		`{"a":1}`:                                     `{"model":"n","a":1}`,
	} {
		if got, err := ReplaceModel([]byte(in), "n"); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "[]", `{"a":`, "x"} {
		if got, err := ReplaceModel([]byte(in), "n"); err == nil {
			t.Errorf("%q: got %s", in, got)
		}
	}
}

func TestTemplateFaults(t *testing.T) {
	for _, c := range []struct{ template, line, want string }{
		{"{{.a}}", `{"b":1}`, `line 1, column 1: the template needs a field "a", which the line does not have`},
		{"{{.o.a}}", `{"o":{}}`, `line 1, column 1: the template needs a field "a", which the line does not have`},
		{"{{.a.b}}", `{"a":"x"}`, `line 1, column 1: template: template:1:4: executing "template" at <.a.b>: can't evaluate field b in type interface {}`},
	} {
		_, rep := preflight(t, open(t, c.line), &Settings{Model: "m", Template: c.template})
		if len(rep.Problems) != 1 || rep.Problems[0].String() != c.want {
			t.Errorf("got  %v\nwant %s", rep.Problems, c.want)
		}
	}
	got := records(t, `{"s":"é\ud835"}`, &Settings{Model: "m", Template: `{{slice .s 0 1}}{{slice .s 2 4}}`})
	if want := `{"model":"m","messages":[{"role":"user","content":"���"}]}`; string(got[0].Body) != want {
		t.Errorf("got %s, want %s", got[0].Body, want)
	}
}

func TestSettingsErrors(t *testing.T) {
	for want, s := range map[string]Settings{
		"--template and --prompt-field exclude each other":      {Template: "x", PromptField: "y"},
		"template: template:1: unclosed action":                 {Template: "{{.a"},
		`temperature "3" is not between 0 and 2`:                {Temperature: "3"},
		`temperature "NaN" is not between 0 and 2`:              {Temperature: "NaN"},
		`temperature "0x1" is not between 0 and 2`:              {Temperature: "0x1"},
		"max-tokens -1 is negative":                             {MaxTokens: -1},
		"extra-body must be a JSON object":                      {ExtraBody: []byte("[]")},
		"extra-body must be one JSON object":                    {ExtraBody: []byte("{} {}")},
		`extra-body: key "a" is there twice`:                    {ExtraBody: []byte(`{"a":1,"a":2}`)},
		"extra-body: column 6: a value should be here, not '}'": {ExtraBody: []byte(`{"a":}`)},
	} {
		_, _, err := Preflight(context.Background(), open(t, ""), &s)
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestRecordWithOtherSettings(t *testing.T) {
	f := open(t, `{"prompt":"x"}`)
	ix, _ := preflight(t, f, &Settings{Model: "m"})
	r, err := f.Record(ix, 0, &Settings{Model: "n", ExtraBody: []byte(`{"n":2}`)})
	if want := `{"model":"n","messages":[{"role":"user","content":"x"}],"n":2}`; err != nil || string(r.Body) != want {
		t.Errorf("got %s, %v, want %s", r.Body, err, want)
	}
}
