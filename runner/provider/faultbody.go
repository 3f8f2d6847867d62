package provider

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// FaultBody is what is kept of the body of an answer that is no success, as
// JSON of at most 2 KiB of text: the body itself if it is JSON, else, or if it
// is longer, a string with its beginning. Secrets are cut out, also those that
// JSON's escapes hide. It is nil for a page and for nothing at all.
func (r *Redactor) FaultBody(h http.Header, body []byte) []byte {
	if len(bytes.TrimSpace(body)) == 0 || IsHTML(h, body) {
		return nil
	}
	body = body[:min(len(body), maxErrorBody)]
	if whole := r.redactJSON(body); whole != nil {
		if len(whole) <= maxMessage {
			return whole
		}
		body = whole
	}
	return encoded(r.Clean(string(body)))
}

// redactJSON returns JSON without blanks and secrets; nil for what is no JSON.
// Without a secret inside, its numbers, escapes and order of keys stay.
func (r *Redactor) redactJSON(body []byte) []byte {
	var value any
	var whole bytes.Buffer
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if json.Compact(&whole, body) != nil || d.Decode(&value) != nil {
		return nil
	}
	open := encoded(value)
	if safe := encoded(r.redactValue(value)); !bytes.Equal(open, safe) {
		return safe
	}
	return whole.Bytes()
}

// redactValue cuts secrets out of all strings of a decoded value.
func (r *Redactor) redactValue(value any) any {
	switch v := value.(type) {
	case string:
		return r.Redact(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = r.redactValue(v[i])
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, member := range v {
			object[r.Redact(key)] = r.redactValue(member)
		}
		return object
	default:
		return value
	}
}

// encoded is a decoded value as JSON again.
func encoded(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // what was decoded can be encoded
	return bytes.TrimSpace(b.Bytes())
}
