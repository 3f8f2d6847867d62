package input

import (
	"strings"
	"testing"
)

func TestLowerCap(t *testing.T) {
	for _, c := range []struct {
		name, body, param string
		most              int64
		want              string // "" = the body as it is
	}{
		{"lowered where it stands", `{ "model": "m",  "max_tokens" : 900, "x":1.0}`, "max_tokens", 100, `{ "model": "m",  "max_tokens" : 100, "x":1.0}`},
		{"under the caller's own name", `{"max_tokens":900}`, "max_completion_tokens", 100, `{"max_tokens":100}`},
		{"never raised", `{"max_tokens":99}`, "max_tokens", 100, ""},
		{"as low already", `{"max_tokens":100}`, "max_tokens", 100, ""},
		{"under either name", `{"max_tokens":5,"max_completion_tokens":900}`, "max_tokens", 100, `{"max_tokens":5,"max_completion_tokens":100}`},
		{"put last", `{"a":"\u00e9", "n":1e2 }`, "max_completion_tokens", 100, `{"a":"\u00e9", "n":1e2 ,"max_completion_tokens":100}`},
		{"into nothing", ` {} `, "max_tokens", 7, ` {"max_tokens":7} `},
		{"null is none", `{"max_tokens":null,"a":1}`, "max_tokens", 7, `{"max_tokens":7,"a":1}`},
		{"null under another name", `{"max_tokens":null}`, "max_completion_tokens", 7, `{"max_tokens":null,"max_completion_tokens":7}`},
		{"written otherwise", `{"max_output_tokens":1.5e3}`, "max_output_tokens", 16, `{"max_output_tokens":16}`},
		{"no number is the server's to judge", `{"max_tokens":"many"}`, "max_tokens", 7, ""},
		{"not inside", `{"tools":[{"max_tokens":9}]}`, "max_tokens", 7, `{"tools":[{"max_tokens":9}],"max_tokens":7}`},
	} {
		out, lowered, err := LowerCap([]byte(c.body), c.param, c.most)
		want := c.want
		if want == "" {
			want = c.body
		}
		if err != nil || string(out) != want || lowered != (c.want != "") {
			t.Errorf("%s: got %s, %t, %v; want %s", c.name, out, lowered, err, want)
		}
	}
	if _, _, err := LowerCap([]byte(`[1]`), "max_tokens", 7); err == nil {
		t.Error("an array was taken for a body")
	}
}

func TestKeepsCap(t *testing.T) {
	for body, want := range map[string]bool{
		`{"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":8000}}`: true,
		`{"max_tokens":9000,"messages":[{"content":"budget_tokens"}]}`:           false,
		`{"max_tokens":9000}`: false,
	} {
		if got := KeepsCap([]byte(body)); got != want {
			t.Errorf("%s: got %t, want %t", body, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		name, line string
		chars      int64
		want       string // "" = the line as it is
	}{
		{"plain", `{"id":1, "context": "abcdef", "x":2}`, 3, `{"id":1, "context": "abc [...]", "x":2}`},
		{"short enough", `{"context":"abc"}`, 3, ""},
		{"between characters of several bytes", `{"context":"äöü€"}`, 2, `{"context":"äö [...]"}`},
		{"an escape is one character", `{"context":"a\n\u00e9\"z"}`, 3, `{"context":"a\n\u00e9 [...]"}`},
		{"so is a pair", `{"context":"\ud83d\ude00\ud83d\ude00b"}`, 1, `{"context":"\ud83d\ude00 [...]"}`},
		{"no string", `{"context":["abcdef"]}`, 3, ""},
		{"not there", `{"other":"abcdef"}`, 3, ""},
		{"not inside", `{"a":{"context":"abcdef"}}`, 3, ""},
		{"a key with an escape", `{"c\u006fntext":"abcdef"}`, 3, `{"c\u006fntext":"abc [...]"}`},
	} {
		out, done := shorten([]byte(c.line), Cut{"context", c.chars})
		want := c.want
		if want == "" {
			want = c.line
		}
		if string(out) != want || done != (c.want != "") {
			t.Errorf("%s: got %s, %t; want %s", c.name, out, done, want)
		}
	}
}

// A field that the template puts into the prompt is cut in the line, and the request made of that.
func TestShortened(t *testing.T) {
	s := &Settings{Model: "m", Template: `Q: {{.q}} C: {{.context}}`}
	f := open(t, `{"id":"a","q":"why","context":"`+strings.Repeat("ü", 50)+`"}`+"\n"+`{"id":"b","q":"why","context":"short"}`)
	ix, _ := preflight(t, f, s)
	body, cut, err := f.Shortened(ix, 0, s, []Cut{{"context", 4}, {"q", 10}})
	if err != nil || len(cut) != 1 || cut[0].Field != "context" || !strings.Contains(string(body), `"Q: why C: üüüü [...]"`) {
		t.Errorf("got %s, %v, %v", body, cut, err)
	}
	if body, cut, err := f.Shortened(ix, 1, s, []Cut{{"context", 5}}); body != nil || cut != nil || err != nil {
		t.Errorf("nothing to cut: got %s, %v, %v", body, cut, err)
	}
}

func TestNameCap(t *testing.T) {
	for _, c := range []struct{ body, name, want string }{
		{`{"model":"m", "max_tokens" : 5,"stop":"max_tokens"}`, "max_completion_tokens", `{"model":"m", "max_completion_tokens" : 5,"stop":"max_tokens"}`},
		{`{"model":"m","max_completion_tokens":5}`, "max_tokens", `{"model":"m","max_tokens":5}`},
		{`{"model":"m","max_tokens":5}`, "max_tokens", `{"model":"m","max_tokens":5}`},
		{`{"model":"m","x":{"max_tokens":5}}`, "max_completion_tokens", `{"model":"m","x":{"max_tokens":5}}`},
	} {
		if got, err := NameCap([]byte(c.body), c.name); err != nil || string(got) != c.want {
			t.Errorf("%s as %s: got %s, %v; want %s", c.body, c.name, got, err, c.want)
		}
	}
}
