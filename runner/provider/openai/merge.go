package openai

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// node is a JSON value that grows by deltas. Texts are kept and joined as they
// are escaped: nothing is decoded and encoded again, and a character whose two
// escapes come in two events stays whole.
type node struct {
	kind  byte   // 0 nothing yet, '"' text, '{', '[', or 'x' for any other value
	text  []byte // of a text, without its quotes; of any other value, all of it
	names []string
	by    map[string]*node
	items []*node
}

func newObject() *node { return &node{kind: '{', by: map[string]*node{}} }

// member returns the member of an object, made if need be.
func (n *node) member(name string) *node {
	m := n.by[name]
	if m == nil {
		m = &node{}
		n.by[name] = m
		n.names = append(n.names, name)
	}
	return m
}

// set replaces a member by a value as it stands.
func (n *node) set(name string, value []byte) {
	m := n.member(name)
	*m = node{kind: 'x', text: append(m.text[:0], value...)}
}

// once are the texts that repeat in place of going on.
var once = map[string]bool{"role": true, "id": true, "type": true, "name": true, "format": true}

// merge takes in a delta.
func (n *node) merge(delta json.RawMessage) {
	delta = bytes.TrimSpace(delta)
	if len(delta) == 0 || string(delta) == "null" {
		if n.kind == 0 {
			n.kind, n.text = 'x', []byte("null")
		}
		return
	}
	first := delta[0]
	if n.kind != first { // a value of another form takes its place
		*n = node{}
	}
	switch first {
	case '"':
		n.kind = '"'
		n.text = append(n.text, delta[1:len(delta)-1]...)
	case '{':
		if n.kind == 0 {
			*n = *newObject()
		}
		for name, value := range wire.Fields(delta) {
			switch {
			case !once[name]:
				n.member(name).merge(value)
			case wire.Truthy(value) || n.by[name] == nil:
				n.set(name, value)
			}
		}
	case '[':
		n.kind = '['
		for raw := range wire.Elements(delta) {
			n.item(raw)
		}
	default:
		n.kind, n.text = 'x', append(n.text[:0], delta...)
	}
}

// item merges a numbered part into its own, and puts any other at the end.
func (n *node) item(raw json.RawMessage) {
	var head struct {
		Index *int `json:"index"`
	}
	_ = json.Unmarshal(raw, &head)
	part := &node{}
	if head.Index == nil {
		n.items = append(n.items, part)
	} else {
		if n.by == nil {
			n.by = map[string]*node{}
		}
		key := strconv.Itoa(*head.Index)
		if have := n.by[key]; have != nil {
			part = have
		} else {
			n.by[key] = part
			n.items = append(n.items, part)
		}
	}
	part.merge(raw)
}

func (n *node) write(b *bytes.Buffer) {
	switch n.kind {
	case '"':
		b.WriteByte('"')
		b.Write(n.text)
		b.WriteByte('"')
	case '{':
		b.WriteByte('{')
		n.members(b, "")
		b.WriteByte('}')
	case '[':
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.part(b)
		}
		b.WriteByte(']')
	case 0:
		b.WriteString("null")
	default:
		b.Write(n.text)
	}
}

// part writes an element of a list, without the number by which streams find it.
func (n *node) part(b *bytes.Buffer) {
	if n.kind != '{' {
		n.write(b)
		return
	}
	b.WriteByte('{')
	n.members(b, "index")
	b.WriteByte('}')
}

// members writes the members of an object but the one to skip.
func (n *node) members(b *bytes.Buffer, skip string) {
	some := false
	for _, name := range n.names {
		if name == skip {
			continue
		}
		if some {
			b.WriteByte(',')
		}
		some = true
		quoted, _ := json.Marshal(name)
		b.Write(quoted)
		b.WriteByte(':')
		n.by[name].write(b)
	}
}
