package wire

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// Fields yields the members of an object in their order, and nothing for any
// other value. The JSON must be valid; the values are parts of it, not copies.
// A stream has tens of thousands of small events, for which encoding/json's
// own ways are several times slower.
func Fields(object json.RawMessage) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		walk(object, '{', func(name, value []byte) bool { return yield(nameOf(name), value) })
	}
}

// Elements yields the elements of an array, and nothing for any other value.
// The JSON must be valid; the elements are parts of it, not copies.
func Elements(list json.RawMessage) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		walk(list, '[', func(_, value []byte) bool { return yield(value) })
	}
}

// Member is the value of an object's member; nil where there is none, and of
// any other value. The JSON must be valid.
func Member(object json.RawMessage, name string) (value json.RawMessage) {
	for n, v := range Fields(object) {
		if n == name {
			value = v // of several the last, as encoding/json has it
		}
	}
	return value
}

// walk calls fn for what stands in an object or an array.
func walk(b []byte, open byte, fn func(name, value []byte) bool) {
	b = bytes.TrimSpace(b)
	if len(b) < 2 || b[0] != open {
		return
	}
	for i := 1; i < len(b)-1; {
		var name []byte
		if open == '{' {
			end := skip(b, i)
			name = bytes.TrimSpace(b[i:end])
			i = end + bytes.IndexByte(b[end:], ':') + 1
		}
		end := skip(b, i)
		if value := bytes.TrimSpace(b[i:end]); len(value) > 0 && !fn(name, value) {
			return
		}
		if i = end + 1; end >= len(b)-1 { // behind the comma
			return
		}
	}
}

// skip returns where the value that begins at or after i ends: at the comma,
// colon or bracket that follows it.
func skip(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return min(i, len(b))
}

// nameOf is the text of a quoted name; bytes that are no UTF-8 are replaced as
// encoding/json does.
func nameOf(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) && len(quoted) >= 2 {
		return string(quoted[1 : len(quoted)-1])
	}
	var name string
	_ = json.Unmarshal(quoted, &name)
	return name
}
