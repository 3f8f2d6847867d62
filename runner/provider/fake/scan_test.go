package fake

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestRunes(t *testing.T) {
	for _, s := range []string{"", "abc", `a\"b\\`, "é日😀", `\u00e9\ud83d\ude00\uD83D\uDE00x`, `\n\/`} {
		var v string
		if err := json.Unmarshal([]byte(`"`+s+`"`), &v); err != nil {
			t.Fatal(err)
		}
		if got, want := runes([]byte(s)), utf8.RuneCountInString(v); got != want {
			t.Errorf("%q: got %d characters, want %d", s, got, want)
		}
	}
}

// FuzzRead reads any body: it never fails by a panic, takes what encoding/json takes, and finds the same model.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		chat("hello"), `{"model":"m","input":[[1,2],[3]],"dimensions":3}`, `{ "model" : "m" , "prompt" : [ "a" , "b" ] , "n" : 2 }`,
		`{"messages":[{"content":[{"type":"text","text":"\ud83d\ude00"}]}],"stream":true}`, `{"a":{"b":[1,{"c":"]}"}]},"model":"x"}`, `[]`, `{`, `{}`, "\f{}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c := call{api: apiChat}
		ok := c.read(body)
		var v map[string]json.RawMessage
		if want := json.Unmarshal(body, &v) == nil && v != nil; ok != want {
			t.Fatalf("got %v, encoding/json says %v", ok, want)
		}
		if !ok {
			return
		}
		var keys int
		object(c.body, func(_, value []byte) {
			keys++
			if !json.Valid(value) {
				t.Fatalf("got a value %q", value)
			}
		})
		if keys < len(v) {
			t.Fatalf("got %d keys, want at least %d", keys, len(v))
		}
	})
}
