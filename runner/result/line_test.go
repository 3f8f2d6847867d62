package result

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// testLine returns a line with every field set.
func testLine() *Line {
	return &Line{
		ID: "llmbatch-1", CustomID: json.RawMessage(`"a-1"`),
		Response: &Response{StatusCode: 200, RequestID: "req_1", Body: json.RawMessage(`{"n":1.0}`)},
		Error:    &Error{Code: "server", Message: "status 500"},
		LLM: Meta{
			Op: "a-1", Digest: "ab", Key: "k", Line: 3, Sum: "cd", Provider: "openai", Model: "gpt-5-mini", Attempts: 2,
			Usage: Usage{1, 2, 3, 4}, LatencyMS: 812, Finish: "stop", Class: "server", Incarnation: 1, CopyOf: "a-0", Cached: true, LookedUp: true, Degraded: []string{"max_tokens:256", "smaller_model"}, Run: "5a17",
			Metadata: json.RawMessage(`{"tag":"x"}`), Native: json.RawMessage(`[1]`),
		},
	}
}

func TestEncodeIsStable(t *testing.T) {
	const full = `{"id":"llmbatch-1","custom_id":"a-1","response":{"status_code":200,"request_id":"req_1","body":{"n":1.0}},` +
		`"error":{"code":"server","message":"status 500"},"llmbatch":{"op":"a-1","digest":"ab","key":"k","line":3,"sum":"cd",` +
		`"provider":"openai","model":"gpt-5-mini","attempts":2,"usage":{"input_tokens":1,"output_tokens":2,"cached_tokens":3,` +
		`"reasoning_tokens":4},"latency_ms":812,"finish":"stop","class":"server","incarnation":1,"copy_of":"a-0","cached":true,"looked_up":true,"degraded":["max_tokens:256","smaller_model"],"run":"5a17",` +
		`"metadata":{"tag":"x"},"native":[1]}}`
	const bare = `{"id":"","custom_id":null,"response":null,"error":null,"llmbatch":{"op":"b","digest":"","key":"","line":0,` +
		`"sum":"","provider":"","model":"","attempts":0,"usage":{"input_tokens":0,"output_tokens":0,"cached_tokens":0,` +
		`"reasoning_tokens":0},"latency_ms":0,"run":""}}`
	for want, line := range map[string]*Line{full: testLine(), bare: {LLM: Meta{Op: "b"}}} {
		if got := string(line.Encode()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if got, err := Decode([]byte(want)); err != nil || !reflect.DeepEqual(got, line) {
			t.Errorf("Decode(%s) = %+v, %v; want %+v", want, got, err, line)
		}
	}
}

func TestBodiesKeepTheirBytes(t *testing.T) {
	for body, want := range map[string]string{
		`{"b":1.0,"a":9007199254740993,"a":"\u003c<&>\ud835"}`: `{"b":1.0,"a":9007199254740993,"a":"\u003c<&>\ud835"}`,
		"{\n  \"a\": [1,\r\n 2],\t\"b\": \" \\n \"}\n":         `{"a":[1,2],"b":" \n "}`,
		"{\"a\":\"x\xff\xfey\"}":                               `{"a":"x` + "\uFFFD" + `y"}`,
		`<html>`:                                               `"<html>"`,
		"":                                                     `""`,
		`null`:                                                 `null`,
		strings.Repeat("[", 10_001):                            `"` + strings.Repeat("[", 10_001) + `"`,
	} {
		l := &Line{Response: &Response{Body: json.RawMessage(body)}, LLM: Meta{Op: "a"}}
		got := string(l.Encode())
		if !strings.Contains(got, `"body":`+want+`},"error"`) {
			t.Errorf("body %q became %s; want %s", body, got, want)
		}
	}
}

func TestStringsAreEscaped(t *testing.T) {
	for _, s := range []string{"", "plain", `"\`, "\x00\x1b\x7f\n\r\t", "é漢😀\u2028", "<&>", "\xff", "../../x"} {
		l := &Line{ID: s, LLM: Meta{Op: s + "x"}}
		b := l.Encode()
		got, err := Decode(b)
		if err != nil || got.ID != strings.ToValidUTF8(s, "\uFFFD") {
			t.Errorf("%q came back as %q, %v", s, got.ID, err)
		}
		if strings.ContainsAny(string(b), "\n\r\x00\x1b\x7f") {
			t.Errorf("%q is written raw in %q", s, b)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for line, want := range map[string]error{
		`{"id":"batch_req_1","custom_id":"a","response":{},"error":null}`: ErrNotOurs,
		`{}`: ErrNotOurs, `null`: ErrNotOurs, ``: nil, `{"id":"x`: nil, `[]`: nil, `{"llmbatch":{"op":"a"}}x`: nil,
	} {
		if l, err := Decode([]byte(line)); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("Decode(%q) = %+v, %v; want an error", line, l, err)
		}
	}
}

// checkDecoders compares the fast decoder, where it says yes, and the walk over a value with encoding/json.
func checkDecoders(t *testing.T, line []byte) {
	t.Helper()
	var want Line
	err := json.Unmarshal(line, &want)
	if got, ok := decodeOurs(line); ok && (err != nil || !reflect.DeepEqual(got, &want)) {
		t.Fatalf("%q: got %+v, want %+v, %v", line, got, want, err)
	}
	p := parser{b: line, ok: true}
	if p.raw(); p.ok && p.i == len(line) && !json.Valid(line) {
		t.Fatalf("%q passes as a value", line)
	}
}

func TestValuesAreReadStrictly(t *testing.T) {
	for _, good := range []string{
		`{}`, `[]`, `{"a":[1,-0,0.5e+3,1E-2,null,true,false,""]}`, `"\u00eF\"\\\/\b"`, `-12`, `[[[]]]`, `"abcdefgh01234567\n"`, "\"\x7f\xff\"",
		strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
	} {
		p := parser{b: []byte(good), ok: true}
		if p.raw(); !p.ok || p.i != len(good) {
			t.Errorf("%.40q is not read", good)
		}
	}
	deepest := Line{Response: &Response{Body: []byte(strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000))}, LLM: Meta{Op: "a"}}
	if _, err := Decode(deepest.Encode()); err != nil {
		t.Errorf("the deepest body that is written is not read: %v", err)
	}
	for _, bad := range []string{
		``, `{`, `[1`, `[1,]`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1,}`, `01`, `1.`, `.5`, `1e`, `-`, `+1`, `tru`, `nul`, `NaN`, `"`, `"\x"`, `"\u12"`,
		`"\u12g4"`, `"\u\u0010"`, "\"a\nb\"", "\"abcdefgh\x00\"", `[1 2]`, `]`, `}`, strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
	} {
		p := parser{b: []byte(bad), ok: true}
		if p.raw(); p.ok && p.i == len(bad) {
			t.Errorf("%.40q passes", bad)
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add(string(testLine().Encode()), "a", []byte(`{"x":[1, 2]}`))
	f.Add(`{"id":"x","llmbatch":{"op":"\ud835"}}`, "\xff", []byte("{"))
	f.Fuzz(func(t *testing.T, line, text string, body []byte) {
		checkDecoders(t, []byte(line))
		if l, err := Decode([]byte(line)); err == nil {
			again, err := Decode(l.Encode())
			if err != nil || again.LLM.Op != l.LLM.Op || again.LLM.Usage != l.LLM.Usage {
				t.Fatalf("%q decodes, but not again: %+v, %v", line, again, err)
			}
		}
		l := &Line{ID: text, Response: &Response{RequestID: text, Body: body}, LLM: Meta{Op: "o" + text, Metadata: body}}
		b := l.Encode()
		if !json.Valid(b) || !utf8.Valid(b) || strings.ContainsAny(string(b), "\n\r") {
			t.Fatalf("wrote %q", b)
		}
		if _, ok := decodeOurs(b); !ok {
			t.Fatalf("the fast decoder does not read %q", b)
		}
		checkDecoders(t, b)
		checkDecoders(t, b[:len(b)*len(line)%(len(b)+1)])
	})
}

func BenchmarkEncode(b *testing.B) {
	l := testLine()
	l.Response.Body = json.RawMessage(`{"choices":[{"message":{"role":"assistant","content":"` + strings.Repeat("word ", 200) + `"}}]}`)
	b.SetBytes(int64(len(l.Encode())))
	b.ReportAllocs()
	for b.Loop() {
		l.Encode()
	}
}

func BenchmarkDecode(b *testing.B) {
	l := testLine()
	l.Response.Body = json.RawMessage(`{"choices":[{"message":{"role":"assistant","content":"` + strings.Repeat("word ", 200) + `"}}]}`)
	line := l.Encode()
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(line); err != nil {
			b.Fatal(err)
		}
	}
}
