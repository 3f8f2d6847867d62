package fake

import (
	"encoding/json"
	"slices"
)

// pieces cuts the text of a choice, raw JSON, before blanks: a blank is never part of an escape.
func (s *Server) pieces(c *call, h uint64) []json.RawMessage {
	switch c.fault {
	case "empty", "refusal", "filter", "blank", "tool":
		return nil
	}
	text := s.appendText(nil, c, h)
	var starts []int // of words, and the end
	for i := range text {
		if i == 0 || text[i] == ' ' {
			starts = append(starts, i)
		}
	}
	n := min(c.group.cfg.Chunks, len(starts))
	starts = append(starts, len(text))
	list := make([]json.RawMessage, n)
	for k := range list {
		from, to := starts[(len(starts)-1)*k/n], starts[(len(starts)-1)*(k+1)/n]
		list[k] = slices.Concat([]byte{'"'}, text[from:to], []byte{'"'})
	}
	return list
}

// chatEvents streams a chat or text completion.
func (s *Server) chatEvents(c *call) events {
	h := mix(s.cfg.Seed, c.bodyID)
	id, object := "chatcmpl-", "chat.completion.chunk"
	if c.api == apiCompletions {
		id, object = "cmpl-", "text_completion"
	}
	event := func(choices []any, more map[string]any) []byte {
		v := map[string]any{"id": id + hexID(h), "object": object, "created": created, "model": c.model, "system_fingerprint": "fp_mock", "choices": choices}
		if c.usage {
			v["usage"] = nil
		}
		for k, x := range more {
			v[k] = x
		}
		return sse("", v)
	}
	piece := func(i int, text json.RawMessage, finish any) map[string]any {
		if c.api == apiCompletions {
			return map[string]any{"index": i, "text": text, "logprobs": nil, "finish_reason": finish}
		}
		return map[string]any{"index": i, "delta": map[string]any{"content": text}, "logprobs": nil, "finish_reason": finish}
	}
	ev := events{done: []byte("data: [DONE]\n\n")}
	for i := range c.choices {
		first := piece(i, json.RawMessage(`""`), nil)
		last := piece(i, json.RawMessage(`""`), c.finish)
		if c.api == apiChat {
			first["delta"] = map[string]any{"role": "assistant", "content": "", "refusal": nil}
			last["delta"] = map[string]any{}
		}
		var more map[string]any
		switch c.fault {
		case "empty":
			continue
		case "refusal":
			first["delta"] = map[string]any{"role": "assistant", "refusal": "I'm sorry, I can't help with that."}
		case "choice_error":
			more = map[string]any{"error": map[string]any{"code": 502, "message": "Upstream provider failed"}}
		}
		ev.open = append(ev.open, event([]any{first}, nil)...)
		for j, text := range s.pieces(c, h+uint64(i)) {
			ev.delta(j, event([]any{piece(i, text, nil)}, nil))
		}
		if c.fault == "tool" && c.api == apiChat {
			for j, delta := range c.chatToolDeltas() {
				ev.delta(j, event([]any{map[string]any{"index": i, "delta": delta, "logprobs": nil, "finish_reason": nil}}, nil))
			}
		}
		ev.finish = append(ev.finish, event([]any{last}, more)...)
	}
	if c.usage {
		ev.finish = append(ev.finish, event([]any{}, map[string]any{"usage": json.RawMessage(appendUsage(nil, "prompt", "completion", c))})...)
	}
	return ev
}

// responseEvents streams a response of the Responses API.
func (s *Server) responseEvents(c *call) (ev events) {
	h := mix(s.cfg.Seed, c.bodyID)
	n := 0
	event := func(typ string, v map[string]any) []byte {
		v["type"], v["sequence_number"] = typ, n
		n++
		return sse(typ, v)
	}
	begun := map[string]any{
		"id": "resp_" + hexID(h), "object": "response", "created_at": created, "status": "in_progress", "error": nil, "incomplete_details": nil,
		"model": c.model, "output": []any{}, "usage": nil,
	}
	ev.open = slices.Concat(
		event("response.created", map[string]any{"response": begun}),
		event("response.in_progress", map[string]any{"response": begun}),
	)
	var middle events
	if c.fault == "tool" {
		middle = c.responseToolEvents(h, event)
	} else {
		middle = s.responseTextEvents(c, h, event)
	}
	ev.open, ev.deltas, ev.finish = append(ev.open, middle.open...), middle.deltas, middle.finish
	last := "response.completed"
	body := s.appendResponse(nil, c, h)
	switch {
	case c.fault == "empty":
		ev.open, ev.finish, body = nil, nil, c.empty()
	case c.fault == "choice_error":
		last = "response.failed"
	case c.finish == "length" || c.finish == "content_filter":
		last = "response.incomplete"
	}
	ev.done = event(last, map[string]any{"response": json.RawMessage(body)})
	return ev
}

// responseTextEvents are the events between a response's beginning and its end, when it is text.
func (s *Server) responseTextEvents(c *call, h uint64, event func(string, map[string]any) []byte) (ev events) {
	item := "msg_" + hexID(h)
	ev.open = slices.Concat(
		event("response.output_item.added", map[string]any{"output_index": 0, "item": map[string]any{
			"id": item, "type": "message", "status": "in_progress", "role": "assistant", "content": []any{},
		}}),
		event("response.content_part.added", map[string]any{"item_id": item, "output_index": 0, "content_index": 0, "part": textPart(`""`)}),
	)
	for _, text := range s.pieces(c, h) {
		ev.deltas = append(ev.deltas, event("response.output_text.delta", map[string]any{"item_id": item, "output_index": 0, "content_index": 0, "delta": text}))
	}
	whole := textPart(string(slices.Concat([]byte{'"'}, s.appendText(nil, c, h), []byte{'"'})))
	ev.finish = slices.Concat(
		event("response.output_text.done", map[string]any{"item_id": item, "output_index": 0, "content_index": 0, "text": whole["text"]}),
		event("response.content_part.done", map[string]any{"item_id": item, "output_index": 0, "content_index": 0, "part": whole}),
		event("response.output_item.done", map[string]any{"output_index": 0, "item": map[string]any{
			"id": item, "type": "message", "status": "completed", "role": "assistant", "content": []any{whole},
		}}),
	)
	return ev
}

func textPart(raw string) map[string]any {
	return map[string]any{"type": "output_text", "annotations": []any{}, "text": json.RawMessage(raw)}
}
