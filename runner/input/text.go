package input

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Strings are decoded to UTF-8 with one addition: a surrogate that has no partner, which JSON can write and UTF-8 cannot, becomes the
// three bytes that UTF-8's scheme would give it (0xED 0xA0..0xBF 0x80..0xBF). No valid UTF-8 holds them, so nothing is lost or mixed up,
// and appendQuoted writes them as the escape they came from.

// appendUnquoted decodes the inside of a valid JSON string.
func appendUnquoted(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		c := s[i+1]
		s = s[i+2:]
		switch c {
		case 'u':
			var size int
			dst, size = appendEscaped(dst, s)
			s = s[size:]
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		default:
			dst = append(dst, c)
		}
	}
}

// appendEscaped decodes what follows \u, a second escape with it where the two are a pair, and says how many bytes that took.
func appendEscaped(dst, s []byte) ([]byte, int) {
	r := hex4(s)
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r), 4
	}
	if len(s) >= 10 && s[4] == '\\' && s[5] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(s[6:])); pair != utf8.RuneError {
			return utf8.AppendRune(dst, pair), 10
		}
	}
	return append(dst, 0xED, 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F), 4
}

func hex4(s []byte) rune {
	var r rune
	for _, c := range s[:4] {
		if c > '9' {
			c = c&0x0F + 9
		}
		r = r<<4 | rune(c&0x0F)
	}
	return r
}

const hexDigits = "0123456789abcdef"

// appendQuoted writes decoded text as a JSON string. Only what must be escaped is.
func appendQuoted[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		lone := c == 0xED && i+2 < len(s) && s[i+1] >= 0xA0
		if c >= 0x20 && c != '"' && c != '\\' && !lone {
			continue
		}
		dst = append(dst, s[start:i]...)
		switch {
		case lone:
			dst = append(dst, '\\', 'u', 'd', hexDigits[s[i+1]>>2&0xF], hexDigits[s[i+1]&3<<2|s[i+2]>>4&3], hexDigits[s[i+2]&0xF])
			i += 2
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF])
		}
		start = i + 1
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// text decodes a JSON string, quotes included, to valid UTF-8: a surrogate without a partner is shown as its escape.
func text(quoted []byte) string {
	if len(quoted) < 2 {
		return ""
	}
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	s := string(appendUnquoted(nil, inner))
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		if r, size := utf8.DecodeRuneInString(s); r != utf8.RuneError || size != 1 {
			b.WriteString(s[:size])
			s = s[size:]
			continue
		}
		esc := appendQuoted(nil, s[:3])
		b.Write(esc[1 : len(esc)-1])
		s = s[3:]
	}
	return b.String()
}
