package openai

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// chatStream puts the chunks of a completion together. What a delta holds is
// merged by its form and not by its name, so that what a server adds to
// OpenAI's fields (reasoning, citations) comes through as well: texts are
// joined, lists of numbered parts are merged part by part, other lists are
// joined, all else is replaced.
type chatStream struct {
	want    int // choices asked for
	top     *node
	choices []*streamChoice
	fault   []byte // the chunk that is an error
}

type streamChoice struct {
	index   int
	message *node // chat's delta
	rest    *node // the choice's other fields
	ended   bool
}

// maxChoices bounds what a hostile index can make us hold.
const maxChoices = 4096

func newChatStream(body []byte) *chatStream {
	var asked struct {
		N int `json:"n"`
	}
	_ = json.Unmarshal(body, &asked) // what is no number is the server's to refuse
	return &chatStream{want: max(asked.N, 1), top: newObject()}
}

// Add implements [wire.Assembler].
func (s *chatStream) Add(chunk json.RawMessage) bool {
	for name, value := range wire.Fields(chunk) {
		switch {
		case name == "error" && wire.Truthy(value), name == "object" && string(value) == `"error"`:
			s.fault = bytes.Clone(chunk)
			return true
		case name == "choices":
			for raw := range wire.Elements(value) {
				s.choice(raw)
			}
		case name == "usage" && !wire.Truthy(value):
		case name == "object" && string(value) == `"chat.completion.chunk"`:
			s.top.set(name, []byte(`"chat.completion"`))
		default:
			s.top.set(name, value)
		}
	}
	return false
}

// choice takes in a chunk of one choice; one without an index is the first.
func (s *chatStream) choice(raw json.RawMessage) {
	index := 0
	for name, value := range wire.Fields(raw) {
		if name == "index" {
			index, _ = strconv.Atoi(string(value))
		}
	}
	ch := s.find(index)
	if ch == nil {
		return
	}
	for name, value := range wire.Fields(raw) {
		switch name {
		case "index":
		case "delta":
			if ch.message == nil {
				ch.message = newObject()
			}
			ch.message.merge(value)
		case "text", "logprobs":
			ch.rest.member(name).merge(value)
		case "finish_reason", "error":
			if wire.Truthy(value) {
				ch.rest.set(name, value)
				ch.ended = true
			}
		default:
			ch.rest.set(name, value)
		}
	}
}

// find returns the choice of an index, a new one if need be; nil if there are
// too many.
func (s *chatStream) find(index int) *streamChoice {
	for _, ch := range s.choices {
		if ch.index == index {
			return ch
		}
	}
	if len(s.choices) >= maxChoices {
		return nil
	}
	ch := &streamChoice{index: index, rest: newObject()}
	s.choices = append(s.choices, ch)
	return ch
}

// Answer implements [wire.Assembler]: whole is an answer whose choices all
// have a finish reason.
func (s *chatStream) Answer() ([]byte, bool) {
	if s.fault != nil {
		return s.fault, true
	}
	ended := 0
	for _, ch := range s.choices {
		if ch.ended {
			ended++
		}
	}
	if ended < s.want || ended < len(s.choices) {
		return nil, false
	}
	var b bytes.Buffer
	b.WriteByte('{')
	s.top.members(&b, "")
	if b.Len() > 1 {
		b.WriteByte(',')
	}
	b.WriteString(`"choices":[`)
	for i, ch := range s.choices {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"index":` + strconv.Itoa(ch.index))
		if ch.message != nil {
			b.WriteString(`,"message":`)
			ch.message.write(&b)
		}
		if len(ch.rest.names) > 0 {
			b.WriteByte(',')
			ch.rest.members(&b, "")
		}
		b.WriteByte('}')
	}
	b.WriteString("]}")
	return b.Bytes(), true
}
