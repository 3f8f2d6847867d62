package anthropic

import (
	"bytes"
	"encoding/json"
	"slices"

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

// Add implements [wire.Assembler].
func (s *messageStream) Add(data json.RawMessage) bool {
	var ev struct {
		Type    wire.Text                  `json:"type"`
		Index   int                        `json:"index"`
		Message map[string]json.RawMessage `json:"message"`
		Block   map[string]json.RawMessage `json:"content_block"`
		Delta   map[string]json.RawMessage `json:"delta"`
		Usage   map[string]json.RawMessage `json:"usage"`
		Error   json.RawMessage            `json:"error"`
	}
	_ = json.Unmarshal(data, &ev)
	switch {
	case ev.Type == "error" || wire.Truthy(ev.Error):
		s.fault = bytes.Clone(data)
		return true
	case ev.Type == "message_start" && s.message == nil && ev.Message != nil:
		s.message, s.usage = ev.Message, map[string]json.RawMessage{}
		_ = json.Unmarshal(ev.Message["usage"], &s.usage)
	case s.message == nil: // ping
	case ev.Type == "content_block_start":
		if len(s.blocks) < maxBlocks && ev.Block != nil {
			s.blocks = append(s.blocks, &streamBlock{index: ev.Index, fields: ev.Block, grown: map[string][]byte{}, lists: map[string][]json.RawMessage{}})
		}
	case ev.Type == "content_block_delta":
		// The block that grows is nearly always the last one.
		for _, b := range slices.Backward(s.blocks) {
			if b.index == ev.Index {
				b.grow(ev.Delta)
				break
			}
		}
	case ev.Type == "message_delta":
		for name, v := range ev.Delta {
			s.message[name] = v
		}
		for name, v := range ev.Usage { // cumulative; message_start had a placeholder
			if string(v) != "null" {
				s.usage[name] = v
			}
		}
	case ev.Type == "message_stop":
		s.whole = true
	}
	return s.whole
}

// grow takes in a delta: its type names what it adds to.
func (b *streamBlock) grow(delta map[string]json.RawMessage) {
	if v := delta["citation"]; v != nil {
		b.lists["citations"] = append(b.lists["citations"], v)
		return
	}
	for name, v := range delta {
		if name != "type" && len(v) >= 2 && v[0] == '"' {
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
