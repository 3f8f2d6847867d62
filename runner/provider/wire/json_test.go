package wire

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSetMember(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{}`, `{"s":true}`},
		{` { "a" : 1.0 } `, ` { "a" : 1.0 ,"s":true} `},
		{`{"s" : false, "a":"\ud835 <"}`, `{"s" : true, "a":"\ud835 <"}`},
		{`{"a":{"s":1},"s":null}`, `{"a":{"s":1},"s":true}`},
		{`[]`, ``},
		{`{"a":`, ``},
		{`x`, ``},
	} {
		got, err := SetMember([]byte(tt.in), "s", "true")
		if string(got) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: got %s, %v; want %s", tt.in, got, err, tt.want)
		}
	}
}

// FuzzSetMember: what comes out is an object that has the member, and the
// others as they were.
func FuzzSetMember(f *testing.F) {
	f.Add(`{"a":1,"s":{}}`)
	f.Fuzz(func(t *testing.T, in string) {
		got, err := SetMember([]byte(in), "s", "true")
		if err != nil || !json.Valid([]byte(in)) {
			return
		}
		var before, after map[string]json.RawMessage
		if json.Unmarshal([]byte(in), &before) != nil || json.Unmarshal(got, &after) != nil {
			t.Fatalf("%q: got %q", in, got)
		}
		for name, v := range before {
			if name != "s" && string(after[name]) != string(v) {
				t.Errorf("%q: %s became %s", in, name, after[name])
			}
		}
		if strings.Count(in, `"s"`) <= 1 && string(after["s"]) != "true" {
			t.Errorf("%q: got %q", in, got)
		}
	})
}

func TestText(t *testing.T) {
	for in, want := range map[string]Text{`"a"`: "a", `1`: "1", `null`: "", `{"x":1}`: `{"x":1}`, `true`: "true"} {
		var got Text
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestPayload(t *testing.T) {
	for in, want := range map[string]string{
		"{}": "{}", "\xef\xbb\xbf{}\n": "{}", "\n\r\n{}": "{}", ": keep-alive\n\n: x\n{}": "{}", ": only": "", "": "",
	} {
		if got := string(Payload([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
