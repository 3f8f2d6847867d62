package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// Message is one turn after the system messages.
type Message struct {
	Role   string // user, assistant or tool
	Parts  []Part
	Calls  []Call // an assistant's
	CallID string // a tool's: the call that it answers
}

// Part is a piece of a message: text, or a medium that stands in it as data or
// by its URL.
type Part struct {
	Text  string
	Media *Media
}

// Media is an image, a sound or a file.
type Media struct {
	Kind string // image, audio or file
	Type string // MIME type; "" = not known, as of an URL
	Data string // base64; empty if URL is given
	URL  string
	Name string // a file's
	At   string // its field, for errors
}

// Call is a function that the model called.
type Call struct {
	ID, Name  string
	Arguments json.RawMessage // a JSON object
	Signature string          // Gemini's thought signature, as its compatible API puts it beside a call
}

// messages reads the list; system messages count only ahead of all others.
func (r *Request) messages(raw json.RawMessage) error {
	var list []map[string]json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return errors.New("messages: want a list of objects")
	}
	for i, fields := range list {
		at := fmt.Sprintf("messages[%d]", i)
		var role string
		if err := text(at+".role", fields["role"], &role); err != nil {
			return err
		}
		known := []string{"role", "content"}
		switch role {
		case "system", "developer", "user":
		case "assistant":
			known = append(known, "tool_calls")
		case "tool":
			known = append(known, "tool_call_id")
		default:
			return Cannot(fmt.Sprintf("%s.role %q", at, role))
		}
		if err := only(at, fields, known...); err != nil {
			return err
		}
		if err := r.message(at, role, fields); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) message(at, role string, fields map[string]json.RawMessage) error {
	parts, err := content(at+".content", fields["content"])
	if err != nil {
		return err
	}
	if role == "system" || role == "developer" {
		if len(r.Messages) > 0 {
			return Cannot(at + ": a system message after the first turn")
		}
		for _, p := range parts {
			if p.Media != nil {
				return Cannot(p.Media.At)
			}
			r.System = append(r.System, p.Text)
		}
		return nil
	}
	m := Message{Role: role, Parts: parts}
	switch role {
	case "tool":
		if text(at+".tool_call_id", fields["tool_call_id"], &m.CallID) != nil || m.CallID == "" {
			return fmt.Errorf("%s.tool_call_id: is missing", at)
		}
	case "assistant":
		if m.Calls, err = calls(at+".tool_calls", fields["tool_calls"]); err != nil {
			return err
		}
	}
	r.Messages = append(r.Messages, m)
	return nil
}

// content reads a text or a list of parts. Absent and null are no part.
func content(at string, raw json.RawMessage) ([]Part, error) {
	var whole string
	var list []map[string]json.RawMessage
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case json.Unmarshal(raw, &whole) == nil:
		return []Part{{Text: whole}}, nil
	case json.Unmarshal(raw, &list) != nil:
		return nil, fmt.Errorf("%s: want a text or a list of parts", at)
	}
	parts := make([]Part, 0, len(list))
	for i, fields := range list {
		p, err := part(fmt.Sprintf("%s[%d]", at, i), fields)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func part(at string, fields map[string]json.RawMessage) (Part, error) {
	var kind string
	_ = json.Unmarshal(fields["type"], &kind)
	field := map[string]string{"text": "text", "refusal": "refusal", "image_url": "image_url", "input_audio": "input_audio", "file": "file"}[kind]
	if field == "" {
		return Part{}, Cannot(fmt.Sprintf("%s.type %q", at, kind))
	}
	if err := only(at, fields, "type", field); err != nil {
		return Part{}, err
	}
	at += "." + field
	if kind == "text" || kind == "refusal" {
		var p Part
		return p, text(at, fields[field], &p.Text)
	}
	m, err := media(at, kind, fields[field])
	return Part{Media: m}, err
}

func media(at, kind string, raw json.RawMessage) (*Media, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil, fmt.Errorf("%s: want an object", at)
	}
	get := func(name string) (s string) {
		_ = json.Unmarshal(fields[name], &s)
		return s
	}
	switch kind {
	case "image_url":
		if get("detail") == "auto" {
			delete(fields, "detail")
		}
		if err := only(at, fields, "url"); err != nil {
			return nil, err
		}
		return located("image", get("url"), at+".url")
	case "input_audio":
		if err := only(at, fields, "data", "format"); err != nil {
			return nil, err
		}
		return &Media{Kind: "audio", Type: "audio/" + get("format"), Data: get("data"), At: at}, nil
	default:
		if err := only(at, fields, "file_data", "filename"); err != nil {
			return nil, err
		}
		m, err := located("file", get("file_data"), at+".file_data")
		if err == nil {
			m.Name = get("filename")
		}
		return m, err
	}
}

// located splits a data URL; any other URL is kept.
func located(kind, url, at string) (*Media, error) {
	m := &Media{Kind: kind, URL: url, At: at}
	rest, data := strings.CutPrefix(url, "data:")
	switch head, body, found := strings.Cut(rest, ","); {
	case data && found && strings.HasSuffix(head, ";base64"):
		m.URL, m.Data = "", body
		m.Type, _, _ = strings.Cut(head, ";")
	case data:
		return nil, fmt.Errorf("%s: a data URL must be in base64", at)
	case !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "gs://"):
		return nil, fmt.Errorf("%s: want an http or a data URL", at)
	}
	return m, nil
}

func calls(at string, raw json.RawMessage) ([]Call, error) {
	if !wire.Truthy(raw) {
		return nil, nil
	}
	var list []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
		Extra extraContent `json:"extra_content"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return nil, fmt.Errorf("%s: want a list of calls", at)
	}
	out := make([]Call, len(list))
	for i, c := range list {
		switch {
		case c.Type != "" && c.Type != "function":
			return nil, Cannot(fmt.Sprintf("%s[%d].type", at, i))
		case strings.TrimSpace(c.Function.Arguments) == "":
			c.Function.Arguments = "{}"
		}
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(c.Function.Arguments), &object) != nil || object == nil {
			return nil, fmt.Errorf("%s[%d].function.arguments: want a JSON object", at, i)
		}
		out[i] = Call{ID: c.ID, Name: c.Function.Name, Arguments: json.RawMessage(c.Function.Arguments), Signature: c.Extra.Google.Signature}
	}
	return out, nil
}

// extraContent is where Google's OpenAI-compatible API keeps the signature
// that a later turn must bring back with the call.
type extraContent struct {
	Google struct {
		Signature string `json:"thought_signature"`
	} `json:"google"`
}
