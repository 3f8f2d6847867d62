// Package wire reads what the wire formats have in common: JSON whose types
// servers do not agree on, streams of server-sent events, and what statuses
// and stock phrases mean. It knows no provider.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// Text is a JSON value of any type as text: servers disagree whether a code
// is a string, a number or null.
type Text string

// UnmarshalJSON keeps a string's text, nothing for null, and the JSON of all else.
func (t *Text) UnmarshalJSON(b []byte) error {
	switch {
	case len(b) > 0 && b[0] == '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*t = Text(s)
	case string(b) != "null":
		*t = Text(b)
	}
	return nil
}

// TextOf is a value of valid JSON in valid UTF-8 as text, as UnmarshalJSON
// makes it; absent is nothing.
func TextOf(v json.RawMessage) Text {
	switch {
	case len(v) > 0 && v[0] == '"':
		return Text(nameOf(v))
	case string(v) == "null":
		return ""
	default:
		return Text(v)
	}
}

// Truthy reports a JSON value that says something: not absent, null, false,
// 0 or empty.
func Truthy(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "false", "0", `""`, "{}", "[]":
		return false
	}
	return true
}

const mostElements = 100_000

// Each calls fn for the elements of a JSON array until it returns false.
// Absent and null are empty. The elements are decoded one by one: a hostile
// list of millions must not become millions of structs, and one of more than
// 100,000 is an error: no request asks for so many.
func Each(list json.RawMessage, fn func(json.RawMessage) bool) error {
	if !Truthy(list) {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(list))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return errors.New("no list")
	}
	for n := 0; dec.More(); n++ {
		if n == mostElements {
			return errors.New("too long a list")
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		if !fn(raw) {
			return nil
		}
	}
	return nil
}

// Payload drops what may stand ahead of the JSON: a BOM, the blank lines and
// comments that DeepSeek and OpenRouter send while a request is queued.
func Payload(b []byte) []byte {
	b = bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))
	for len(b) > 0 && b[0] == ':' {
		_, rest, _ := bytes.Cut(b, []byte("\n"))
		b = bytes.TrimSpace(rest)
	}
	return b
}

// DecodeObject decodes the body of a success into v. A page, broken JSON and
// a cut are told apart; KindNone is an object in valid UTF-8. A field of
// another type than expected is simply not there.
func DecodeObject(c *provider.Caller, reply *provider.Reply, body []byte, v any) (provider.Kind, string) {
	err := json.Unmarshal(body, v)
	var wrongType *json.UnmarshalTypeError
	return isObject(c, reply, body, err == nil || errors.As(err, &wrongType))
}

// CheckObject is DecodeObject for a body that Fields takes apart.
func CheckObject(c *provider.Caller, reply *provider.Reply, body []byte) (provider.Kind, string) {
	return isObject(c, reply, body, json.Valid(body))
}

// isObject judges a body that is, or is not, valid JSON.
func isObject(c *provider.Caller, reply *provider.Reply, body []byte, valid bool) (provider.Kind, string) {
	switch {
	case valid && body[0] != '{':
		return provider.KindBadContentType, "the answer is no JSON object"
	case valid && !utf8.Valid(body):
		return provider.KindBadContentType, "the answer is not UTF-8"
	case valid:
		return provider.KindNone, ""
	case provider.IsHTML(reply.Header, body):
		return provider.KindBadContentType, "a page in place of JSON: " + c.Redactor.EdgeMessage(reply.StatusCode, reply.Header)
	case len(body) == 0 || endsEarly(body):
		return provider.KindTruncated, "the answer ends within its JSON"
	default:
		return provider.KindBadContentType, "the answer is no JSON: " + c.Redactor.Clean(string(body[:min(len(body), 200)]))
	}
}

// DecodeCounts decodes an object of whole numbers into v. It tells whether all
// of them fit; one that is no number is simply not there.
func DecodeCounts(b []byte, v any) (fit bool) {
	var wrongType *json.UnmarshalTypeError
	return !errors.As(json.Unmarshal(b, v), &wrongType) || !strings.HasPrefix(wrongType.Value, "number")
}

// endsEarly reports that b is the beginning of a JSON document.
func endsEarly(b []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(b))
	var v json.RawMessage
	return errors.Is(dec.Decode(&v), io.ErrUnexpectedEOF)
}

// SetMember gives a member of a JSON object the value, in its place or as the
// last; all other bytes stay as they are.
func SetMember(object []byte, name, value string) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("the body is no JSON object")
	}
	empty := true
	for ; dec.More(); empty = false {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, err
		}
		if end := int(dec.InputOffset()); key == name {
			return join(object[:end-len(v)], value, object[end:]), nil
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	end := int(dec.InputOffset()) - 1
	member := `"` + name + `":` + value
	if !empty {
		member = "," + member
	}
	return join(object[:end], member, object[end:]), nil
}

func join(head []byte, middle string, tail []byte) []byte {
	out := make([]byte, 0, len(head)+len(middle)+len(tail))
	return append(append(append(out, head...), middle...), tail...)
}

// RefuseStream finds what a client could send but not read back: the answer
// would be paid for and lost.
func RefuseStream(body []byte) error {
	if !bytes.Contains(body, []byte(`"stream"`)) && !bytes.Contains(body, []byte(`"background"`)) {
		return nil
	}
	var asked struct{ Stream, Background bool }
	_ = json.Unmarshal(body, &asked) // a body that is no JSON is the server's to refuse
	switch {
	case asked.Stream:
		return errors.New(`the body asks for "stream": true; leave it out, a batch keeps whole answers`)
	case asked.Background:
		return errors.New(`the body asks for "background": true; leave it out, a batch keeps whole answers`)
	}
	return nil
}
