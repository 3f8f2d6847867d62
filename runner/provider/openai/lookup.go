package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

var _ provider.Looker = (*Client)(nil)

// keeps says that a response can be fetched by its id later: those of the
// Responses API, unless the request forbids that they are stored.
func (c *Client) keeps(r provider.Request) bool {
	return r.API == "/responses" && !c.Profile.Generations && string(wire.Member(r.Body, "store")) != "false"
}

// leadingID is the id in the part of a response that came before it was cut.
func leadingID(part []byte) string {
	d := json.NewDecoder(bytes.NewReader(part))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for d.More() {
		name, err := d.Token()
		var v json.RawMessage
		if err != nil || d.Decode(&v) != nil {
			return ""
		}
		if name == "id" {
			return string(wire.TextOf(v))
		}
	}
	return ""
}

// LookUp implements [provider.Looker]: GET /responses/{id}, or OpenRouter's
// figures and text of a generation.
func (c *Client) LookUp(ctx context.Context, r provider.Request, id string) (*provider.Found, error) {
	if c.Profile.Generations {
		return c.lookUpGeneration(ctx, r, id)
	}
	u, err := c.target("/responses", "")
	if err != nil {
		return nil, c.Refuse(err)
	}
	u.RawPath = u.EscapedPath() + "/" + url.PathEscape(id)
	u.Path += "/" + id
	reply, err := c.fetch(ctx, u)
	if reply == nil {
		return &provider.Found{}, err
	}
	body := wire.Payload(reply.Body)
	if string(wire.TextOf(wire.Member(body, "id"))) != id {
		return &provider.Found{}, nil // another's, if one at all: it must not pass for the answer
	}
	switch wire.TextOf(wire.Member(body, "status")) {
	case "queued", "in_progress":
		return &provider.Found{Fate: provider.FateRunning}, nil
	case "completed", "incomplete":
		return c.found(r.API, reply)
	case "failed":
		return &provider.Found{Fate: provider.FateEnded, Failed: true}, nil
	case "cancelled":
		return &provider.Found{Fate: provider.FateEnded}, nil
	default:
		return &provider.Found{}, nil // no response, or one of another kind
	}
}

// fetch gets a document. Neither is returned where there is none.
func (c *Client) fetch(ctx context.Context, u *url.URL) (*provider.Reply, error) {
	reply, failed := c.Get(ctx, u)
	switch {
	case failed != nil:
		return nil, failed
	case reply.StatusCode == http.StatusNotFound, reply.StatusCode == http.StatusMethodNotAllowed:
		return nil, nil
	case reply.StatusCode/100 != 2:
		return nil, c.refused(reply)
	case !json.Valid(wire.Payload(reply.Body)):
		return nil, nil // a server's page, not its API
	}
	return reply, nil
}

// found reads an answer as if it had come. One that is no success is as good as
// none.
func (c *Client) found(api string, reply *provider.Reply) (*provider.Found, error) {
	resp, failed := c.read(api, reply)
	if failed != nil {
		return &provider.Found{Fate: provider.FateEnded}, nil
	}
	resp.SentAt = time.Time{}
	return &provider.Found{Fate: provider.FateAnswered, Response: resp}, nil
}

// lookUpGeneration asks OpenRouter for the figures of a call, and, if it ended well,
// for its text, which is there where the account stores it. Of a text alone a
// chat completion can be made, but none with tool calls or several choices.
func (c *Client) lookUpGeneration(ctx context.Context, r provider.Request, id string) (*provider.Found, error) {
	reply, err := c.fetch(ctx, c.below("/generation", id))
	if reply == nil {
		return &provider.Found{}, err
	}
	var g struct {
		Data struct {
			ID              wire.Text
			Model           wire.Text
			Cancelled       bool
			Finish          wire.Text `json:"finish_reason"`
			NativePrompt    int64     `json:"native_tokens_prompt"`
			NativeOutput    int64     `json:"native_tokens_completion"`
			NativeReasoning int64     `json:"native_tokens_reasoning"`
			NativeCached    int64     `json:"native_tokens_cached"`
		} `json:"data"`
	}
	_ = json.Unmarshal(wire.Payload(reply.Body), &g) // what is of another type is not there
	switch d := &g.Data; {
	case string(d.ID) != id:
		return &provider.Found{}, nil
	case d.Cancelled:
		return &provider.Found{Fate: provider.FateEnded}, nil
	case r.API != "/chat/completions", wire.Truthy(wire.Member(r.Body, "n")), d.Finish != "stop" && d.Finish != "length":
		return &provider.Found{}, nil
	}
	text, err := c.fetch(ctx, c.below("/generation/content", id))
	if text == nil {
		return &provider.Found{}, err
	}
	output := wire.Member(wire.Member(wire.Payload(text.Body), "data"), "output")
	completion := wire.TextOf(wire.Member(output, "completion"))
	if completion == "" {
		return &provider.Found{}, nil
	}
	message := map[string]any{"role": "assistant", "content": completion}
	if reasoning := wire.TextOf(wire.Member(output, "reasoning")); reasoning != "" {
		message["reasoning"] = reasoning
	}
	d := &g.Data
	body, err := json.Marshal(map[string]any{
		"id": id, "object": "chat.completion", "model": d.Model,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": d.Finish}},
		"usage": map[string]any{
			"prompt_tokens": d.NativePrompt, "completion_tokens": d.NativeOutput, "total_tokens": d.NativePrompt + d.NativeOutput,
			"prompt_tokens_details":     map[string]any{"cached_tokens": d.NativeCached},
			"completion_tokens_details": map[string]any{"reasoning_tokens": d.NativeReasoning},
		},
	})
	if err != nil {
		return nil, c.Refuse(err)
	}
	text.Body = body
	return c.found(r.API, text)
}

// below is a URL under the base with an id for its query.
func (c *Client) below(path, id string) *url.URL {
	u := *c.Base
	u.RawPath = u.EscapedPath() + path
	u.Path += path
	u.RawQuery = url.Values{"id": {id}}.Encode()
	return &u
}
