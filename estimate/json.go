package estimate

import (
	"bytes"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// reader walks JSON text in place: it builds no values, and skips what nobody
// asks for. After a fault it stands at the end and gives nothing more; fault
// says where. It is as strict as it needs to be for not going astray: input
// lines are validated before they get here.
type reader struct {
	b     []byte
	i     int
	depth int // of objects and arrays that are being read
	fault error
}

// maxDepth is how deep reader goes into objects and arrays. What lies deeper,
// which no API has, is skipped: the stack stays small whatever the input.
const maxDepth = 64

func (r *reader) fail(what string) {
	if r.fault == nil {
		r.fault = fmt.Errorf("request body: %s at byte %d", what, r.i)
	}
	r.i = len(r.b)
}

// next returns the first byte of the value or sign that follows, without
// taking it, or 0 at the end.
func (r *reader) next() byte {
	for ; r.i < len(r.b); r.i++ {
		switch c := r.b[r.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// object calls field for each field of the object that follows. What field does
// not read is skipped. A value that is no object is skipped whole.
func (r *reader) object(field func(key []byte)) {
	if r.next() != '{' || r.depth == maxDepth {
		r.skip()
		return
	}
	r.depth++
	defer func() { r.depth-- }()
	r.i++
	if r.next() == '}' {
		r.i++
		return
	}
	for {
		if r.next() != '"' {
			r.fail("no field name")
			return
		}
		key := r.string()
		if r.next() != ':' {
			r.fail("no colon")
			return
		}
		r.i++
		r.value(func() { field(key.plain()) })
		if !r.more('}') {
			return
		}
	}
}

// array calls item for each item of the array that follows, as object does.
func (r *reader) array(item func()) {
	if r.next() != '[' || r.depth == maxDepth {
		r.skip()
		return
	}
	r.depth++
	defer func() { r.depth-- }()
	r.i++
	if r.next() == ']' {
		r.i++
		return
	}
	for {
		r.value(item)
		if !r.more(']') {
			return
		}
	}
}

// value lets read take the value that follows, or skips it.
func (r *reader) value(read func()) {
	r.next()
	start := r.i
	read()
	if r.i == start {
		r.skip()
	}
}

// more takes the comma after a value and reports whether there was one; else it
// takes the end of the object or array.
func (r *reader) more(end byte) bool {
	switch r.next() {
	case ',':
		r.i++
		return true
	case end:
		r.i++
	default:
		r.fail("no comma")
	}
	return false
}

// skip takes the value that follows.
func (r *reader) skip() {
	depth := 0
	for {
		switch c := r.next(); c {
		case '"':
			r.string()
		case '{', '[':
			depth++
			r.i++
		case '}', ']', ',', ':':
			if depth == 0 {
				r.fail("no value")
				return
			}
			if c == '}' || c == ']' {
				depth--
			}
			r.i++
		case 0:
			r.fail("unexpected end")
			return
		default:
			for r.i < len(r.b) && bytes.IndexByte(stops, r.b[r.i]) < 0 {
				r.i++
			}
		}
		if depth == 0 || r.fault != nil {
			return
		}
	}
}

var stops = []byte(" \t\r\n,:]}[{\"")

// maxInteger is the largest number that integer gives: products of two stay
// within an int.
const maxInteger = 1 << 30

// integer takes the number that follows, or maxInteger for a larger one;
// anything but an integer of at least zero is skipped and gives 0.
func (r *reader) integer() int {
	r.next()
	start := r.i
	r.skip()
	n := 0
	for _, c := range r.b[start:r.i] {
		if c < '0' || c > '9' {
			return 0
		}
		n = min(n*10+int(c-'0'), maxInteger)
	}
	return n
}

// quoted is a JSON string as it stands, without its quotes.
type quoted struct {
	raw     []byte
	escaped bool
}

// string takes the string that follows; a value of another type is skipped and
// gives an empty one. Its time is that of finding the closing quote, even for
// megabytes of base64.
func (r *reader) string() quoted {
	if r.next() != '"' {
		r.skip()
		return quoted{}
	}
	start := r.i + 1
	q := quoted{}
	for i, end := start, 0; ; {
		if end < i {
			n := bytes.IndexByte(r.b[i:], '"')
			if n < 0 {
				r.fail("string without an end")
				return quoted{}
			}
			end = i + n
		}
		if k := bytes.IndexByte(r.b[i:end], '\\'); k >= 0 {
			q.escaped = true
			i += k + 2
			continue
		}
		q.raw = r.b[start:end]
		r.i = end + 1
		return q
	}
}

// plain returns the text of a string that is expected to be short.
func (q quoted) plain() []byte {
	if !q.escaped {
		return q.raw
	}
	return q.append(nil)
}

// append appends the text of q to dst. A half of a surrogate pair becomes
// U+FFFD.
func (q quoted) append(dst []byte) []byte {
	raw := q.raw
	if !q.escaped {
		return append(dst, raw...)
	}
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 || n+1 == len(raw) {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:n]...)
		c := raw[n+1]
		raw = raw[n+2:]
		switch c {
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
		case 'u':
			var c rune
			c, raw = escapedRune(raw)
			dst = utf8.AppendRune(dst, c)
		default: // the quote, the backslash, the slash
			dst = append(dst, c)
		}
	}
}

// escapedRune reads what follows \u, and the second half of a pair with it.
func escapedRune(raw []byte) (rune, []byte) {
	c, ok := hex4(raw)
	if !ok {
		return utf8.RuneError, raw
	}
	raw = raw[4:]
	if !utf16.IsSurrogate(c) {
		return c, raw
	}
	if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
		if d, ok := hex4(raw[2:]); ok {
			if full := utf16.DecodeRune(c, d); full != utf8.RuneError {
				return full, raw[6:]
			}
		}
	}
	return utf8.RuneError, raw
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
