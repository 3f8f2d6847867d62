package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

// Line is one finished operation. The first four fields are those of an OpenAI batch output line.
type Line struct {
	ID       string          `json:"id"`
	CustomID json.RawMessage `json:"custom_id"` // as the input had it, string or number; nil = null
	Response *Response       `json:"response"`
	Error    *Error          `json:"error"` // nil for a completed operation
	LLM      Meta            `json:"llmbatch"`
}

// Response is the provider's answer.
type Response struct {
	StatusCode int             `json:"status_code"` // 0 = no answer
	RequestID  string          `json:"request_id"`
	Body       json.RawMessage `json:"body"` // in the shape of the input line's own API; nil = null
}

// Error is why an operation is a dead letter.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Meta is what llmbatch adds to a line. Empty optional fields are left out.
type Meta struct {
	Op          string          `json:"op"`     // operation ID
	Digest      string          `json:"digest"` // hex, of the request as sent
	Key         string          `json:"key"`    // idempotency key
	Line        int             `json:"line"`   // physical line of the input, from 1
	Sum         string          `json:"sum"`    // hex, of the input line's bytes
	Provider    string          `json:"provider"`
	Model       string          `json:"model"` // asked for
	Attempts    int             `json:"attempts"`
	Usage       Usage           `json:"usage"`
	LatencyMS   int64           `json:"latency_ms"`
	Finish      string          `json:"finish,omitempty"` // stop, length, refused, content_filter, tool_calls
	Class       string          `json:"class,omitempty"`  // error class of a dead letter
	Incarnation int             `json:"incarnation,omitempty"`
	CopyOf      string          `json:"copy_of,omitempty"`   // operation ID whose answer this one shares
	Cached      bool            `json:"cached,omitempty"`    // the answer was kept by an earlier run: no call was made for it
	LookedUp    bool            `json:"looked_up,omitempty"` // the call's answer was lost on its way, and fetched from the provider after
	Degraded    []string        `json:"degraded,omitempty"`  // what was given up under pressure, such as max_tokens:256
	Run         string          `json:"run"`                 // the run's salt, hex
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	Native      json.RawMessage `json:"native,omitempty"` // the provider's own body, if it was to be kept
}

// Usage is what the provider says it billed, in tokens.
type Usage struct {
	InputTokens     int64 `json:"input_tokens"`
	OutputTokens    int64 `json:"output_tokens"`
	CachedTokens    int64 `json:"cached_tokens"`    // part of InputTokens
	ReasoningTokens int64 `json:"reasoning_tokens"` // part of OutputTokens
}

// ErrNotOurs is returned for a line, or a file, that llmbatch did not write.
var ErrNotOurs = errors.New("not written by llmbatch")

// Encode returns the line as JSON without a newline, always in the same order of keys. Bodies keep their numbers,
// escapes and order of keys; blanks between their tokens go, so that they fit one line, and bytes that are no UTF-8
// become U+FFFD. A body that is no JSON becomes a JSON string: a paid answer is never refused.
func (l *Line) Encode() []byte {
	b := make([]byte, 0, 768+l.rawSize())
	b = append(b, `{"id":`...)
	b = appendString(b, l.ID)
	b = append(b, `,"custom_id":`...)
	b = appendRaw(b, l.CustomID)
	b = append(b, `,"response":`...)
	if r := l.Response; r == nil {
		b = append(b, "null"...)
	} else {
		b = append(b, `{"status_code":`...)
		b = strconv.AppendInt(b, int64(r.StatusCode), 10)
		b = append(b, `,"request_id":`...)
		b = appendString(b, r.RequestID)
		b = append(b, `,"body":`...)
		b = appendRaw(b, r.Body)
		b = append(b, '}')
	}
	b = append(b, `,"error":`...)
	if e := l.Error; e == nil {
		b = append(b, "null"...)
	} else {
		b = append(b, `{"code":`...)
		b = appendString(b, e.Code)
		b = append(b, `,"message":`...)
		b = appendString(b, e.Message)
		b = append(b, '}')
	}
	b = append(b, `,"llmbatch":`...)
	return append(l.LLM.append(b), '}')
}

func (l *Line) rawSize() int {
	n := len(l.CustomID) + len(l.LLM.Metadata) + len(l.LLM.Native)
	if l.Response != nil {
		n += len(l.Response.Body)
	}
	return n
}

func (m *Meta) append(b []byte) []byte {
	str := func(key, s string) {
		b = append(b, key...)
		b = appendString(b, s)
	}
	num := func(key string, n int64) {
		b = append(b, key...)
		b = strconv.AppendInt(b, n, 10)
	}
	str(`{"op":`, m.Op)
	str(`,"digest":`, m.Digest)
	str(`,"key":`, m.Key)
	num(`,"line":`, int64(m.Line))
	str(`,"sum":`, m.Sum)
	str(`,"provider":`, m.Provider)
	str(`,"model":`, m.Model)
	num(`,"attempts":`, int64(m.Attempts))
	num(`,"usage":{"input_tokens":`, m.Usage.InputTokens)
	num(`,"output_tokens":`, m.Usage.OutputTokens)
	num(`,"cached_tokens":`, m.Usage.CachedTokens)
	num(`,"reasoning_tokens":`, m.Usage.ReasoningTokens)
	num(`},"latency_ms":`, m.LatencyMS)
	if m.Finish != "" {
		str(`,"finish":`, m.Finish)
	}
	if m.Class != "" {
		str(`,"class":`, m.Class)
	}
	if m.Incarnation != 0 {
		num(`,"incarnation":`, int64(m.Incarnation))
	}
	if m.CopyOf != "" {
		str(`,"copy_of":`, m.CopyOf)
	}
	if m.Cached {
		b = append(b, `,"cached":true`...)
	}
	if m.LookedUp {
		b = append(b, `,"looked_up":true`...)
	}
	for i, what := range m.Degraded {
		str([2]string{`,"degraded":[`, `,`}[min(i, 1)], what)
	}
	if len(m.Degraded) > 0 {
		b = append(b, ']')
	}
	str(`,"run":`, m.Run)
	if m.Metadata != nil {
		b = append(b, `,"metadata":`...)
		b = appendRaw(b, m.Metadata)
	}
	if m.Native != nil {
		b = append(b, `,"native":`...)
		b = appendRaw(b, m.Native)
	}
	return append(b, '}')
}

// appendRaw appends JSON that came from elsewhere.
func appendRaw(b []byte, raw json.RawMessage) []byte {
	if raw == nil {
		return append(b, "null"...)
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	if p := (parser{b: raw, ok: true}); p.raw() != nil && p.i == len(raw) { // no blanks to take out
		return append(b, raw...)
	}
	buf := bytes.NewBuffer(b)
	if err := json.Compact(buf, raw); err != nil {
		return appendString(b, string(raw))
	}
	return buf.Bytes()
}

// appendString appends s as a JSON string. Unlike encoding/json it leaves <, > and & alone.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r) // U+FFFD for a byte that is no UTF-8
			i += size
			continue
		}
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\t':
			b = append(b, '\\', 't')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c < 0x20 || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
		i++
	}
	return append(b, '"')
}
