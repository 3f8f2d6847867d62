package fake

import (
	"encoding/json"
	"slices"
)

// finishReason is the answer's end in Gemini's words.
func (c *call) finishReason() string {
	switch {
	case c.fault == "filter" || c.fault == "refusal":
		return "SAFETY"
	case c.fault == "choice_error":
		return "OTHER"
	case c.finish == "stop" || c.fault == "tool":
		return "STOP"
	case c.finish == "length":
		return "MAX_TOKENS"
	}
	return c.finish
}

// usageMetadata counts cached tokens inside the prompt, and thoughts beside the candidates.
func (c *call) usageMetadata(out int) map[string]any {
	u := map[string]any{"promptTokenCount": c.prompt, "totalTokenCount": c.prompt + out}
	if visible := out - c.reason; visible > 0 {
		u["candidatesTokenCount"] = visible
	}
	if c.reason > 0 && out > 0 {
		u["thoughtsTokenCount"] = c.reason
	}
	if c.cached > 0 {
		u["cachedContentTokenCount"] = c.cached
	}
	return u
}

func (c *call) geminiAnswer(h uint64, candidates []any, out int) map[string]any {
	return map[string]any{"candidates": candidates, "usageMetadata": c.usageMetadata(out), "modelVersion": c.model, "responseId": hexID(h)}
}

// candidate has a part of text (raw JSON with its quotes; nil = none) and a finishReason ("" = none yet).
func candidate(i int, text json.RawMessage, finish string) map[string]any {
	v := map[string]any{"index": i}
	if text != nil {
		v["content"] = map[string]any{"role": "model", "parts": []any{map[string]any{"text": text}}}
	}
	if finish != "" {
		v["finishReason"] = finish
	}
	return v
}

// calling is a candidate that calls a tool.
func (c *call) calling(i int, finish string) map[string]any {
	v := candidate(i, nil, finish)
	v["content"] = map[string]any{"role": "model", "parts": []any{c.functionCall()}}
	return v
}

func (s *Server) appendGemini(dst []byte, c *call, h uint64) []byte {
	list := make([]any, c.choices)
	for i := range list {
		text := slices.Concat([]byte{'"'}, s.appendText(nil, c, h+uint64(i)), []byte{'"'})
		if c.fault == "refusal" || c.fault == "filter" {
			text = nil
		}
		list[i] = candidate(i, text, c.finishReason())
		if c.fault == "tool" {
			list[i] = c.calling(i, c.finishReason())
		}
	}
	return append(dst, encode(c.geminiAnswer(h, list, c.out))...)
}

// geminiEvents streams an answer. The event with the finishReason is its terminator.
func (s *Server) geminiEvents(c *call) (ev events) {
	h := mix(s.cfg.Seed, c.bodyID)
	if c.fault == "empty" {
		return events{done: sse("", c.geminiAnswer(h, []any{}, 0))}
	}
	for i := range c.choices {
		for j, text := range s.pieces(c, h+uint64(i)) {
			ev.delta(j, sse("", c.geminiAnswer(h, []any{candidate(i, text, "")}, 0)))
		}
		if c.fault == "tool" {
			ev.delta(0, sse("", c.geminiAnswer(h, []any{c.calling(i, "")}, 0)))
		}
		last := candidate(i, json.RawMessage(`""`), c.finishReason())
		if len(ev.deltas) == 0 {
			delete(last, "content")
		}
		ev.done = append(ev.done, sse("", c.geminiAnswer(h, []any{last}, c.out))...)
	}
	return ev
}

// appendGeminiEmbedding answers embedContent: one text, and no usage.
func (s *Server) appendGeminiEmbedding(dst []byte, c *call, h uint64) []byte {
	dims := c.dims
	if dims <= 0 {
		dims = c.group.cfg.Dimensions
	}
	dst = append(dst, `{"embedding":{"values":`...)
	return append(appendVector(dst, h, dims, false), `}}`...)
}
