// Package chat translates between OpenAI's chat completions and other APIs: it
// takes a request apart for a client that speaks another format, and builds
// the completion that answers it.
//
// Nothing is dropped silently. What a request asks for is in [Request]; what
// this package does not know stays in it by name until a client takes it, and
// [Request.Left] is the error that names what nobody took.
package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// Request is a chat completion that is asked for.
type Request struct {
	Model       string
	System      []string // texts of the system and developer messages that come first
	Messages    []Message
	MaxTokens   json.RawMessage // a number as written; nil = none given
	Temperature json.RawMessage // the same
	TopP        json.RawMessage // the same
	Seed        json.RawMessage // the same
	Stop        []string
	N           int // answers; at least 1
	Tools       []Tool
	ToolChoice  string // "", "none", "auto", "required", or "function" with ToolName
	ToolName    string
	OneTool     bool // parallel_tool_calls is false
	Format      *Format
	Effort      string // reasoning_effort; "" = none given

	rest map[string]json.RawMessage
}

// Format is what the answer must look like: JSON, of the schema if there is one.
// The schema's name, a mere label, is not kept; that it holds strictly is taken
// for granted.
type Format struct{ Schema json.RawMessage }

// Tool is a function that the model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

// Decode reads a request body. Its errors name the field.
func Decode(body []byte) (*Request, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(body, &top); err != nil {
		return nil, errors.New("the body is no JSON object")
	}
	r := &Request{N: 1, rest: map[string]json.RawMessage{}}
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if raw := top[name]; string(raw) != "null" {
			if err := r.field(name, raw); err != nil {
				return nil, err
			}
		}
	}
	if r.Messages == nil && r.System == nil {
		return nil, errors.New("messages: a chat completion needs them")
	}
	return r, nil
}

// field takes one of the body's fields.
func (r *Request) field(name string, raw json.RawMessage) error {
	switch name {
	case "model":
		return text(name, raw, &r.Model)
	case "messages":
		return r.messages(raw)
	case "max_completion_tokens":
		return number(name, raw, &r.MaxTokens)
	case "max_tokens":
		if r.MaxTokens != nil { // its successor, which sorts before it, was given too
			return nil
		}
		return number(name, raw, &r.MaxTokens)
	case "temperature":
		return number(name, raw, &r.Temperature)
	case "top_p":
		return number(name, raw, &r.TopP)
	case "seed":
		return number(name, raw, &r.Seed)
	case "stop":
		return r.stop(raw)
	case "n":
		if json.Unmarshal(raw, &r.N) != nil || r.N < 1 {
			return errors.New("n: want a number from 1")
		}
	case "tools":
		return r.tools(raw)
	case "tool_choice":
		return r.choice(raw)
	case "parallel_tool_calls":
		r.OneTool = string(raw) == "false"
	case "response_format":
		return r.format(raw)
	case "reasoning_effort":
		return text(name, raw, &r.Effort)
	case "metadata":
		// A label for a stored completion, not for the model; the result line
		// has it.
	default:
		if !neutral(name, raw) {
			r.rest[name] = raw
		}
	}
	return nil
}

// neutral reports a field whose value asks for what is so anyway.
func neutral(name string, raw json.RawMessage) bool {
	switch name {
	case "stream", "store", "logprobs", "top_logprobs", "frequency_penalty", "presence_penalty", "logit_bias", "stream_options":
		return !wire.Truthy(raw) || string(raw) == "0.0"
	case "service_tier":
		return string(raw) == `"auto"` || string(raw) == `"default"`
	case "modalities":
		var m []string
		return json.Unmarshal(raw, &m) == nil && slices.Equal(m, []string{"text"})
	}
	return false
}

// Take hands over a field that this package does not know, and forgets it; nil
// if it was not given.
func (r *Request) Take(name string) json.RawMessage {
	raw := r.rest[name]
	delete(r.rest, name)
	return raw
}

// Left is the error that names the first field that nobody took; nil if there
// is none.
func (r *Request) Left() error {
	for _, name := range slices.Sorted(maps.Keys(r.rest)) {
		return Cannot(name)
	}
	return nil
}

// Cannot is the error of a field that a translation cannot carry over.
func Cannot(field string) error {
	return fmt.Errorf("%s: cannot be carried over to this provider's API; leave it out", field)
}

func text(name string, raw json.RawMessage, to *string) error {
	if json.Unmarshal(raw, to) != nil {
		return fmt.Errorf("%s: want a text", name)
	}
	return nil
}

func number(name string, raw json.RawMessage, to *json.RawMessage) error {
	var f float64
	if json.Unmarshal(raw, &f) != nil {
		return fmt.Errorf("%s: want a number", name)
	}
	*to = raw
	return nil
}

func (r *Request) stop(raw json.RawMessage) error {
	var one string
	switch {
	case json.Unmarshal(raw, &one) == nil:
		r.Stop = []string{one}
	case json.Unmarshal(raw, &r.Stop) != nil:
		return errors.New("stop: want a text or a list of texts")
	}
	return nil
}

func (r *Request) tools(raw json.RawMessage) error {
	var list []map[string]json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return errors.New("tools: want a list of objects")
	}
	for i, t := range list {
		at := fmt.Sprintf("tools[%d]", i)
		if kind := string(t["type"]); kind != `"function"` {
			return Cannot(at + ".type " + kind)
		}
		if err := only(at, t, "type", "function"); err != nil {
			return err
		}
		var fields map[string]json.RawMessage
		var tool Tool
		if json.Unmarshal(t["function"], &fields) != nil || json.Unmarshal(t["function"], &tool) != nil || tool.Name == "" {
			return fmt.Errorf("%s.function: want an object with a name", at)
		}
		if err := only(at+".function", fields, "name", "description", "parameters", "strict"); err != nil {
			return err
		}
		if string(tool.Parameters) == "null" {
			tool.Parameters = nil
		}
		r.Tools = append(r.Tools, tool)
	}
	return nil
}

func (r *Request) choice(raw json.RawMessage) error {
	if json.Unmarshal(raw, &r.ToolChoice) == nil {
		if !slices.Contains([]string{"none", "auto", "required"}, r.ToolChoice) {
			return fmt.Errorf("tool_choice: want none, auto, required or a function, not %q", r.ToolChoice)
		}
		return nil
	}
	var named struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	_ = json.Unmarshal(raw, &named)
	if named.Type != "function" || named.Function.Name == "" {
		return Cannot("tool_choice")
	}
	r.ToolChoice, r.ToolName = "function", named.Function.Name
	return nil
}

func (r *Request) format(raw json.RawMessage) error {
	var f struct {
		Type   string                     `json:"type"`
		Schema map[string]json.RawMessage `json:"json_schema"`
	}
	if json.Unmarshal(raw, &f) != nil {
		return errors.New("response_format: want an object")
	}
	switch f.Type {
	case "text":
	case "json_object":
		r.Format = &Format{}
	case "json_schema":
		if err := only("response_format.json_schema", f.Schema, "name", "schema", "strict"); err != nil {
			return err
		}
		if !wire.Truthy(f.Schema["schema"]) {
			return errors.New("response_format.json_schema.schema: is missing")
		}
		r.Format = &Format{Schema: bytes.TrimSpace(f.Schema["schema"])}
	default:
		return Cannot("response_format.type")
	}
	return nil
}

// only wants no field with something in it beside the known ones.
func only(at string, object map[string]json.RawMessage, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(known, name) && wire.Truthy(object[name]) {
			return Cannot(at + "." + name)
		}
	}
	return nil
}
