package fake

import "unicode/utf8"

// The scanner walks JSON that json.Valid has accepted, so it checks no bounds that validity implies.

func space(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r' {
		i++
	}
	return i
}

// str returns the raw text between the quotes of the string at i and the index behind it.
func str(b []byte, i int) (raw []byte, end int) {
	start := i + 1
	for i = start; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return b[start:i], i + 1
}

// skip returns the index behind the value at i.
func skip(b []byte, i int) int {
	switch b[i] {
	case '"':
		_, end := str(b, i)
		return end
	case '{', '[':
		depth := 0
		for {
			switch b[i] {
			case '"':
				_, i = str(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	return i
}

// object calls fn with each key (raw) of the object at i and the value's own bytes. It does nothing for another value.
func object(b []byte, fn func(key, value []byte)) {
	if len(b) == 0 || b[0] != '{' {
		return
	}
	for i := space(b, 1); b[i] != '}'; {
		key, at := str(b, i)
		at = space(b, space(b, at)+1)
		end := skip(b, at)
		fn(key, b[at:end])
		if i = space(b, end); b[i] == ',' {
			i = space(b, i+1)
		}
	}
}

// array calls fn with each element of the array b.
func array(b []byte, fn func(value []byte)) {
	if len(b) == 0 || b[0] != '[' {
		return
	}
	for i := space(b, 1); b[i] != ']'; {
		end := skip(b, i)
		fn(b[i:end])
		if i = space(b, end); b[i] == ',' {
			i = space(b, i+1)
		}
	}
}

// runes counts the characters that a raw JSON string stands for.
func runes(raw []byte) int {
	n := 0
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '\\' && raw[i+1] == 'u':
			if !(raw[i+2]|0x20 == 'd' && raw[i+3]|0x20 >= 'c') { // the low half of a surrogate pair is no character of its own
				n++
			}
			i += 6
		case c == '\\':
			n, i = n+1, i+2
		case c < utf8.RuneSelf:
			n, i = n+1, i+1
		default:
			_, size := utf8.DecodeRune(raw[i:])
			n, i = n+1, i+size
		}
	}
	return n
}

// number reads a non-negative whole number; anything else is 0.
func number(b []byte) int {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' || n > 1<<40 {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// unquote returns a string value's raw text without its quotes; nil for another value.
func unquote(b []byte) []byte {
	if len(b) < 2 || b[0] != '"' {
		return nil
	}
	return b[1 : len(b)-1]
}
