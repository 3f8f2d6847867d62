package result

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Decode reads a line. The raw fields of the Line are copies. The error is ErrNotOurs if it is JSON without an llmbatch
// object, and says where the JSON breaks otherwise.
func Decode(line []byte) (*Line, error) { return decodeAliased(bytes.Clone(line)) }

// decodeAliased is Decode with raw fields that are parts of line.
func decodeAliased(line []byte) (*Line, error) {
	l, ok := decodeOurs(line)
	if !ok {
		l = &Line{}
		if err := json.Unmarshal(line, l); err != nil {
			return nil, fmt.Errorf("no whole result line: %w", err)
		}
	}
	if l.LLM.Op == "" {
		return nil, ErrNotOurs
	}
	l.CustomID = unNull(l.CustomID)
	if l.Response != nil {
		l.Response.Body = unNull(l.Response.Body)
	}
	return l, nil
}

// unNull makes null what it was before Encode.
func unNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// decodeOurs reads a line just as Encode writes it, several times faster than encoding/json: files of a million lines
// are read whole after a crash and for results in input order. Whatever it does not know goes to encoding/json.
func decodeOurs(line []byte) (*Line, bool) {
	p := &parser{b: line, ok: true}
	l := &Line{}
	p.lit(`{"id":`)
	l.ID = p.str()
	p.lit(`,"custom_id":`)
	l.CustomID = p.raw()
	p.lit(`,"response":`)
	if !p.has("null") {
		l.Response = &Response{}
		p.lit(`{"status_code":`)
		l.Response.StatusCode = int(p.num())
		p.lit(`,"request_id":`)
		l.Response.RequestID = p.str()
		p.lit(`,"body":`)
		l.Response.Body = p.raw()
		p.lit("}")
	}
	p.lit(`,"error":`)
	if !p.has("null") {
		l.Error = &Error{}
		p.lit(`{"code":`)
		l.Error.Code = p.str()
		p.lit(`,"message":`)
		l.Error.Message = p.str()
		p.lit("}")
	}
	p.lit(`,"llmbatch":`)
	p.meta(&l.LLM)
	p.lit("}")
	return l, p.ok && p.i == len(line)
}

func (p *parser) meta(m *Meta) {
	str := func(key string, to *string) {
		p.lit(key)
		*to = p.str()
	}
	num := func(key string, to *int64) {
		p.lit(key)
		*to = p.num()
	}
	var number, attempts, incarnation int64
	str(`{"op":`, &m.Op)
	str(`,"digest":`, &m.Digest)
	str(`,"key":`, &m.Key)
	num(`,"line":`, &number)
	str(`,"sum":`, &m.Sum)
	str(`,"provider":`, &m.Provider)
	str(`,"model":`, &m.Model)
	num(`,"attempts":`, &attempts)
	num(`,"usage":{"input_tokens":`, &m.Usage.InputTokens)
	num(`,"output_tokens":`, &m.Usage.OutputTokens)
	num(`,"cached_tokens":`, &m.Usage.CachedTokens)
	num(`,"reasoning_tokens":`, &m.Usage.ReasoningTokens)
	num(`},"latency_ms":`, &m.LatencyMS)
	if p.has(`,"finish":`) {
		m.Finish = p.str()
	}
	if p.has(`,"class":`) {
		m.Class = p.str()
	}
	if p.has(`,"incarnation":`) {
		incarnation = p.num()
	}
	if p.has(`,"copy_of":`) {
		m.CopyOf = p.str()
	}
	m.Cached = p.has(`,"cached":true`)
	m.LookedUp = p.has(`,"looked_up":true`)
	if p.has(`,"degraded":[`) {
		m.Degraded = append(m.Degraded, p.str())
		for p.has(",") {
			m.Degraded = append(m.Degraded, p.str())
		}
		p.lit("]")
	}
	str(`,"run":`, &m.Run)
	if p.has(`,"metadata":`) {
		m.Metadata = p.raw()
	}
	if p.has(`,"native":`) {
		m.Native = p.raw()
	}
	p.lit("}")
	m.Line, m.Attempts, m.Incarnation = int(number), int(attempts), int(incarnation)
}

// parser walks over JSON. Once ok is false it stays so, and what it returns means nothing.
type parser struct {
	b  []byte
	i  int
	ok bool
}

// has steps over s if it comes next.
func (p *parser) has(s string) bool {
	if !p.ok || len(p.b)-p.i < len(s) || string(p.b[p.i:p.i+len(s)]) != s {
		return false
	}
	p.i += len(s)
	return true
}

func (p *parser) lit(s string) { p.ok = p.has(s) }

// raw steps over one value and returns it.
func (p *parser) raw() json.RawMessage {
	from := p.i
	p.value(0)
	if !p.ok {
		return nil
	}
	return p.b[from:p.i:p.i]
}

// num reads an integer of at most 18 digits.
func (p *parser) num() int64 {
	from := p.i
	p.number()
	if !p.ok || p.i-from > 18 {
		p.ok = false
		return 0
	}
	digits, sign := p.b[from:p.i], int64(1)
	if digits[0] == '-' {
		digits, sign = digits[1:], -1
	}
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' { // a fraction or an exponent
			p.ok = false
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return sign * n
}

// str reads a string as encoding/json does.
func (p *parser) str() string {
	from := p.i
	escaped := p.text()
	if !p.ok {
		return ""
	}
	token := p.b[from:p.i]
	if !escaped && utf8.Valid(token) {
		return string(token[1 : len(token)-1])
	}
	var s string
	p.ok = json.Unmarshal(token, &s) == nil
	return s
}

// maxNesting is that of encoding/json.
const maxNesting = 10_000

// value steps over one value without blanks around it, as strictly as encoding/json reads it.
func (p *parser) value(depth int) {
	if !p.ok || p.i >= len(p.b) || depth > maxNesting {
		p.ok = false
		return
	}
	switch c := p.b[p.i]; {
	case c == '"':
		p.text()
	case c == '{':
		p.members(depth, '}')
	case c == '[':
		p.members(depth, ']')
	case c == '-' || c >= '0' && c <= '9':
		p.number()
	default:
		p.ok = p.has("null") || p.has("true") || p.has("false")
	}
}

// members steps over an object or a list.
func (p *parser) members(depth int, end byte) {
	p.i++
	if p.i < len(p.b) && p.b[p.i] == end {
		p.i++
		return
	}
	for p.ok {
		if end == '}' {
			p.text()
			p.lit(":")
		}
		p.value(depth + 1)
		if !p.ok || p.i >= len(p.b) {
			break
		}
		c := p.b[p.i]
		p.i++
		if c == end {
			return
		}
		if c != ',' {
			break
		}
	}
	p.ok = false
}

func (p *parser) number() {
	p.has("-")
	switch {
	case p.has("0"):
	case p.digits():
	default:
		p.ok = false
	}
	if p.has(".") && !p.digits() {
		p.ok = false
	}
	if p.has("e") || p.has("E") {
		_ = p.has("+") || p.has("-")
		if !p.digits() {
			p.ok = false
		}
	}
}

func (p *parser) digits() bool {
	from := p.i
	for p.i < len(p.b) && p.b[p.i] >= '0' && p.b[p.i] <= '9' {
		p.i++
	}
	return p.i > from
}

// text steps over a string and says whether it has escapes.
func (p *parser) text() (escaped bool) {
	if !p.has(`"`) {
		p.ok = false
		return false
	}
	for p.i < len(p.b) {
		// Most bytes are plain: look at eight at a time.
		for p.i+8 <= len(p.b) && plain(binary.LittleEndian.Uint64(p.b[p.i:])) {
			p.i += 8
		}
		for n := 0; n < 8 && p.i < len(p.b); n++ {
			c := p.b[p.i]
			p.i++
			switch {
			case c == '"':
				return escaped
			case c < 0x20:
				p.ok = false
				return escaped
			case c == '\\':
				escaped = true
				if p.ok = p.escape(); !p.ok {
					return escaped
				}
			}
		}
	}
	p.ok = false
	return escaped
}

// plain reports that none of eight bytes is a quote, a backslash or a control character. It may also say false of
// others.
func plain(w uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^ones*'"', w^ones*'\\'
	return ((w-ones*0x20)&^w|(quote-ones)&^quote|(slash-ones)&^slash)&tops == 0
}

// escape steps over what follows a backslash.
func (p *parser) escape() bool {
	if p.i >= len(p.b) {
		return false
	}
	c := p.b[p.i]
	p.i++
	if c != 'u' {
		return bytes.IndexByte([]byte(`"\/bfnrt`), c) >= 0
	}
	for n := 0; n < 4; n++ {
		if p.i >= len(p.b) {
			return false
		}
		c := p.b[p.i] | 0x20
		if (c < '0' || c > '9' || p.b[p.i] < '0') && (c < 'a' || c > 'f') {
			return false
		}
		p.i++
	}
	return true
}
