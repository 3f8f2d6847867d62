package input

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// maxDepth is how deep a line's arrays and objects may nest. Servers stop between 100 and 10,000.
const maxDepth = 1000

// A fault is what is wrong with a line and at which of its bytes.
type fault struct {
	pos int
	msg string
}

// Error is the message alone: the place needs the whole line.
func (f *fault) Error() string { return f.msg }

// A span is a part of a line. The zero span is none: no value starts at a line's first byte but the whole.
type span struct{ start, end int32 }

func (s span) of(b []byte) []byte { return b[s.start:s.end] }

func (s span) some() bool { return s.end > 0 }

// A member of an object: its key without the quotes, as written, and its value.
type member struct{ key, val span }

// name is the member's key with its escapes resolved.
func (m member) name(b []byte) []byte {
	key := m.key.of(b)
	if bytes.IndexByte(key, '\\') < 0 {
		return key
	}
	return appendUnquoted(nil, key)
}

// scanner checks one line against RFC 8259, strictly, and notes the members of the object and of its body and params.
// Its methods take the index to start from and give the one to go on from, or -1 with fault set.
type scanner struct {
	b                 []byte
	top, body, params []member
	fault             *fault
}

func (s *scanner) fail(pos int, format string, args ...any) int {
	s.fault = &fault{pos, fmt.Sprintf(format, args...)}
	return -1
}

func (s *scanner) space(i int) int {
	for i < len(s.b) && (s.b[i] == ' ' || s.b[i] == '\t' || s.b[i] == '\n' || s.b[i] == '\r') {
		i++
	}
	return i
}

func (s *scanner) value(i, depth int) int {
	if i >= len(s.b) {
		return s.fail(i, "the line ends where a value should be")
	}
	switch c := s.b[i]; {
	case c == '"':
		return s.str(i + 1)
	case c == '{':
		return s.object(i, depth+1, nil)
	case c == '[':
		return s.array(i, depth+1)
	case c == '-' || c >= '0' && c <= '9':
		return s.number(i)
	case c == 't':
		return s.word(i, "true")
	case c == 'f':
		return s.word(i, "false")
	case c == 'n':
		return s.word(i, "null")
	}
	return s.notJSON(i)
}

// object scans an object. Its members are noted when into is not nil.
func (s *scanner) object(i, depth int, into *[]member) int {
	if depth > maxDepth {
		return s.fail(i, "arrays and objects nest deeper than %d", maxDepth)
	}
	if i = s.space(i + 1); i < len(s.b) && s.b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(s.b) {
			return s.fail(i, "the line ends inside an object: one JSON object a line, on one line (jq -c . makes it so)")
		}
		if s.b[i] != '"' {
			return s.fail(i, "a key in double quotes should be here, not %s", s.glyph(i))
		}
		key := i + 1
		if i = s.str(key); i < 0 {
			return -1
		}
		keyEnd := i - 1
		if i = s.space(i); i >= len(s.b) || s.b[i] != ':' {
			return s.fail(i, "a colon should be here, not %s", s.glyph(i))
		}
		val := s.space(i + 1)
		if i = s.member(key, keyEnd, val, depth, into); i < 0 {
			return -1
		}
		if into != nil {
			*into = append(*into, member{span{int32(key), int32(keyEnd)}, span{int32(val), int32(i)}})
		}
		if i = s.space(i); i >= len(s.b) {
			continue
		}
		if s.b[i] == '}' {
			return i + 1
		}
		if s.b[i] != ',' {
			return s.fail(i, "a comma or } should be here, not %s", s.glyph(i))
		}
		i = s.space(i + 1)
	}
}

// member scans a member's value; the objects body and params of the line itself are noted as well.
func (s *scanner) member(key, keyEnd, val, depth int, into *[]member) int {
	if depth == 1 && into == &s.top && val < len(s.b) && s.b[val] == '{' {
		m := member{key: span{int32(key), int32(keyEnd)}}
		switch string(m.name(s.b)) {
		case "body":
			s.body = s.body[:0]
			return s.object(val, depth+1, &s.body)
		case "params":
			s.params = s.params[:0]
			return s.object(val, depth+1, &s.params)
		}
	}
	return s.value(val, depth)
}

func (s *scanner) array(i, depth int) int {
	if depth > maxDepth {
		return s.fail(i, "arrays and objects nest deeper than %d", maxDepth)
	}
	if i = s.space(i + 1); i < len(s.b) && s.b[i] == ']' {
		return i + 1
	}
	for {
		if i = s.value(i, depth); i < 0 {
			return -1
		}
		if i = s.space(i); i >= len(s.b) {
			return s.fail(i, "the line ends inside an array")
		}
		if s.b[i] == ']' {
			return i + 1
		}
		if s.b[i] != ',' {
			return s.fail(i, "a comma or ] should be here, not %s", s.glyph(i))
		}
		i = s.space(i + 1)
	}
}

// str scans a string from behind its opening quote. Eight bytes at a time are looked at for one that ends the string or needs a closer
// look; the lowest flag of a word is exact, borrows only disturb higher ones.
func (s *scanner) str(i int) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	b, start := s.b, i
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, slash := w^ones*'"', w^ones*'\\'
			if m := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w | w) & high; m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			return s.fail(start-1, "the string that starts here has no closing quote")
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = s.escape(i); i < 0 {
				return -1
			}
		case c < 0x20:
			return s.fail(i, "control character %s in a string: write it as \\u%04x", s.glyph(i), c)
		case c < utf8.RuneSelf:
			i++
		default:
			for i < len(b) && b[i] >= utf8.RuneSelf {
				r, size := utf8.DecodeRune(b[i:])
				if r == utf8.RuneError && size == 1 {
					return s.fail(i, "byte 0x%02x is not UTF-8: convert the file to UTF-8", b[i])
				}
				i += size
			}
		}
	}
}

func (s *scanner) escape(i int) int {
	if i+1 >= len(s.b) {
		return s.fail(i, "the line ends inside an escape")
	}
	switch s.b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if i+6 <= len(s.b) && isHex(s.b[i+2]) && isHex(s.b[i+3]) && isHex(s.b[i+4]) && isHex(s.b[i+5]) {
			return i + 6
		}
		return s.fail(i, `\u needs four hexadecimal digits`)
	}
	return s.fail(i, "\\%s is no escape of JSON", s.glyph(i+1))
}

func isHex(c byte) bool {
	return c-'0' <= 9 || c|0x20-'a' <= 5
}

func (s *scanner) number(i int) int {
	start, b := i, s.b
	if b[i] == '-' {
		if i++; i < len(b) && (b[i] == 'I' || b[i] == 'N' || b[i] == 'i') {
			return s.notJSON(start)
		}
	}
	first := i
	if i = s.digits(i); i < 0 {
		return -1
	}
	if b[first] == '0' && i > first+1 {
		return s.fail(start, "a number may not start with 0")
	}
	if i < len(b) && b[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return s.digits(i)
	}
	return i
}

func (s *scanner) digits(i int) int {
	start := i
	for i < len(s.b) && s.b[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return s.fail(i, "a digit should be here, not %s", s.glyph(i))
	}
	return i
}

func (s *scanner) word(i int, w string) int {
	if len(s.b)-i >= len(w) && string(s.b[i:i+len(w)]) == w {
		return i + len(w)
	}
	return s.notJSON(i)
}

// notJSON names what other languages write and JSON does not know.
func (s *scanner) notJSON(i int) int {
	for _, w := range []string{"NaN", "nan", "Infinity", "-Infinity", "-NaN", "inf", "-inf", "None", "True", "False", "undefined"} {
		if bytes.HasPrefix(s.b[i:], []byte(w)) {
			return s.fail(i, "%s is not JSON: write null, true, false or a number, or leave the field out", w)
		}
	}
	return s.fail(i, "a value should be here, not %s", s.glyph(i))
}

// glyph is the character at i as a message may show it.
func (s *scanner) glyph(i int) string {
	if i >= len(s.b) {
		return "the end of the line"
	}
	r, size := utf8.DecodeRune(s.b[i:])
	if r == utf8.RuneError && size == 1 {
		return fmt.Sprintf("byte 0x%02x", s.b[i])
	}
	return fmt.Sprintf("%q", r)
}

// lookup finds a member by name.
func (s *scanner) lookup(members []member, name string) span {
	for _, m := range members {
		if string(m.name(s.b)) == name {
			return m.val
		}
	}
	return span{}
}

// repeated gives the first key that an object has twice.
func repeated(b []byte, members []member) (again, first member, found bool) {
	plain := len(members) <= 32
	for i, m := range members {
		plain = plain && bytes.IndexByte(m.key.of(b), '\\') < 0
		for j := 0; j < i && plain; j++ {
			if o := members[j]; o.key.end-o.key.start == m.key.end-m.key.start && bytes.Equal(o.key.of(b), m.key.of(b)) {
				return m, o, true
			}
		}
	}
	if plain {
		return again, first, false
	}
	seen := make(map[string]member, len(members))
	for _, m := range members {
		name := string(m.name(b))
		if o, ok := seen[name]; ok {
			return m, o, true
		}
		seen[name] = m
	}
	return again, first, false
}
