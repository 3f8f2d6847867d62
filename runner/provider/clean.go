package provider

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxMessage = 2 << 10 // bytes of server text that are kept
	maxName    = 200     // bytes of an id, model or code

	// minSecret is the length under which a key is not searched for: "none"
	// or "x" given to a local server would black out ordinary words.
	minSecret = 6
	// prefixLen: these first characters alone give a key away, so text that
	// starts with them is cut out up to its end.
	prefixLen = 12
)

// Redactor cuts secrets out of text and makes server text fit for a terminal
// and a log. The zero value knows no secret. Safe for concurrent use.
type Redactor struct {
	plain  []string // forms cut out as they are
	prefix []string // forms cut out with the rest of their word
}

// NewRedactor makes a Redactor for the given secrets: each is found as it is,
// by its first 12 characters, URL-escaped and in base64 at any alignment.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		if len(s) > prefixLen {
			r.prefix = append(r.prefix, s[:prefixLen])
		}
		r.plain = append(r.plain, s)
		for _, e := range []string{url.QueryEscape(s), url.PathEscape(s)} {
			if e != s {
				r.plain = append(r.plain, e)
			}
		}
		for shift := range 3 {
			r.plain = append(r.plain, base64Core(s, shift)...)
		}
	}
	return r
}

// base64Core returns the part of the base64 of s, standing shift bytes into a
// group of three, that does not depend on its neighbours.
func base64Core(s string, shift int) []string {
	in := append(make([]byte, shift), s...)
	drop := (shift*8 + 5) / 6
	var out []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		e := enc.EncodeToString(in)
		if end := len(in) * 8 / 6; end-drop >= minSecret {
			out = append(out, e[drop:end])
		}
	}
	return out
}

// Redact cuts the secrets out of s.
func (r *Redactor) Redact(s string) string {
	if r == nil {
		return s
	}
	for _, p := range r.plain {
		s = strings.ReplaceAll(s, p, redacted)
	}
	for _, p := range r.prefix {
		s = cutWords(s, p)
	}
	return s
}

// cutWords cuts out all words from where the prefix begins in them.
func cutWords(s, prefix string) string {
	before, rest, found := strings.Cut(s, prefix)
	if !found {
		return s
	}
	var b strings.Builder
	for found {
		b.WriteString(before)
		b.WriteString(redacted)
		end := 0
		for end < len(rest) && isKeyByte(rest[end]) {
			end++
		}
		before, rest, found = strings.Cut(rest[end:], prefix)
	}
	b.WriteString(before)
	return b.String()
}

func isKeyByte(c byte) bool {
	return c == '-' || c == '_' || c == '.' || c == '*' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// Clean makes one line of at most 2 KiB of server text: secrets cut out, line
// breaks and runs of blanks made one blank, control and bidirectional
// characters shown as \u escapes, broken UTF-8 replaced.
func (r *Redactor) Clean(s string) string { return r.clean(s, maxMessage) }

// CleanName is Clean for an id, a code or a model name: at most 200 bytes.
func (r *Redactor) CleanName(s string) string { return r.clean(s, maxName) }

func (r *Redactor) clean(s string, limit int) string {
	// Both cuts bound the work; the second comes after the secrets are out, so
	// that it cannot leave half of one.
	s = r.Redact(s[:min(len(s), maxErrorBody)])
	s = s[:min(len(s), 8*limit)]
	var b strings.Builder
	blank := false
	for _, c := range s {
		if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
			blank = b.Len() > 0
			continue
		}
		if b.Len() > limit {
			break
		}
		if blank {
			b.WriteByte(' ')
			blank = false
		}
		if Hidden(c) {
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		}
		b.WriteRune(c)
	}
	return cut(b.String(), limit)
}

// Hidden reports characters that act on a terminal or a page instead of showing:
// C0, DEL, C1, and all format characters, bidirectional overrides among them.
func Hidden(c rune) bool {
	return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == '\u2028' || c == '\u2029'
}

// cut shortens s to limit bytes at a character's border.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit - len("…")
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// IsHTML reports that an answer is a page, by its type or its first character.
func IsHTML(h http.Header, body []byte) bool {
	if strings.Contains(strings.ToLower(h.Get("Content-Type")), "html") {
		return true
	}
	return strings.HasPrefix(strings.TrimSpace(string(body[:min(len(body), 64)])), "<")
}

// EdgeMessage is what is kept of a page sent in place of an API's answer:
// "524 from edge, ray 8f2c".
func (r *Redactor) EdgeMessage(status int, h http.Header) string {
	if ray := r.CleanName(h.Get("Cf-Ray")); ray != "" {
		return fmt.Sprintf("%d from edge, ray %s", status, ray)
	}
	return fmt.Sprintf("%d from edge", status)
}

// RequestID returns the cleaned request id of an answer, by whichever header
// the provider uses.
func (r *Redactor) RequestID(h http.Header) string {
	for _, name := range []string{"X-Request-Id", "Request-Id", "X-Generation-Id", "Apim-Request-Id"} {
		if v := h.Get(name); v != "" {
			return r.CleanName(v)
		}
	}
	return ""
}
