package wire

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// list reads the events' data, up to a bare one's, in brackets.
func list(r io.Reader) ([]string, error) {
	events := NewEvents(r)
	var got []string
	for {
		ev, err := events.Next()
		if err != nil {
			return got, err
		}
		if ev.Bare {
			return append(got, "<"+string(ev.Data)+">"), io.EOF
		}
		got = append(got, string(ev.Data))
	}
}

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, tt := range map[string]struct {
		in   string
		want []string
	}{
		"nothing":            {"", nil},
		"one":                {"data: a\n\n", []string{"a"}},
		"no blank":           {"data:a\n\n", []string{"a"}},
		"two blanks":         {"data:  a\n\n", []string{" a"}},
		"lines":              {"data: a\ndata\ndata: b\n\n", []string{"a\n\nb"}},
		"named":              {"event: e\nid: 1\nretry: 5\ndata: a\n\nevent: no data\n\ndata: b\n\n", []string{"a", "b"}},
		"comments":           {": c\n:\n\ndata: a\n: c\n\n\n\n", []string{"a"}},
		"CRLF":               {"data: a\r\ndata: b\r\n\r\n", []string{"a\nb"}},
		"BOM":                {"\xef\xbb\xbfdata: a\n\n", []string{"a"}},
		"unknown field":      {"foo: a\ndata: b\n\n", []string{"b"}},
		"long":               {"data: " + long + "\n\n", []string{long}},
		"cut, whole JSON":    {"data: {\"a\":1}", []string{`{"a":1}`}},
		"cut, done":          {"data: [DONE]\n", []string{"[DONE]"}},
		"cut JSON":           {"data: {}\n\ndata: {\"a\":", []string{"{}"}},
		"bare JSON":          {"data: {}\n\n{\n \"error\": {\n\n \"code\": 1}\n}\n", []string{"{}", "<{\n \"error\": {\n\n \"code\": 1}\n}>"}},
		"bare JSON and more": {"{\"error\":1}\ndata: x\n\n", []string{`<{"error":1}>`}},
	} {
		for way, in := range map[string]io.Reader{
			"at once": strings.NewReader(tt.in), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.in)), "with EOF": iotest.DataErrReader(strings.NewReader(tt.in)),
		} {
			got, err := list(in)
			if !errors.Is(err, io.EOF) || strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Errorf("%s, %s: got %.200q, %v; want %.200q", name, way, got, err, tt.want)
			}
		}
	}
}

func TestEventsPassErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	if got, err := list(io.MultiReader(strings.NewReader("data: a\n\ndata: {}\n"), iotest.ErrReader(broken))); !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("got %q, %v; want one event and the error", got, err)
	}
	var e *provider.Error
	if _, err := list(strings.NewReader("{\"a\":1,}\n")); !errors.As(err, &e) || e.Kind != provider.KindBadContentType {
		t.Errorf("got %v, want bad_content_type", err)
	}
	if _, err := list(strings.NewReader("{\"a\":1")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want an unexpected end", err)
	}
	endless := io.MultiReader(strings.NewReader("data: "), repeat('x'))
	if _, err := list(endless); !errors.As(err, &e) || e.Kind != provider.KindResponseTooLarge {
		t.Errorf("an endless line: got %v, want response_too_large", err)
	}
}

type repeat byte

func (r repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

// counter is whole after the event "end".
type counter struct {
	n    int
	over bool
}

func (c *counter) Add(data json.RawMessage) bool {
	c.n++
	c.over = c.over || string(data) == `"end"`
	return c.over && c.n > 2
}

func (c *counter) Answer() ([]byte, bool) { return []byte{byte('0' + c.n)}, c.over }

func TestCollect(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		in   io.Reader
		want string
		err  error
	}{
		"whole":                {strings.NewReader("data: 1\n\ndata: 2\n\ndata: \"end\"\n\ndata: 4\n\n"), "3", nil},
		"end of stream":        {strings.NewReader("data: \"end\"\n\n"), "1", nil},
		"done":                 {io.MultiReader(strings.NewReader("data: \"end\"\n\ndata: [DONE]\n\n"), iotest.ErrReader(broken)), "1", nil},
		"broken once whole":    {io.MultiReader(strings.NewReader("data: \"end\"\n\n"), iotest.ErrReader(broken)), "1", nil},
		"broken":               {io.MultiReader(strings.NewReader("data: 1\n\n"), iotest.ErrReader(broken)), "", broken},
		"ends early":           {strings.NewReader("data: 1\n\n"), "", io.ErrUnexpectedEOF},
		"done early":           {strings.NewReader("data: 1\n\ndata: [DONE]\n\n"), "", io.ErrUnexpectedEOF},
		"a document":           {strings.NewReader("\n {\"error\":1}"), "{\"error\":1}", nil},
		"a broken document":    {io.MultiReader(strings.NewReader("{\"a"), iotest.ErrReader(broken)), "", broken},
		"a page":               {strings.NewReader("<html>"), "<html>", nil},
		"bare in the stream":   {strings.NewReader("data: 1\n\n{\"error\":1}\n"), "{\"error\":1}", nil},
		"comment, then a list": {strings.NewReader(": hi\n\n[{\"error\":1}]\n"), "[{\"error\":1}]", nil},
	} {
		got, err := Collect(tt.in, &counter{})
		if tt.err != nil {
			if !errors.Is(err, tt.err) {
				t.Errorf("%s: got %q, %v; want %v", name, got, err, tt.err)
			}
		} else if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, tt.want)
		}
	}
	var e *provider.Error
	for name, in := range map[string]string{"an event that is no JSON": "data: what\n\n", "a text": ": x\nupstream connect error\n", "a text with a colon": "error: upstream"} {
		if _, err := Collect(strings.NewReader(in), &counter{}); !errors.As(err, &e) || e.Kind != provider.KindBadContentType {
			t.Errorf("%s: got %v, want bad_content_type", name, err)
		}
	}
}

// FuzzEvents: reading ends, however the bytes are cut, and finds the same.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{"data: a\n\n", "event: x\r\ndata: {\"a\":1}\r\n\r\n: c\n{\"error\":\n1}", "\xef\xbb\xbfdata\n\ndata: [DONE]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := list(strings.NewReader(in))
		again, err2 := list(iotest.OneByteReader(strings.NewReader(in)))
		if err == nil || err2 == nil {
			t.Fatal("got no end")
		}
		if strings.Join(got, "|") != strings.Join(again, "|") {
			t.Errorf("%q: got %q and %q", in, got, again)
		}
	})
}
