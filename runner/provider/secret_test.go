package provider

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const canary = "sk-CANARY-7f3a9c0d5e"

func TestSecretNeverPrints(t *testing.T) {
	s, err := NewSecret(canary)
	if err != nil {
		t.Fatal(err)
	}
	type holder struct {
		Public Secret
		hidden Secret
	}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb, s)
		fmt.Fprintf(&out, verb, &s)
		fmt.Fprintf(&out, verb, holder{s, s})
		fmt.Fprintf(&out, verb, []Secret{s})
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", s, "in", holder{s, s})
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", s, "in", holder{s, s})
	if err := json.NewEncoder(&out).Encode(holder{s, s}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "CANARY") || strings.Contains(out.String(), fmt.Sprintf("%x", "CANARY")) {
		t.Errorf("the key shows in %s", out.String())
	}
	if s.Reveal() != canary {
		t.Errorf("got %q, want the key", s.Reveal())
	}
}

func TestSecretFile(t *testing.T) {
	tests := []struct {
		in, want string
		mode     os.FileMode
		warns    bool
	}{
		{canary + "\n", canary, 0o600, false},
		{"\xef\xbb\xbf" + canary + " \r\n", canary, 0o600, false},
		{"\n" + canary, canary, 0o644, true},
		{"sk-CANARY\n-7f3a", "", 0o600, false},
		{"sk-CANARY\x00-7f3a", "", 0o600, false},
		{" \n", "", 0o600, false},
		{strings.Repeat("k", maxKeyFile+1), "", 0o600, false},
	}
	for i, tt := range tests {
		path := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := os.WriteFile(path, []byte(tt.in), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, tt.mode); err != nil {
			t.Fatal(err)
		}
		s, warning, err := ReadSecretFile(path)
		if s.Reveal() != tt.want || (warning != "") != tt.warns || (err != nil) != (tt.want == "") {
			t.Errorf("%.30q: got %q, %q, %v", tt.in, s.Reveal(), warning, err)
		}
		if err != nil && strings.Contains(err.Error(), "CANARY") {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
}

func TestClean(t *testing.T) {
	r := NewRedactor(canary, "", "x")
	tests := []struct{ in, want string }{
		{"Incorrect API key provided: " + canary + ". See", "Incorrect API key provided: [redacted]. See"},
		{"cut: sk-CANARY-7f***", "cut: [redacted]"},
		{"cut: sk-CANARY-7f3a9", "cut: [redacted]"},
		{"x marks the spot", "x marks the spot"},
		{"a\r\n\tb  c ", "a b c"},
		{"\x1b[2J\x07\u009b31m \u202eevil\u2066\x7f", `\u001b[2J\u0007\u009b31m \u202eevil\u2066\u007f`},
		{"bad \xff\xfe utf8", "bad �� utf8"},
		{"日本語", "日本語"},
	}
	for _, tt := range tests {
		if got := r.Clean(tt.in); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
	for shift := range 4 {
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			e := enc.EncodeToString([]byte("user:"[:shift] + canary + "zz"))
			if got := r.Clean("basic " + e); !strings.Contains(got, redacted) {
				t.Errorf("base64 at offset %d: got %q, want it redacted", shift, got)
			}
		}
	}
	odd := NewRedactor("key/with+odd=chars")
	if got := odd.Clean("?key=" + url.QueryEscape("key/with+odd=chars")); got != "?key=[redacted]" {
		t.Errorf("URL-escaped: got %q", got)
	}
	long := r.Clean(strings.Repeat("é", 5000))
	if len(long) > maxMessage || !strings.HasSuffix(long, "…") {
		t.Errorf("got %d bytes ending in %q, want at most %d and an ellipsis", len(long), long[len(long)-6:], maxMessage)
	}
}

func TestEdgePage(t *testing.T) {
	var r *Redactor
	page := []byte("\n<!DOCTYPE html><title>524</title>")
	if h := head("Cf-Ray", "8f2c\x1b-FRA"); !IsHTML(h, page) || r.EdgeMessage(524, h) != `524 from edge, ray 8f2c\u001b-FRA` {
		t.Errorf("got %q", r.EdgeMessage(524, h))
	}
	if IsHTML(http.Header{}, []byte(`{"a":"<b>"}`)) {
		t.Error("JSON taken for a page")
	}
}

func TestCheckBaseURL(t *testing.T) {
	for in, ok := range map[string]bool{
		"https://api.openai.com/v1": true, "http://127.0.0.1:8000/v1/": true, "http://localhost:1": true, "http://[::1]:1/v1": true,
		"http://127.8.8.8": true, "http://LOCALHOST": true, "http://10.0.0.1": false, "http://example.com/v1": false, "http://0.0.0.0:80": false,
		"http://localhost.evil.com": false, "ftp://x": false, "https://u:CANARY@x/v1": false, "https://": false, "api.openai.com/v1": false,
		"": false, "https://x/#f": false, "https://x/#": false, "https://x/v1?key=CANARY": false, "https://x/v1?": false, "file:///etc/passwd": false, "https:x": false, "http://x\x00?k=CANARY": false,
	} {
		u, err := CheckBaseURL(in, false)
		if (err == nil) != ok {
			t.Errorf("%q: got %v, %v; want ok %t", in, u, err, ok)
		}
		if err != nil && strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%q: the error repeats the credentials: %v", in, err)
		}
	}
	if u, err := CheckBaseURL("http://10.0.0.1/v1/", true); err != nil || u.String() != "http://10.0.0.1/v1" {
		t.Errorf("allowed plain HTTP: got %v, %v", u, err)
	}
}

func TestProfiles(t *testing.T) {
	env := func(kv ...string) func(string) string {
		return func(name string) string {
			for i := 0; i+1 < len(kv); i += 2 {
				if kv[i] == name {
					return kv[i+1]
				}
			}
			return ""
		}
	}
	seen := map[string]bool{}
	for _, p := range Profiles() {
		if seen[p.Name] || p.AuthHeader == "" || p.Accounting == "" {
			t.Errorf("%s: a second entry, or one without auth header or accounting", p.Name)
		}
		seen[p.Name] = true
		if p.BaseURL != "" {
			if _, err := CheckBaseURL(p.BaseURL, false); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
		}
	}
	for _, tt := range []struct{ name, env, value, want string }{
		{"openai", "OPENAI_BASE_URL", "http://127.0.0.1:1/x", "http://127.0.0.1:1/x"},
		{"openai", "X", "", "https://api.openai.com/v1"},
		{"groq", "GROQ_BASE_URL", "https://api.groq.com", "https://api.groq.com/openai/v1"},
		{"ollama", "OLLAMA_HOST", "0.0.0.0", "http://127.0.0.1:11434/v1"},
		{"ollama", "OLLAMA_HOST", "box:8080", "http://box:8080/v1"},
		{"ollama", "OLLAMA_HOST", "https://box/ollama/v1", "https://box/ollama/v1"},
	} {
		p, _ := Lookup(tt.name)
		if got, _ := p.Base(env(tt.env, tt.value)); got != tt.want {
			t.Errorf("%s with %s=%s: got %q, want %q", tt.name, tt.env, tt.value, got, tt.want)
		}
	}
	for _, tt := range []struct{ profile, api, model, want string }{
		{"openai", "/chat/completions", "gpt-4o", "max_completion_tokens"},
		{"openai", "/responses", "gpt-5", "max_output_tokens"},
		{"openai-compatible", "/chat/completions", "openai/GPT-5-mini", "max_completion_tokens"},
		{"openai-compatible", "/chat/completions", "qwen", "max_tokens"},
		{"ollama", "/chat/completions", "gpt-oss", "max_tokens"},
		{"openai", "/completions", "davinci-002", "max_tokens"},
	} {
		p, _ := Lookup(tt.profile)
		if got := p.CapParam(tt.api, tt.model); got != tt.want {
			t.Errorf("%s %s %s: got %s, want %s", tt.profile, tt.api, tt.model, got, tt.want)
		}
	}
}

func TestKindNames(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		back, ok := ParseKind(k.String())
		if k.String() == "" || seen[k.String()] || !ok || back != k {
			t.Errorf("kind %d: name %q is missing, doubled or does not lead back", k, k)
		}
		seen[k.String()] = true
	}
	if _, ok := ParseKind(""); ok {
		t.Error("the empty name found a kind")
	}
}
