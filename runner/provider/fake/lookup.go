package fake

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// shelf keeps the answers that can be looked up later: those of the Responses API by the answer's id, and OpenRouter's
// by the generation id of the headers. Not safe for concurrent use.
type shelf struct {
	answers map[string]stored
	max     int
}

// stored is a call whose answer was generated, and how much of it.
type stored struct {
	call  call // its body is gone
	whole bool // all of the answer was generated, delivered or not
}

func (s *shelf) put(c *call, full int, seed uint64) {
	for _, id := range [...]string{c.responseID(seed), c.generationID()} {
		if _, again := s.answers[id]; id == "" || !again && len(s.answers) >= s.max {
			continue
		}
		entry := stored{*c, c.out == full}
		entry.call.body, entry.call.text = nil, bytes.Clone(c.text)
		s.answers[id] = entry
	}
}

// completion is the text of a chat completion's first choice.
func (s *Server) completion(c *call) string {
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(s.answer(nil, c), &answer); err != nil || len(answer.Choices) == 0 {
		return "" // another API's
	}
	return answer.Choices[0].Message.Content
}

// responseID is the id of a Responses answer; "" for another API's.
func (c *call) responseID(seed uint64) string {
	if c.api != apiResponses {
		return ""
	}
	return "resp_" + hexID(mix(seed, c.bodyID))
}

// generationID is what OpenRouter calls the call; "" in other dialects.
func (c *call) generationID() string {
	if c.hints != OpenRouter {
		return ""
	}
	return "gen-" + strings.TrimPrefix(c.id, "req_")
}

// lookupID reads the id off GET /responses/ID and GET /generation?id=ID.
func lookupID(r *http.Request) (id string, ok bool) {
	if r.Method != http.MethodGet {
		return "", false
	}
	if strings.HasSuffix(r.URL.Path, "/generation") || strings.HasSuffix(r.URL.Path, "/generation/content") {
		return r.URL.Query().Get("id"), true
	}
	_, id, ok = strings.Cut(r.URL.Path, apiResponses+"/")
	return id, ok
}

// lookUp answers a look-up: it is free, and no call. A response that was not generated to its end is cancelled; of a
// generation there are the counts alone.
func (s *Server) lookUp(r *http.Request, id string) reply {
	none := call{dialect: s.cfg.Style}
	if !s.authorized(r) {
		return none.unauthorized()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.st.Lookups++
	found, ok := s.shelf.answers[id]
	c := &found.call
	switch {
	case !ok:
		return none.fail(failure{status: 404, typ: "invalid_request_error", text: "'" + id + "' not found.", meta: map[string]any{"error_type": "not_found"}})
	case strings.HasSuffix(r.URL.Path, "/content"):
		return reply{status: 200, body: encode(map[string]any{"data": map[string]any{
			"input": map[string]any{"messages": []any{}}, "output": map[string]any{"completion": s.completion(c), "reasoning": nil},
		}})}
	case strings.HasPrefix(id, "gen-"):
		return reply{status: 200, body: encode(map[string]any{"data": map[string]any{
			"id": id, "model": c.model, "provider_name": "Mock", "streamed": c.stream, "cancelled": !found.whole, "finish_reason": c.finish,
			"tokens_prompt": c.prompt, "tokens_completion": c.out, "native_tokens_prompt": c.prompt, "native_tokens_completion": c.out,
			"native_tokens_reasoning": c.reason, "total_cost": 0, "is_byok": false,
		}})}
	case !found.whole:
		return reply{status: 200, body: encode(map[string]any{
			"id": id, "object": "response", "created_at": created, "status": "cancelled", "model": c.model, "output": []any{}, "error": nil,
		})}
	}
	return reply{status: 200, body: s.answer(nil, c)}
}
