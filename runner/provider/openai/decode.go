package openai

import (
	"encoding/json"
	"strconv"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// answer holds the fields of a success that matter; the rest stays raw. One
// pass over its members takes them out: encoding/json's reflection cost more
// than all else that is done with an answer.
type answer struct {
	ID, Model, Object, Status      wire.Text
	Error                          json.RawMessage
	Choices, Data, Results, Output json.RawMessage
	Incomplete                     wire.Text // the reason
	Usage                          usage
}

// take reads an object of valid JSON. A field of another type than expected is
// simply not there.
func (a *answer) take(body json.RawMessage) {
	for name, v := range wire.Fields(body) {
		switch name {
		case "id":
			a.ID = wire.TextOf(v)
		case "model":
			a.Model = wire.TextOf(v)
		case "object":
			a.Object = wire.TextOf(v)
		case "status":
			a.Status = wire.TextOf(v)
		case "error":
			a.Error = v
		case "choices":
			a.Choices = v
		case "data":
			a.Data = v
		case "results":
			a.Results = v
		case "output":
			a.Output = v
		case "incomplete_details":
			a.Incomplete = wire.TextOf(wire.Member(v, "reason"))
		case "usage":
			a.Usage = takeUsage(v)
		}
	}
}

// usage has the names of chat completions and of responses, and those that
// DeepSeek and Together use for cached tokens.
type usage struct {
	odd bool // it holds a number that is no count

	prompt, completion, total, input, output int64
	cached, reasoning                        int64
}

func takeUsage(object json.RawMessage) (u usage) {
	for name, v := range wire.Fields(object) {
		switch name {
		case "prompt_tokens":
			u.count(&u.prompt, v)
		case "completion_tokens":
			u.count(&u.completion, v)
		case "total_tokens":
			u.count(&u.total, v)
		case "input_tokens":
			u.count(&u.input, v)
		case "output_tokens":
			u.count(&u.output, v)
		case "cached_tokens", "prompt_cache_hit_tokens":
			u.most(&u.cached, v)
		case "prompt_tokens_details", "input_tokens_details":
			u.most(&u.cached, wire.Member(v, "cached_tokens"))
		case "completion_tokens_details", "output_tokens_details":
			u.most(&u.reasoning, wire.Member(v, "reasoning_tokens"))
		}
	}
	return u
}

// count reads a whole number; what is no number is not there.
func (u *usage) count(to *int64, v json.RawMessage) {
	if len(v) == 0 || v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		return
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		u.odd = true
		return
	}
	*to = n
}

// most is count for a figure that goes by several names.
func (u *usage) most(to *int64, v json.RawMessage) {
	var n int64
	u.count(&n, v)
	*to = max(*to, n)
}

func (u *usage) public() provider.Usage {
	if u.odd || !provider.Plausible(u.prompt, u.input, u.completion, u.output, u.total) {
		return provider.Usage{}
	}
	p := provider.Usage{
		Input:  max(u.prompt, u.input),
		Output: max(u.completion, u.output),
	}
	if p.Input == 0 && p.Output == 0 {
		p.Input = u.total
	}
	p.Cached, p.Reasoning = min(u.cached, p.Input), min(u.reasoning, p.Output)
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
	v.kind, v.message = wire.CheckObject(c.Caller, reply, body)
	if v.kind == provider.KindNone {
		a.take(body)
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
	finish, error                json.RawMessage
	text, refusal                wire.Text
	content, toolCalls, function json.RawMessage
	audio, images                json.RawMessage
}

func takeChoice(object json.RawMessage) (ch choice) {
	for name, v := range wire.Fields(object) {
		switch name {
		case "finish_reason":
			ch.finish = v
		case "text":
			ch.text = wire.TextOf(v)
		case "error":
			ch.error = v
		case "message":
			ch.takeMessage(v)
		}
	}
	return ch
}

func (ch *choice) takeMessage(object json.RawMessage) {
	for name, v := range wire.Fields(object) {
		switch name {
		case "content":
			ch.content = v
		case "refusal":
			ch.refusal = wire.TextOf(v)
		case "tool_calls":
			ch.toolCalls = v
		case "function_call":
			ch.function = v
		case "audio":
			ch.audio = v
		case "images":
			ch.images = v
		}
	}
}

// judgeChoices reads chat and plain completions.
func (a *answer) judgeChoices(plain bool) verdict {
	if wire.Truthy(a.Choices) && a.Choices[0] != '[' {
		return failedAs(provider.KindEmptyAnswer, "the answer's choices are no list")
	}
	out := failedAs(provider.KindEmptyAnswer, "the answer holds no choices")
	for raw := range wire.Elements(a.Choices) {
		ch := takeChoice(raw)
		v := ch.judge(plain)
		if v.fault != nil {
			return v // an error in any choice fails the answer
		}
		if out.kind != provider.KindNone {
			out = v // else the first choice that says something speaks for it
		}
	}
	return out
}

func (ch *choice) judge(plain bool) verdict {
	reason := string(wire.TextOf(ch.finish))
	switch {
	case wire.Truthy(ch.error):
		f := parseFault([]byte(`{"error":` + string(ch.error) + `}`))
		return verdict{fault: &f}
	case reason == "error":
		return verdict{fault: &fault{Message: "the provider ended the answer with an error"}}
	case string(ch.finish) == "null":
		return failedAs(provider.KindTruncated, "the answer has no finish reason")
	case ch.refusal != "":
		return verdict{finish: provider.FinishRefused}
	case wire.Truthy(ch.toolCalls) || wire.Truthy(ch.function):
		return verdict{finish: finish(reason, provider.FinishToolCalls)}
	}
	v := verdict{finish: finish(reason, "")}
	if v.finish == provider.FinishLength || v.finish == provider.FinishContentFilter {
		return v // may be empty: the cap went into reasoning, or the filter took it
	}
	if plain || wire.Truthy(ch.content) || wire.Truthy(ch.audio) || wire.Truthy(ch.images) || ch.text != "" {
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
		if a.Incomplete == "content_filter" {
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
