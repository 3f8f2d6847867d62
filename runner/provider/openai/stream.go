package openai

import (
	"bytes"
	"encoding/json"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// assembler returns what puts the API's stream together; nil if the API has none.
func (c *Client) assembler(r provider.Request) wire.Assembler {
	switch r.API {
	case "/chat/completions", "/completions":
		return newChatStream(r.Body)
	case "/responses":
		return &responseStream{}
	}
	return nil
}

// streamed is the body that asks for a stream, and for usage in it, which chat
// leaves out unless asked.
func (c *Client) streamed(r provider.Request) ([]byte, error) {
	body, err := wire.SetMember(r.Body, "stream", "true")
	if err != nil || r.API == "/responses" || c.Profile.NoStreamOptions {
		return body, err
	}
	return wire.SetMember(body, "stream_options", `{"include_usage":true}`)
}

// responseStream waits for the event that carries the whole response.
type responseStream struct {
	body []byte
	id   string       // the response's, from its first event on
	onID func(string) // told of it; nil = nobody
}

// Add implements [wire.Assembler].
func (s *responseStream) Add(data json.RawMessage) bool {
	var ev struct {
		Type     wire.Text       `json:"type"`
		Response json.RawMessage `json:"response"`
		Error    json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(data, &ev)
	if s.id == "" && wire.Truthy(ev.Response) {
		if s.id = string(wire.TextOf(wire.Member(ev.Response, "id"))); s.id != "" && s.onID != nil {
			s.onID(s.id)
		}
	}
	switch ev.Type {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		s.body = bytes.Clone(ev.Response)
	case "error":
		s.body = bytes.Clone(data)
		if !wire.Truthy(ev.Error) { // the fields of an error, without one around them
			s.body = append(append([]byte(`{"error":`), data...), '}')
		}
	default:
		if wire.Truthy(ev.Error) {
			s.body = bytes.Clone(data)
		}
	}
	return s.body != nil
}

// Answer implements [wire.Assembler].
func (s *responseStream) Answer() ([]byte, bool) { return s.body, s.body != nil }
