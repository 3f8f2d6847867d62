package gemini

import (
	"bytes"
	"encoding/json"

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
func (s *contentStream) Add(data json.RawMessage) bool {
	var chunk map[string]json.RawMessage
	if json.Unmarshal(data, &chunk) != nil || wire.Truthy(chunk["error"]) {
		s.fault = bytes.Clone(data)
		return true
	}
	if s.top == nil {
		s.top = map[string]json.RawMessage{}
	}
	_ = wire.Each(chunk["candidates"], func(raw json.RawMessage) bool {
		s.candidate(raw)
		return true
	})
	delete(chunk, "candidates")
	for name, v := range chunk {
		s.top[name] = v
	}
	var feedback struct {
		Reason wire.Text `json:"blockReason"`
	}
	_ = json.Unmarshal(chunk["promptFeedback"], &feedback)
	s.blocked = s.blocked || feedback.Reason != ""
	_, counted := chunk["usageMetadata"]
	return s.whole() && counted // without it, it may still come
}

func (s *contentStream) candidate(raw json.RawMessage) {
	var head struct {
		Index   int       `json:"index"`
		Finish  wire.Text `json:"finishReason"`
		Content struct {
			Role  json.RawMessage `json:"role"`
			Parts json.RawMessage `json:"parts"`
		} `json:"content"`
	}
	_ = json.Unmarshal(raw, &head)
	var c *streamCandidate
	for _, have := range s.candidates {
		if have.index == head.Index {
			c = have
		}
	}
	if c == nil {
		if len(s.candidates) >= maxCandidates {
			return
		}
		c = &streamCandidate{index: head.Index, fields: map[string]json.RawMessage{}}
		s.candidates = append(s.candidates, c)
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields)
	delete(fields, "content")
	for name, v := range fields {
		c.fields[name] = v
	}
	if head.Content.Role != nil {
		c.role = head.Content.Role
	}
	c.ended = c.ended || head.Finish != ""
	_ = wire.Each(head.Content.Parts, func(raw json.RawMessage) bool {
		c.part(raw)
		return len(c.parts) < maxParts
	})
}

// part joins a plain text to the one before it.
func (c *streamCandidate) part(raw json.RawMessage) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields)
	text := fields["text"]
	thought := string(fields["thought"]) == "true"
	delete(fields, "text")
	delete(fields, "thought")
	if len(text) < 2 || text[0] != '"' || len(fields) > 0 {
		c.parts = append(c.parts, &streamPart{raw: raw})
		return
	}
	text = text[1 : len(text)-1]
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
