package anthropic

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/llmbatch/llmbatch/runner/provider/chat"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// messageStream puts a message together from its events. Only message_stop
// makes it whole.
type messageStream struct {
	message map[string]json.RawMessage
	usage   map[string]json.RawMessage
	blocks  []*streamBlock
	fault   []byte
	whole   bool
}

// streamBlock is a content block: its fields as they began, and the texts that
// its deltas add, still escaped, so that what two events split stays whole.
type streamBlock struct {
	index  int
	fields map[string]json.RawMessage
	grown  map[string][]byte
	lists  map[string][]json.RawMessage
}

// maxBlocks bounds what a hostile stream can make us hold.
const maxBlocks = 1 << 16

// event is one of the API's events, its values part of the stream's bytes.
type event struct {
	kind                         string
	index                        int
	message, block, delta, usage json.RawMessage
	fault                        bool
}

func parseEvent(data json.RawMessage) (ev event) {
	for name, v := range wire.Fields(data) {
		switch name {
		case "type":
			ev.kind = string(bytes.Trim(v, `"`))
		case "index":
			ev.index, _ = strconv.Atoi(string(v))
		case "message":
			ev.message = v
		case "content_block":
			ev.block = v
		case "delta":
			ev.delta = v
		case "usage":
			ev.usage = v
		case "error":
			ev.fault = wire.Truthy(v)
		}
	}
	return ev
}

// Add implements [wire.Assembler].
func (s *messageStream) Add(data json.RawMessage) bool {
	ev := parseEvent(data)
	switch {
	case ev.kind == "error" || ev.fault:
		s.fault = bytes.Clone(data)
		return true
	case ev.kind == "message_start" && s.message == nil && ev.message != nil:
		s.message = fields(ev.message)
		s.usage = fields(s.message["usage"])
	case s.message == nil: // ping
	case ev.kind == "content_block_start":
		if len(s.blocks) < maxBlocks && ev.block != nil {
			s.blocks = append(s.blocks, &streamBlock{index: ev.index, fields: fields(ev.block), grown: map[string][]byte{}, lists: map[string][]json.RawMessage{}})
		}
	case ev.kind == "content_block_delta":
		// The block that grows is nearly always the last one.
		for _, b := range slices.Backward(s.blocks) {
			if b.index == ev.index {
				b.grow(ev.delta)
				break
			}
		}
	case ev.kind == "message_delta":
		for name, v := range wire.Fields(ev.delta) {
			s.message[name] = bytes.Clone(v)
		}
		for name, v := range wire.Fields(ev.usage) { // cumulative; message_start had a placeholder
			if string(v) != "null" {
				s.usage[name] = bytes.Clone(v)
			}
		}
	case ev.kind == "message_stop":
		s.whole = true
	}
	return s.whole
}

// fields copies the members of an object.
func fields(object json.RawMessage) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for name, v := range wire.Fields(object) {
		out[name] = bytes.Clone(v)
	}
	return out
}

// grow takes in a delta, whose members name what they add to.
func (b *streamBlock) grow(delta json.RawMessage) {
	for name, v := range wire.Fields(delta) {
		switch {
		case name == "citation":
			b.lists["citations"] = append(b.lists["citations"], bytes.Clone(v))
		case name != "type" && v[0] == '"':
			b.grown[name] = append(b.grown[name], v[1:len(v)-1]...)
		}
	}
}

// finished returns the block as a message without streaming has it.
func (b *streamBlock) finished() map[string]json.RawMessage {
	for name, text := range b.grown {
		if name == "partial_json" {
			var arguments string
			if json.Unmarshal(quoted(text), &arguments) == nil && json.Valid([]byte(arguments)) {
				b.fields["input"] = json.RawMessage(arguments)
			}
			continue
		}
		if first := b.fields[name]; len(first) > 2 && first[0] == '"' {
			text = append(bytes.Clone(first[1:len(first)-1]), text...)
		}
		b.fields[name] = quoted(text)
	}
	for name, list := range b.lists {
		b.fields[name], _ = json.Marshal(list)
	}
	return b.fields
}

func quoted(inner []byte) json.RawMessage {
	return append(append([]byte{'"'}, inner...), '"')
}

// Answer implements [wire.Assembler].
func (s *messageStream) Answer() ([]byte, bool) {
	if s.fault != nil {
		return s.fault, true
	}
	if !s.whole {
		return nil, false
	}
	content := make([]map[string]json.RawMessage, len(s.blocks))
	for i, b := range s.blocks {
		content[i] = b.finished()
	}
	var err error
	if s.message["content"], err = chat.Marshal(content); err != nil {
		return nil, false
	}
	if s.message["usage"], err = chat.Marshal(s.usage); err != nil {
		return nil, false
	}
	body, err := chat.Marshal(s.message)
	return body, err == nil
}
