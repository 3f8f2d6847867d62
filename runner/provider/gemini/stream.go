package gemini

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/llmbatch/llmbatch/runner/provider/chat"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// contentStream puts the chunks of streamGenerateContent together: parts in
// their order, all other fields as the last chunk has them. Whole is an answer
// whose candidates all have a finishReason, or a prompt that was blocked.
type contentStream struct {
	want       int // candidates asked for
	top        map[string]json.RawMessage
	candidates []*streamCandidate
	blocked    bool
	fault      []byte
}

type streamCandidate struct {
	index  int
	role   json.RawMessage
	fields map[string]json.RawMessage
	parts  []*streamPart
	ended  bool
}

// streamPart is a text that grows by chunks, still escaped, or a part of
// another kind as it came.
type streamPart struct {
	text    []byte
	thought bool
	raw     json.RawMessage
}

const (
	maxCandidates = 256 // bounds what a hostile index can make us hold
	maxParts      = 1 << 16
)

// Add implements [wire.Assembler].
func (s *contentStream) Add(chunk json.RawMessage) bool {
	if s.top == nil {
		s.top = map[string]json.RawMessage{}
	}
	counted := false
	for name, v := range wire.Fields(chunk) {
		switch name {
		case "error":
			if wire.Truthy(v) {
				s.fault = bytes.Clone(chunk)
				return true
			}
		case "candidates":
			for raw := range wire.Elements(v) {
				s.candidate(raw)
			}
			continue
		case "promptFeedback":
			for name, reason := range wire.Fields(v) {
				s.blocked = s.blocked || name == "blockReason" && wire.Truthy(reason)
			}
		case "usageMetadata":
			counted = true
		}
		replace(s.top, name, v)
	}
	return s.whole() && counted // without the usage, it may still come
}

// replace sets a field to a copy of v, if it is another value.
func replace(to map[string]json.RawMessage, name string, v json.RawMessage) {
	if !bytes.Equal(to[name], v) {
		to[name] = bytes.Clone(v)
	}
}

// candidate takes in a chunk of one candidate; one without an index is the first.
func (s *contentStream) candidate(raw json.RawMessage) {
	index := 0
	for name, v := range wire.Fields(raw) {
		if name == "index" {
			index, _ = strconv.Atoi(string(v))
		}
	}
	c := s.find(index)
	if c == nil {
		return
	}
	for name, v := range wire.Fields(raw) {
		if name == "content" {
			c.add(v)
			continue
		}
		replace(c.fields, name, v)
		c.ended = c.ended || name == "finishReason" && wire.Truthy(v)
	}
}

// find returns the candidate of an index, a new one if need be; nil if there
// are too many.
func (s *contentStream) find(index int) *streamCandidate {
	for _, c := range s.candidates {
		if c.index == index {
			return c
		}
	}
	if len(s.candidates) >= maxCandidates {
		return nil
	}
	c := &streamCandidate{index: index, fields: map[string]json.RawMessage{}}
	s.candidates = append(s.candidates, c)
	return c
}

// add takes in content.
func (c *streamCandidate) add(content json.RawMessage) {
	for name, v := range wire.Fields(content) {
		switch name {
		case "role":
			c.role = bytes.Clone(v)
		case "parts":
			for raw := range wire.Elements(v) {
				if len(c.parts) < maxParts {
					c.part(raw)
				}
			}
		}
	}
}

// part joins a plain text to the one before it.
func (c *streamCandidate) part(raw json.RawMessage) {
	var text json.RawMessage
	thought, plain := false, true
	for name, v := range wire.Fields(raw) {
		switch {
		case name == "text" && v[0] == '"':
			text = v[1 : len(v)-1]
		case name == "thought":
			thought = string(v) == "true"
		default:
			plain = false
		}
	}
	if text == nil || !plain {
		c.parts = append(c.parts, &streamPart{raw: bytes.Clone(raw)})
		return
	}
	if n := len(c.parts); n > 0 && c.parts[n-1].raw == nil && c.parts[n-1].thought == thought {
		c.parts[n-1].text = append(c.parts[n-1].text, text...)
		return
	}
	c.parts = append(c.parts, &streamPart{text: bytes.Clone(text), thought: thought})
}

func (s *contentStream) whole() bool {
	if s.blocked {
		return true
	}
	ended := 0
	for _, c := range s.candidates {
		if c.ended {
			ended++
		}
	}
	return ended >= max(s.want, 1) && ended == len(s.candidates)
}

// Answer implements [wire.Assembler].
func (s *contentStream) Answer() ([]byte, bool) {
	if s.fault != nil {
		return s.fault, true
	}
	if !s.whole() {
		return nil, false
	}
	list := make([]map[string]json.RawMessage, len(s.candidates))
	for i, c := range s.candidates {
		c.fields["content"] = c.content()
		list[i] = c.fields
	}
	var err error
	if len(list) > 0 {
		if s.top["candidates"], err = chat.Marshal(list); err != nil {
			return nil, false
		}
	}
	body, err := chat.Marshal(s.top)
	return body, err == nil
}

func (c *streamCandidate) content() json.RawMessage {
	var b bytes.Buffer
	b.WriteString(`{"parts":[`)
	for i, p := range c.parts {
		if i > 0 {
			b.WriteByte(',')
		}
		if p.raw != nil {
			b.Write(p.raw)
			continue
		}
		b.WriteString(`{"text":"`)
		b.Write(p.text)
		b.WriteByte('"')
		if p.thought {
			b.WriteString(`,"thought":true`)
		}
		b.WriteByte('}')
	}
	b.WriteByte(']')
	if c.role != nil {
		b.WriteString(`,"role":`)
		b.Write(c.role)
	}
	b.WriteByte('}')
	return b.Bytes()
}
