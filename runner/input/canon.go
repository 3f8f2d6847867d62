package input

import (
	"bytes"
	"crypto/sha256"
	"slices"
)

// canonical writes valid JSON in one form for all spellings of the same document: no blanks, keys sorted, strings with only the escapes
// they need, numbers as they are written. Not safe for concurrent use; the zero value is ready.
type canonical struct {
	b     []byte
	out   []byte
	tmp   []byte
	parts []part
}

// A part of out: one member of an object, with the end of its key.
type part struct{ start, key, end int }

// form gives the canonical form of b, which must be valid JSON. It is overwritten by the next call.
func (c *canonical) form(b []byte) []byte {
	c.b, c.out, c.parts = b, c.out[:0], c.parts[:0]
	c.value(c.space(0))
	return c.out
}

func (c *canonical) space(i int) int {
	for i < len(c.b) && (c.b[i] == ' ' || c.b[i] == '\t' || c.b[i] == '\n' || c.b[i] == '\r') {
		i++
	}
	return i
}

func (c *canonical) value(i int) int {
	switch c.b[i] {
	case '{':
		return c.object(i)
	case '[':
		return c.array(i)
	case '"':
		return c.str(i)
	}
	start := i
	for i < len(c.b) && c.b[i] > ' ' && c.b[i] != ',' && c.b[i] != ']' && c.b[i] != '}' {
		i++
	}
	c.out = append(c.out, c.b[start:i]...)
	return i
}

func (c *canonical) array(i int) int {
	c.out = append(c.out, '[')
	i = c.space(i + 1)
	for c.b[i] != ']' {
		if c.b[i] == ',' {
			c.out = append(c.out, ',')
			i = c.space(i + 1)
		}
		i = c.space(c.value(i))
	}
	c.out = append(c.out, ']')
	return i + 1
}

func (c *canonical) object(i int) int {
	c.out = append(c.out, '{')
	from, first, sorted := len(c.out), len(c.parts), true
	i = c.space(i + 1)
	for c.b[i] != '}' {
		if c.b[i] == ',' {
			c.out = append(c.out, ',')
			i = c.space(i + 1)
		}
		p := part{start: len(c.out)}
		i = c.space(c.str(i))
		p.key = len(c.out) - 1
		c.out = append(c.out, ':')
		i = c.space(c.value(c.space(i + 1)))
		p.end = len(c.out)
		if n := len(c.parts); n > first && c.compare(c.out, c.parts[n-1], p) > 0 {
			sorted = false
		}
		c.parts = append(c.parts, p)
	}
	if !sorted {
		c.sort(from, c.parts[first:])
	}
	c.parts = c.parts[:first]
	c.out = append(c.out, '}')
	return i + 1
}

func (c *canonical) compare(b []byte, x, y part) int {
	return bytes.Compare(b[x.start:x.key], b[y.start:y.key])
}

// sort puts an object's members in the order of their keys; equal keys stay as they came.
func (c *canonical) sort(from int, parts []part) {
	slices.SortStableFunc(parts, func(x, y part) int { return c.compare(c.out, x, y) })
	c.tmp = append(c.tmp[:0], c.out[from:]...)
	c.out = c.out[:from]
	for i, p := range parts {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, c.tmp[p.start-from:p.end-from]...)
	}
}

func (c *canonical) str(i int) int {
	start := i + 1
	end := start + bytes.IndexByte(c.b[start:], '"')
	if bytes.IndexByte(c.b[start:end], '\\') < 0 {
		c.out = append(c.out, c.b[i:end+1]...)
		return end + 1
	}
	for end = start; c.b[end] != '"'; end++ {
		if c.b[end] == '\\' {
			end++
		}
	}
	c.tmp = appendUnquoted(c.tmp[:0], c.b[start:end])
	c.out = appendQuoted(c.out, c.tmp)
	return end + 1
}

// Digest identifies a request: sha256 over the canonical form of its API, model and body, which must be valid JSON.
func Digest(api, model string, body []byte) [32]byte {
	var c canonical
	return c.digest(api, model, body)
}

func (c *canonical) digest(api, model string, body []byte) [32]byte {
	h := sha256.New()
	h.Write([]byte(`{"api":`))
	h.Write(appendQuoted(nil, api))
	h.Write([]byte(`,"body":`))
	h.Write(c.form(body))
	h.Write([]byte(`,"model":`))
	h.Write(appendQuoted(nil, model))
	h.Write([]byte{'}'})
	return [32]byte(h.Sum(nil))
}
