package openai

import (
	"encoding/json"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// answer holds the fields of a success that matter; the rest stays raw.
type answer struct {
	ID         wire.Text       `json:"id"`
	Model      wire.Text       `json:"model"`
	Object     wire.Text       `json:"object"`
	Status     wire.Text       `json:"status"`
	Error      json.RawMessage `json:"error"`
	Choices    json.RawMessage `json:"choices"`
	Data       json.RawMessage `json:"data"`
	Results    json.RawMessage `json:"results"`
	Output     json.RawMessage `json:"output"`
	Incomplete struct {
		Reason wire.Text `json:"reason"`
	} `json:"incomplete_details"`
	Usage *usage `json:"usage"`
}

// usage has the names of chat completions and of responses, and those that
// DeepSeek and Together use for cached tokens.
type usage struct {
	odd bool // it holds a number that is no count

	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	Cached     int64 `json:"cached_tokens"`
	CacheHit   int64 `json:"prompt_cache_hit_tokens"`
	PromptIn   struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	InputIn struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	CompletionIn struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	OutputIn struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

func (u *usage) UnmarshalJSON(b []byte) error {
	type plain usage
	u.odd = !wire.DecodeCounts(b, (*plain)(u))
	return nil
}

func (u *usage) public() provider.Usage {
	if u == nil || u.odd || !provider.Plausible(u.Prompt, u.Input, u.Completion, u.Output, u.Total) {
		return provider.Usage{}
	}
	p := provider.Usage{
		Input:  max(u.Prompt, u.Input),
		Output: max(u.Completion, u.Output),
	}
	if p.Input == 0 && p.Output == 0 {
		p.Input = u.Total
	}
	p.Cached = min(max(u.PromptIn.Cached, u.InputIn.Cached, u.Cached, u.CacheHit, 0), p.Input)
	p.Reasoning = min(max(u.CompletionIn.Reasoning, u.OutputIn.Reasoning, 0), p.Output)
	p.Known = p.Input > 0 || p.Output > 0
	return p
}

// verdict says what a 200 is: a success with a finish, or a failure of kind,
// by the fault inside if there is one.
type verdict struct {
	finish  string
	kind    provider.Kind
	message string
	fault   *fault
}

func failedAs(k provider.Kind, message string) verdict { return verdict{kind: k, message: message} }

// read turns a reply into a response, or into the error that it is.
func (c *Client) read(api string, reply *provider.Reply) (*provider.Response, *provider.Error) {
	if reply.StatusCode/100 != 2 {
		return nil, c.refused(reply)
	}
	body := wire.Payload(reply.Body)
	var a answer
	var v verdict
	v.kind, v.message = wire.DecodeObject(c.Caller, reply, body, &a)
	if v.kind == provider.KindNone {
		v = a.judge(api, body)
	}
	if v.kind != provider.KindNone || v.fault != nil {
		return nil, c.unsuccessful(reply, v)
	}
	return &provider.Response{
		StatusCode: reply.StatusCode,
		RequestID:  c.Redactor.RequestID(reply.Header),
		ID:         c.Redactor.CleanName(string(a.ID)),
		Model:      c.Redactor.CleanName(string(a.Model)),
		Body:       body,
		Usage:      a.Usage.public(),
		Finish:     v.finish,
		Rate:       provider.ParseRate(reply.Header, c.Profile.Dialect, reply.Done),
		SentAt:     reply.SentAt,
		Done:       reply.Done,
	}, nil
}

// judge decides whether a 200 is a success of its API.
func (a *answer) judge(api string, body []byte) verdict {
	if wire.Truthy(a.Error) || a.Object == "error" {
		f := parseFault(body)
		return verdict{fault: &f}
	}
	switch api {
	case "/responses":
		return a.judgeResponse()
	case "/embeddings":
		return someItem(a.Data, "embedding")
	case "/moderations":
		return someItem(a.Results, "")
	default:
		return a.judgeChoices(api == "/completions")
	}
}

// choice is one of a completion's answers.
type choice struct {
	Finish  json.RawMessage `json:"finish_reason"`
	Text    wire.Text       `json:"text"`
	Error   json.RawMessage `json:"error"`
	Message struct {
		Content   json.RawMessage `json:"content"`
		Refusal   wire.Text       `json:"refusal"`
		ToolCalls json.RawMessage `json:"tool_calls"`
		Function  json.RawMessage `json:"function_call"`
		Audio     json.RawMessage `json:"audio"`
		Images    json.RawMessage `json:"images"`
	} `json:"message"`
}

// judgeChoices reads chat and plain completions. The choices are decoded one
// by one: a hostile list of millions must not become millions of structs.
func (a *answer) judgeChoices(plain bool) verdict {
	out := failedAs(provider.KindEmptyAnswer, "the answer holds no choices")
	err := wire.Each(a.Choices, func(raw json.RawMessage) bool {
		var ch choice
		_ = json.Unmarshal(raw, &ch)
		v := ch.judge(plain)
		// An error in any choice fails the answer; else the first choice that
		// says something speaks for it.
		if v.fault != nil || out.kind != provider.KindNone {
			out = v
		}
		return v.fault == nil
	})
	if err != nil {
		return failedAs(provider.KindEmptyAnswer, "the answer's choices are no list")
	}
	return out
}

func (ch *choice) judge(plain bool) verdict {
	var reason wire.Text
	_ = json.Unmarshal(ch.Finish, &reason)
	m := &ch.Message
	switch {
	case wire.Truthy(ch.Error):
		f := parseFault([]byte(`{"error":` + string(ch.Error) + `}`))
		return verdict{fault: &f}
	case reason == "error":
		return verdict{fault: &fault{Message: "the provider ended the answer with an error"}}
	case string(ch.Finish) == "null":
		return failedAs(provider.KindTruncated, "the answer has no finish reason")
	case m.Refusal != "":
		return verdict{finish: provider.FinishRefused}
	case wire.Truthy(m.ToolCalls) || wire.Truthy(m.Function):
		return verdict{finish: finish(string(reason), provider.FinishToolCalls)}
	}
	v := verdict{finish: finish(string(reason), "")}
	if v.finish == provider.FinishLength || v.finish == provider.FinishContentFilter {
		return v // may be empty: the cap went into reasoning, or the filter took it
	}
	if plain || wire.Truthy(m.Content) || wire.Truthy(m.Audio) || wire.Truthy(m.Images) || ch.Text != "" {
		return v
	}
	return failedAs(provider.KindEmptyAnswer, "the answer has no content")
}

// finish maps a finish reason to ours; other words are kept, cleaned.
func finish(reason, def string) string {
	switch reason {
	case "":
		return def
	case "stop", "eos", "end_turn", "stop_sequence":
		return provider.FinishStop
	case "length", "max_tokens", "model_length":
		return provider.FinishLength
	case "tool_calls", "function_call", "tool_use":
		return provider.FinishToolCalls
	case "content_filter", "safety":
		return provider.FinishContentFilter
	case "refusal":
		return provider.FinishRefused
	}
	var r *provider.Redactor
	return r.CleanName(reason)
}

// judgeResponse reads the Responses API, whose status decides.
func (a *answer) judgeResponse() verdict {
	switch a.Status {
	case "", "completed":
		return a.judgeOutput()
	case "incomplete":
		if a.Incomplete.Reason == "content_filter" {
			return verdict{finish: provider.FinishContentFilter}
		}
		return verdict{finish: provider.FinishLength}
	case "queued", "in_progress":
		return failedAs(provider.KindInvalid, "the response is not finished: background requests are not followed up")
	case "failed", "cancelled":
		return verdict{fault: &fault{Message: wire.Text("the response is " + string(a.Status))}}
	default:
		return failedAs(provider.KindServer, "the response has a status that is not known")
	}
}

// judgeOutput finds an answer among the items of a response: reasoning alone
// is none.
func (a *answer) judgeOutput() verdict {
	out := failedAs(provider.KindEmptyAnswer, "the response has no output")
	err := wire.Each(a.Output, func(raw json.RawMessage) bool {
		var item struct {
			Type    wire.Text       `json:"type"`
			Content json.RawMessage `json:"content"`
		}
		_ = json.Unmarshal(raw, &item)
		switch item.Type {
		case "reasoning":
		case "function_call", "custom_tool_call":
			out = verdict{finish: provider.FinishToolCalls}
		case "message", "":
			if f := messageFinish(item.Content); f != "" && out.kind != provider.KindNone {
				out = verdict{finish: f}
			}
		default: // calls of hosted tools, images
			if out.kind != provider.KindNone {
				out = verdict{finish: provider.FinishStop}
			}
		}
		return true
	})
	if err != nil {
		return failedAs(provider.KindEmptyAnswer, "the response's output is no list")
	}
	return out
}

// messageFinish says how a message's parts end: with text or a refusal;
// empty if there is neither.
func messageFinish(content json.RawMessage) string {
	found := ""
	_ = wire.Each(content, func(raw json.RawMessage) bool {
		var part struct {
			Text    wire.Text `json:"text"`
			Refusal wire.Text `json:"refusal"`
		}
		_ = json.Unmarshal(raw, &part)
		switch {
		case part.Refusal != "":
			found = provider.FinishRefused
		case part.Text != "" && found == "":
			found = provider.FinishStop
		}
		return true
	})
	return found
}

// someItem wants a list with an object in it that has the named field, if any.
func someItem(list json.RawMessage, field string) verdict {
	out := failedAs(provider.KindEmptyAnswer, "the answer holds no data")
	err := wire.Each(list, func(raw json.RawMessage) bool {
		var item map[string]json.RawMessage
		if json.Unmarshal(raw, &item) == nil && (field == "" || wire.Truthy(item[field])) {
			out = verdict{finish: provider.FinishStop}
			return true
		}
		out = failedAs(provider.KindEmptyAnswer, "the answer holds an empty item")
		return false
	})
	if err != nil {
		return failedAs(provider.KindEmptyAnswer, "the answer's data is no list")
	}
	return out
}
