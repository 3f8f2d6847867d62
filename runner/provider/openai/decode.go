package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// answer holds the fields of a success that matter; the rest stays raw.
type answer struct {
	ID         loose           `json:"id"`
	Model      loose           `json:"model"`
	Object     loose           `json:"object"`
	Status     loose           `json:"status"`
	Error      json.RawMessage `json:"error"`
	Choices    json.RawMessage `json:"choices"`
	Data       json.RawMessage `json:"data"`
	Results    json.RawMessage `json:"results"`
	Output     json.RawMessage `json:"output"`
	Incomplete struct {
		Reason loose `json:"reason"`
	} `json:"incomplete_details"`
	Usage *usage `json:"usage"`
}

// usage has the names of chat completions and of responses, and those that
// DeepSeek and Together use for cached tokens.
type usage struct {
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

func (u *usage) public() provider.Usage {
	if u == nil {
		return provider.Usage{}
	}
	p := provider.Usage{
		Input:     max(u.Prompt, u.Input, 0),
		Output:    max(u.Completion, u.Output, 0),
		Cached:    max(u.PromptIn.Cached, u.InputIn.Cached, u.Cached, u.CacheHit, 0),
		Reasoning: max(u.CompletionIn.Reasoning, u.OutputIn.Reasoning, 0),
		Known:     true,
	}
	if p.Input == 0 && p.Output == 0 {
		p.Input = max(u.Total, 0)
	}
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
	body := payload(reply.Body)
	var a answer
	v := c.syntax(reply, body, &a)
	if v.kind == provider.KindNone {
		v = a.judge(api, body)
	}
	if v.kind != provider.KindNone || v.fault != nil {
		return nil, c.unsuccessful(reply, v)
	}
	return &provider.Response{
		StatusCode: reply.StatusCode,
		RequestID:  c.redact.RequestID(reply.Header),
		ID:         c.redact.CleanName(string(a.ID)),
		Model:      c.redact.CleanName(string(a.Model)),
		Body:       body,
		Usage:      a.Usage.public(),
		Finish:     v.finish,
		Rate:       provider.ParseRate(reply.Header, c.profile.Dialect, reply.Done),
		SentAt:     reply.SentAt,
		Done:       reply.Done,
	}, nil
}

// payload drops what may stand ahead of the JSON: a BOM, the blank lines and
// comments that DeepSeek and OpenRouter send while a request is queued.
func payload(b []byte) []byte {
	b = bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))
	for len(b) > 0 && b[0] == ':' {
		_, rest, _ := bytes.Cut(b, []byte("\n"))
		b = bytes.TrimSpace(rest)
	}
	return b
}

// syntax decodes a success and tells a page, broken JSON and a cut apart.
func (c *Client) syntax(reply *provider.Reply, body []byte, a *answer) verdict {
	err := json.Unmarshal(body, a)
	var wrongType *json.UnmarshalTypeError // a field of another type than expected is simply not there
	if err == nil || errors.As(err, &wrongType) {
		switch {
		case body[0] != '{':
			return failedAs(provider.KindBadContentType, "the answer is no JSON object")
		case !utf8.Valid(body):
			return failedAs(provider.KindBadContentType, "the answer is not UTF-8")
		}
		return verdict{}
	}
	if provider.IsHTML(reply.Header, body) {
		return failedAs(provider.KindBadContentType, "a page in place of JSON: "+c.redact.EdgeMessage(reply.StatusCode, reply.Header))
	}
	if len(body) == 0 || endsEarly(body) {
		return failedAs(provider.KindTruncated, "the answer ends within its JSON")
	}
	return failedAs(provider.KindBadContentType, "the answer is no JSON: "+c.redact.Clean(string(body[:min(len(body), 200)])))
}

// endsEarly reports that b is the beginning of a JSON document.
func endsEarly(b []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(b))
	var v json.RawMessage
	return errors.Is(dec.Decode(&v), io.ErrUnexpectedEOF)
}

// judge decides whether a 200 is a success of its API.
func (a *answer) judge(api string, body []byte) verdict {
	if truthy(a.Error) || a.Object == "error" {
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
	Text    loose           `json:"text"`
	Error   json.RawMessage `json:"error"`
	Message struct {
		Content   json.RawMessage `json:"content"`
		Refusal   loose           `json:"refusal"`
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
	err := each(a.Choices, func(raw json.RawMessage) bool {
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
	var reason loose
	_ = json.Unmarshal(ch.Finish, &reason)
	m := &ch.Message
	switch {
	case truthy(ch.Error):
		f := parseFault([]byte(`{"error":` + string(ch.Error) + `}`))
		return verdict{fault: &f}
	case reason == "error":
		return verdict{fault: &fault{Message: "the provider ended the answer with an error"}}
	case string(ch.Finish) == "null":
		return failedAs(provider.KindTruncated, "the answer has no finish reason")
	case m.Refusal != "":
		return verdict{finish: provider.FinishRefused}
	case truthy(m.ToolCalls) || truthy(m.Function):
		return verdict{finish: finish(string(reason), provider.FinishToolCalls)}
	}
	v := verdict{finish: finish(string(reason), "")}
	if v.finish == provider.FinishLength || v.finish == provider.FinishContentFilter {
		return v // may be empty: the cap went into reasoning, or the filter took it
	}
	if plain || truthy(m.Content) || truthy(m.Audio) || truthy(m.Images) || ch.Text != "" {
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
		return verdict{fault: &fault{Message: loose("the response is " + string(a.Status))}}
	default:
		return failedAs(provider.KindServer, "the response has a status that is not known")
	}
}

// judgeOutput finds an answer among the items of a response: reasoning alone
// is none.
func (a *answer) judgeOutput() verdict {
	out := failedAs(provider.KindEmptyAnswer, "the response has no output")
	err := each(a.Output, func(raw json.RawMessage) bool {
		var item struct {
			Type    loose           `json:"type"`
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
	_ = each(content, func(raw json.RawMessage) bool {
		var part struct {
			Text    loose `json:"text"`
			Refusal loose `json:"refusal"`
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
	err := each(list, func(raw json.RawMessage) bool {
		var item map[string]json.RawMessage
		if json.Unmarshal(raw, &item) == nil && (field == "" || truthy(item[field])) {
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

// each calls fn for the elements of a JSON array until it returns false.
// Absent and null are empty.
func each(list json.RawMessage, fn func(json.RawMessage) bool) error {
	if !truthy(list) {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(list))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return errors.New("no list")
	}
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		if !fn(raw) {
			return nil
		}
	}
	return nil
}

// truthy reports a JSON value that says something: not absent, null, false,
// 0 or empty.
func truthy(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "false", "0", `""`, "{}", "[]":
		return false
	}
	return true
}
