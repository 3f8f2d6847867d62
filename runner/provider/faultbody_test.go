package provider

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestFaultBody(t *testing.T) {
	r := NewRedactor(canary, `odd"key/with\signs`)
	object := `{"z":1.0,"error":{"code":9007199254740993,"message":"\u00fc <b>"}}`
	for _, tt := range []struct{ name, in, want string }{
		{"JSON as it came", " " + object + "\n", object},
		{"the key", `{"error":"no such key ` + canary + `","a":1}`, `{"a":1,"error":"no such key [redacted]"}`},
		{"the key behind escapes", `{"error":"\u0073k-CANARY-7f3a9c0d5e"}`, `{"error":"[redacted]"}`},
		{"a key that JSON has to escape", `{"error":"odd\"key\/with\\signs"}`, `{"error":"[redacted]"}`},
		{"the key as a name", `{"` + canary + `":[true,null]}`, `{"[redacted]":[true,null]}`},
		{"text", "no \x1b[2J key\n" + canary, `"no \\u001b[2J key [redacted]"`},
		{"cut JSON", `{"error":`, `"{\"error\":"`},
		{"a page", "<html>x</html>", ""},
		{"nothing", " \n", ""},
	} {
		if got := string(r.FaultBody(http.Header{}, []byte(tt.in))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	for _, long := range []string{`{"error":"` + strings.Repeat("é", 4000) + canary + `"}`, strings.Repeat("[", 300<<10), canary + strings.Repeat("x ", 9000)} {
		got := r.FaultBody(http.Header{}, []byte(long))
		var text string
		if err := json.Unmarshal(got, &text); err != nil || len(text) > maxMessage || strings.Contains(text, "CANARY") {
			t.Errorf("%.20s...: got %d bytes (%v), want a string of at most %d without the key", long, len(got), err, maxMessage)
		}
	}
}

// FuzzText holds the two forms in which a server's text is kept, whatever it
// says: bounded, without the key, and nothing in the message that a terminal
// would act on.
func FuzzText(f *testing.F) {
	f.Add(`{"error":{"message":"Incorrect API key provided: `+canary+`"}}`, "")
	f.Add("\x1b]52;c;\x07\u202e\r\n", canary[:12])
	f.Add(`{"error":"\u0073k-CANARY-7f3a9c0d5e"}`, "x")
	r := NewRedactor(canary)
	f.Fuzz(func(t *testing.T, head, tail string) {
		body := head + canary + tail
		message := r.Clean(body)
		if len(message) > maxMessage || strings.Contains(message, canary[:12]) || strings.ContainsFunc(message, Hidden) {
			t.Errorf("%q became %q", body, message)
		}
		kept := r.FaultBody(http.Header{}, []byte(body))
		if kept != nil && !json.Valid(kept) || len(kept) > 6*maxMessage || strings.Contains(string(kept), canary[:12]) {
			t.Errorf("%q is kept as %q", body, kept)
		}
	})
}
