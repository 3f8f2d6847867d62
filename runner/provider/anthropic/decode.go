package anthropic

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/chat"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// answer holds the fields of a message that matter.
type answer struct {
	ID      wire.Text       `json:"id"`
	Type    wire.Text       `json:"type"`
	Model   wire.Text       `json:"model"`
	Error   json.RawMessage `json:"error"`
	Content json.RawMessage `json:"content"`
	Stop    json.RawMessage `json:"stop_reason"`
	Usage   *usage          `json:"usage"`
}

type usage struct {
	odd bool // it holds a number that is no count

	Input      int64 `json:"input_tokens"` // only what comes after the last cache breakpoint
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	Output     int64 `json:"output_tokens"`
	OutputIn   struct {
		Thinking  int64 `json:"thinking_tokens"`
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

func (u *usage) UnmarshalJSON(b []byte) error {
	type plain usage
	u.odd = !wire.DecodeCounts(b, (*plain)(u))
	return nil
}

func (u *usage) public() provider.Usage {
	if u == nil || u.odd || !provider.Plausible(u.Input, u.CacheRead, u.CacheWrite, u.Output) {
		return provider.Usage{}
	}
	p := provider.Usage{
		Input:     u.Input + u.CacheRead + u.CacheWrite,
		Output:    u.Output,
		Cached:    u.CacheRead,
		Reasoning: min(max(u.OutputIn.Thinking, u.OutputIn.Reasoning, 0), u.Output),
	}
	p.Known = p.Input > 0 || p.Output > 0
	return p
}

// read turns a reply into a response, or into the error that it is.
func (c *Client) read(api string, reply *provider.Reply) (*provider.Response, *provider.Error) {
	if reply.StatusCode/100 != 2 {
		return nil, c.refused(reply)
	}
	body := wire.Payload(reply.Body)
	var a answer
	if kind, message := wire.DecodeObject(c.Caller, reply, body, &a); kind != provider.KindNone {
		return nil, c.unsuccessful(reply, kind, message)
	}
	if a.Type == "error" || wire.Truthy(a.Error) {
		return nil, c.faulty(reply, body)
	}
	said := a.blocks()
	finish, kind, message := a.judge(said)
	if kind != provider.KindNone {
		return nil, c.unsuccessful(reply, kind, message)
	}
	resp := &provider.Response{
		StatusCode: reply.StatusCode,
		RequestID:  c.Redactor.RequestID(reply.Header),
		ID:         c.Redactor.CleanName(string(a.ID)),
		Model:      c.Redactor.CleanName(string(a.Model)),
		Body:       body,
		Usage:      a.Usage.public(),
		Finish:     finish,
		Rate:       provider.ParseRate(reply.Header, c.Profile.Dialect, reply.Done),
		SentAt:     reply.SentAt,
		Done:       reply.Done,
	}
	if api == apiChat {
		return c.translate(resp, &a, said)
	}
	return resp, nil
}

// content is what the blocks of a message hold.
type content struct {
	text, thinking strings.Builder
	calls          []chat.Call
	other          bool // blocks that a chat completion has no place for
}

func (a *answer) blocks() *content {
	var out content
	_ = wire.Each(a.Content, func(raw json.RawMessage) bool {
		var b struct {
			Type     wire.Text       `json:"type"`
			Text     wire.Text       `json:"text"`
			Thinking wire.Text       `json:"thinking"`
			ID       wire.Text       `json:"id"`
			Name     wire.Text       `json:"name"`
			Input    json.RawMessage `json:"input"`
		}
		_ = json.Unmarshal(raw, &b)
		switch b.Type {
		case "text":
			out.text.WriteString(string(b.Text))
		case "thinking":
			out.thinking.WriteString(string(b.Thinking))
		case "redacted_thinking", "":
		case "tool_use":
			var arguments bytes.Buffer
			if json.Compact(&arguments, b.Input) != nil || arguments.Len() == 0 {
				arguments.WriteString("{}")
			}
			out.calls = append(out.calls, chat.Call{ID: string(b.ID), Name: string(b.Name), Arguments: arguments.Bytes()})
		default:
			out.other = true
		}
		return true
	})
	return &out
}

// judge decides whether a message is an answer.
func (a *answer) judge(said *content) (finish string, kind provider.Kind, message string) {
	var reason wire.Text
	_ = json.Unmarshal(a.Stop, &reason)
	empty := said.text.Len() == 0 && len(said.calls) == 0 && !said.other
	switch reason {
	case "":
		return "", provider.KindTruncated, "the answer has no stop reason"
	case "max_tokens", "model_context_window_exceeded":
		return provider.FinishLength, provider.KindNone, "" // may be empty: the cap went into thinking
	case "refusal":
		return provider.FinishRefused, provider.KindNone, ""
	case "tool_use":
		finish = provider.FinishToolCalls
	case "end_turn", "stop_sequence":
		finish = provider.FinishStop
	default: // pause_turn and words to come
		var r *provider.Redactor
		finish = r.CleanName(string(reason))
	}
	if empty {
		return "", provider.KindEmptyAnswer, "the answer has no content"
	}
	return finish, provider.KindNone, ""
}

// translate gives a response the shape of a chat completion.
func (c *Client) translate(resp *provider.Response, a *answer, said *content) (*provider.Response, *provider.Error) {
	out := chat.Answer{
		ID: string(a.ID), Model: string(a.Model), Created: resp.Done.Unix(), Usage: resp.Usage,
		Choices: []chat.Choice{{Text: said.text.String(), Reasoning: said.thinking.String(), Calls: said.calls, Finish: resp.Finish}},
	}
	if a.Usage != nil {
		out.CacheWrite = max(a.Usage.CacheWrite, 0)
	}
	body, err := out.Encode()
	if err != nil {
		return nil, c.Refuse(err)
	}
	resp.Body, resp.Native = body, resp.Body
	return resp, nil
}
