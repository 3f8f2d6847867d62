package input

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// memory stands in for a file.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// FuzzLines feeds arbitrary files. Each line that is not blank must be an operation or a fault, and each operation a valid request.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"x"}]}}`), byte(0))
	f.Add([]byte("\xEF\xBB\xBF{\"prompt\":\"a\\ud835\"}\r\n\r\n{\"prompt\":\"b\",\"id\":1}\n{\"id\":\"1\",\"prompt\":3}"), byte(1))
	f.Add([]byte(`{"model":"m","task":"t","messages":[{"role":"system","content":""}],"tools":[{"type":"mcp"}],"retry":"never"}`), byte(2))
	f.Add([]byte(`{"messages":[],"system":"x"}`+"\n"+`{"input":["a"]}`+"\n"+`{"custom_id":"p","params":{"model":"c"}}`), byte(3))
	f.Add([]byte(`{"q":"x","o":{"a":[null,1e5]}}`), byte(4))
	sets := []Settings{
		{},
		{Model: "m"},
		{OverrideModel: "o", IDField: "q"},
		{Model: "m", Anthropic: true, System: "s", MaxTokens: 1, Temperature: "1"},
		{Model: "m", Template: "{{.q}}{{.}}"},
		{Model: "m", PromptField: "q", ExtraBody: []byte(`{"n":1}`)},
		{Model: "m", MaxLineBytes: 40},
	}
	f.Fuzz(func(t *testing.T, text []byte, which byte) {
		set := sets[int(which)%len(sets)]
		checkFile(t, &File{f: memory{bytes.NewReader(text)}, size: int64(len(text))}, &set, text)
	})
}

func checkFile(t *testing.T, in *File, set *Settings, text []byte) {
	t.Helper()
	ix, rep := preflight(t, in, set)
	filled, lines := 0, bytes.Split(text, []byte{'\n'})
	for i, l := range lines {
		lines[i] = bytes.Trim(bytes.TrimPrefix(l, bom), " \t\r")
		filled += btoi(len(lines[i]) > 0)
	}
	if ix.Len() != filled || rep.Operations+rep.Invalid != filled || len(rep.Problems)+rep.More != rep.Invalid {
		t.Fatalf("got %d entries, %+v for %d lines that are not blank", ix.Len(), rep, filled)
	}
	ops, n := map[string]bool{}, 0
	near := ix.Cursor()
	for i := range ix.Operations() {
		r, err := in.Record(ix, i, set)
		if err != nil {
			t.Fatal(err)
		}
		n++
		if !json.Valid(r.Body) || r.Metadata != nil && !json.Valid(r.Metadata) || r.Model == "" || r.API == "" || ops[r.Op] {
			t.Fatalf("got %+v with body %s, metadata %s", r, r.Body, r.Metadata)
		}
		var body map[string]any
		if err := json.Unmarshal(r.Body, &body); err != nil || body["model"] != r.Model && !strings.Contains(r.Model, `\ud`) {
			t.Fatalf("got model %q in %s, want %q: %v", body["model"], r.Body, r.Model, err)
		}
		if at, ok := ix.Find(r.Op); !ok || at != i {
			t.Fatalf("Find(%q) = %d, %v, want %d", r.Op, at, ok, i)
		}
		if at, ok := near.Find(r.Op); !ok || at != i {
			t.Fatalf("Cursor: Find(%q) = %d, %v, want %d", r.Op, at, ok, i)
		}
		ops[r.Op] = true
		if line := lines[r.Line-1]; !json.Valid(line) {
			t.Fatalf("accepted: %s", line)
		}
	}
	for l, err := range in.Invalid(ix, set) {
		if err != nil || l.Msg == "" || l.Line < 1 || ops[l.Op] {
			t.Fatalf("got %+v, %v", l, err)
		}
		n++
		ops[l.Op] = true
	}
	if n != filled {
		t.Fatalf("got %d lines back, want %d", n, filled)
	}
}

// FuzzJSON holds the scanner and the canonical form against encoding/json.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[true,null,-1.5e+7,"\ud835\u0041"]}`, `"\ud83d\ude00"`, `[[[]]]`, `01`, "\"\xff\"", "nul", `{"a":1,}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := scanner{b: b}
		end := s.value(s.space(0), 0)
		valid := end >= 0 && s.space(end) == len(b)
		stricter := !utf8.Valid(b) || s.fault != nil && strings.Contains(s.fault.msg, "deeper")
		if want := json.Valid(b); valid && !want || !valid && want && !stricter {
			t.Fatalf("%q: got %v (%v), encoding/json says %v", b, valid, s.fault, want)
		}
		if !valid {
			return
		}
		var c canonical
		one := bytes.Clone(c.form(b))
		if !json.Valid(one) {
			t.Fatalf("%q: canonical %q is not valid", b, one)
		}
		if two := c.form(one); !bytes.Equal(one, two) {
			t.Fatalf("%q: canonical %q becomes %q", b, one, two)
		}
		var x, y any
		if json.Unmarshal(b, &x) == nil && json.Unmarshal(one, &y) == nil && !reflect.DeepEqual(x, y) {
			t.Fatalf("%q: canonical %q says something else", b, one)
		}
	})
}
