package fake

import (
	"encoding/json"
	"slices"
)

// stopReason is the answer's end in the words of the messages API.
func (c *call) stopReason() string {
	switch {
	case c.fault == "filter" || c.fault == "refusal":
		return "refusal"
	case c.finish == "stop":
		return "end_turn"
	case c.finish == "length":
		return "max_tokens"
	case c.fault == "tool":
		return "tool_use"
	}
	return c.finish
}

// anthropicUsage counts cached tokens beside the input, as Anthropic does.
func (c *call) anthropicUsage(out int) map[string]any {
	return map[string]any{
		"input_tokens": c.prompt - c.cached, "cache_creation_input_tokens": 0, "cache_read_input_tokens": c.cached,
		"cache_creation": map[string]any{"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
		"output_tokens":  out, "service_tier": "standard",
	}
}

// messageObject is the object of an answer with this content.
func (c *call) messageObject(h uint64, content []any, stop any, out int) map[string]any {
	return map[string]any{
		"id": "msg_" + hexID(h), "type": "message", "role": "assistant", "model": c.model, "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": c.anthropicUsage(out),
	}
}

func (s *Server) appendMessage(dst []byte, c *call, h uint64) []byte {
	if c.fault == "choice_error" { // there is no such thing: an error object
		r := c.statusFailure(500)
		return append(dst, r.body...)
	}
	text := slices.Concat([]byte{'"'}, s.appendText(nil, c, h), []byte{'"'})
	content := []any{map[string]any{"type": "text", "text": json.RawMessage(text)}}
	switch c.fault {
	case "refusal", "filter":
		content = []any{}
	case "tool":
		content = []any{c.toolUse(toolArguments)}
	}
	return append(dst, encode(c.messageObject(h, content, c.stopReason(), c.out))...)
}

// messageEvents streams a message. The usage of message_start has a placeholder for the output; message_delta's is
// cumulative. A choice that fails is an error event at the end.
func (s *Server) messageEvents(c *call) events {
	h := mix(s.cfg.Seed, c.bodyID)
	event := func(typ string, v map[string]any) []byte {
		v["type"] = typ
		return sse(typ, v)
	}
	ev := events{
		open: event("message_start", map[string]any{"message": c.messageObject(h, []any{}, nil, 1)}),
		done: event("message_stop", map[string]any{}),
	}
	var block map[string]any
	if c.fault == "tool" {
		block = c.toolUse("{}")
		for _, p := range toolPieces {
			ev.deltas = append(ev.deltas, event("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "input_json_delta", "partial_json": p}}))
		}
	}
	for _, text := range s.pieces(c, h) {
		block = map[string]any{"type": "text", "text": ""}
		ev.deltas = append(ev.deltas, event("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": text}}))
	}
	if block != nil {
		ev.open = append(ev.open, event("content_block_start", map[string]any{"index": 0, "content_block": block})...)
		ev.finish = event("content_block_stop", map[string]any{"index": 0})
	}
	ev.open = append(ev.open, c.ping()...)
	if c.fault == "choice_error" {
		own := *c
		own.arg = "server"
		ev.finish, ev.done = own.errorEvent(), nil
		return ev
	}
	ev.finish = append(ev.finish, event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": c.stopReason(), "stop_sequence": nil}, "usage": c.anthropicUsage(c.out),
	})...)
	return ev
}
