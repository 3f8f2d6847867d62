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
func (s *chatStream) Add(data json.RawMessage) bool {
	var chunk map[string]json.RawMessage
	if json.Unmarshal(data, &chunk) != nil {
		return false
	}
	if wire.Truthy(chunk["error"]) || string(chunk["object"]) == `"error"` {
		s.fault = bytes.Clone(data)
		return true
	}
	_ = wire.Each(chunk["choices"], func(raw json.RawMessage) bool {
		s.choice(raw)
		return true
	})
	for _, m := range members(data) {
		switch {
		case m.name == "choices", m.name == "usage" && !wire.Truthy(m.value):
		case m.name == "object" && string(m.value) == `"chat.completion.chunk"`:
			s.top.set("object", []byte(`"chat.completion"`))
		default:
			s.top.set(m.name, m.value)
		}
	}
	return false
}

func (s *chatStream) choice(raw json.RawMessage) {
	var head struct {
		Index  int             `json:"index"`
		Finish json.RawMessage `json:"finish_reason"`
		Error  json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(raw, &head)
	var ch *streamChoice
	for _, have := range s.choices {
		if have.index == head.Index {
			ch = have
		}
	}
	if ch == nil {
		if len(s.choices) >= maxChoices {
			return
		}
		ch = &streamChoice{index: head.Index, rest: newObject()}
		s.choices = append(s.choices, ch)
	}
	for _, m := range members(raw) {
		switch m.name {
		case "index":
		case "delta":
			if ch.message == nil {
				ch.message = newObject()
			}
			ch.message.merge(m.value)
		case "text", "logprobs":
			ch.rest.member(m.name).merge(m.value)
		case "finish_reason":
			if wire.Truthy(m.value) {
				ch.rest.set(m.name, m.value)
			}
		default:
			ch.rest.set(m.name, m.value)
		}
	}
	ch.ended = ch.ended || wire.Truthy(head.Finish) || wire.Truthy(head.Error)
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
