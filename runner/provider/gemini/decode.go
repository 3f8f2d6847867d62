package gemini

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/chat"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// answer holds the fields of a success that matter.
type answer struct {
	Error      json.RawMessage `json:"error"`
	Candidates json.RawMessage `json:"candidates"`
	Embeddings json.RawMessage `json:"embeddings"`
	Embedding  json.RawMessage `json:"embedding"`
	Feedback   struct {
		Reason  wire.Text `json:"blockReason"`
		Message wire.Text `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	Usage   *usage    `json:"usageMetadata"`
	Version wire.Text `json:"modelVersion"`
	ID      wire.Text `json:"responseId"`
}

type usage struct {
	odd bool // it holds a number that is no count

	Prompt     int64 `json:"promptTokenCount"` // with what was cached
	ToolPrompt int64 `json:"toolUsePromptTokenCount"`
	Cached     int64 `json:"cachedContentTokenCount"`
	Candidates int64 `json:"candidatesTokenCount"` // without the thoughts
	Thoughts   int64 `json:"thoughtsTokenCount"`
}

func (u *usage) UnmarshalJSON(b []byte) error {
	type plain usage
	u.odd = !wire.DecodeCounts(b, (*plain)(u))
	return nil
}

func (u *usage) public() provider.Usage {
	if u == nil || u.odd || !provider.Plausible(u.Prompt, u.ToolPrompt, u.Candidates, u.Thoughts) {
		return provider.Usage{}
	}
	p := provider.Usage{
		Input:     u.Prompt + u.ToolPrompt,
		Output:    u.Candidates + u.Thoughts,
		Cached:    min(max(u.Cached, 0), u.Prompt+u.ToolPrompt),
		Reasoning: u.Thoughts,
	}
	p.Known = p.Input > 0 || p.Output > 0
	return p
}

// read turns a reply into a response, or into the error that it is.
func (c *Client) read(api string, q call, reply *provider.Reply) (*provider.Response, *provider.Error) {
	if reply.StatusCode/100 != 2 {
		return nil, c.refused(reply)
	}
	body := wire.Payload(reply.Body)
	if f := parseFault(body); f.some() {
		return nil, c.faulty(reply, &f)
	}
	var a answer
	if kind, message := wire.DecodeObject(c.Caller, reply, body, &a); kind != provider.KindNone {
		return nil, c.unsuccessful(reply, kind, message)
	}
	if api == apiEmbeddings {
		return c.readEmbeddings(q, reply, &a, body)
	}
	if a.Feedback.Reason != "" {
		e := c.Failure(reply, string(a.Feedback.Reason), strings.TrimSpace("the prompt was blocked: "+string(a.Feedback.Reason+" "+a.Feedback.Message)), -1)
		e.Kind, e.RetryAfter, e.HasRetryAfter = provider.KindContentPolicy, 0, false
		return nil, e
	}
	choices, v := a.choices()
	if v.kind != provider.KindNone {
		e := c.unsuccessful(reply, v.kind, v.message)
		e.Code = c.Redactor.CleanName(v.code)
		return nil, e
	}
	resp := c.response(reply, &a)
	out := chat.Answer{ID: string(a.ID), Model: string(a.Version), Created: reply.Done.Unix(), Choices: choices, Usage: resp.Usage}
	if out.Model == "" {
		out.Model = q.model
	}
	translated, err := out.Encode()
	if err != nil {
		return nil, c.unsuccessful(reply, provider.KindBadContentType, "the answer cannot be read: "+err.Error())
	}
	resp.Body, resp.Native, resp.Finish = translated, body, choices[0].Finish
	return resp, nil
}

// response is what all answers tell.
func (c *Client) response(reply *provider.Reply, a *answer) *provider.Response {
	return &provider.Response{
		StatusCode: reply.StatusCode,
		RequestID:  c.Redactor.RequestID(reply.Header),
		ID:         c.Redactor.CleanName(string(a.ID)),
		Model:      c.Redactor.CleanName(string(a.Version)),
		Usage:      a.Usage.public(),
		Rate:       provider.ParseRate(reply.Header, c.Profile.Dialect, reply.Done),
		SentAt:     reply.SentAt,
		Done:       reply.Done,
	}
}

// verdict says why a candidate is no answer; KindNone = it is one.
type verdict struct {
	kind          provider.Kind
	code, message string
}

// choices reads the candidates. The first that is an answer decides for all
// but for a malformed call, which fails them.
func (a *answer) choices() ([]chat.Choice, verdict) {
	var out []chat.Choice
	v := verdict{kind: provider.KindEmptyAnswer, message: "the answer holds no candidates"}
	err := wire.Each(a.Candidates, func(raw json.RawMessage) bool {
		ch, mine := readCandidate(raw)
		if len(out) == 0 || mine.kind == provider.KindToolCallMalformed || mine.kind == provider.KindTruncated {
			v = mine
		}
		out = append(out, ch)
		return v.kind == provider.KindNone
	})
	if err != nil {
		v = verdict{kind: provider.KindEmptyAnswer, message: "the answer's candidates are no list"}
	}
	return out, v
}

func readCandidate(raw json.RawMessage) (chat.Choice, verdict) {
	var cand struct {
		Content struct {
			Parts json.RawMessage `json:"parts"`
		} `json:"content"`
		Finish  wire.Text `json:"finishReason"`
		Message wire.Text `json:"finishMessage"`
	}
	_ = json.Unmarshal(raw, &cand)
	ch := readParts(cand.Content.Parts)
	var v verdict
	ch.Finish, v = finish(string(cand.Finish), string(cand.Message))
	switch {
	case v.kind != provider.KindNone:
	case ch.Text == "" && len(ch.Calls) == 0 && len(ch.Images) == 0 && ch.Finish != provider.FinishLength && ch.Finish != provider.FinishContentFilter:
		v = verdict{kind: provider.KindEmptyAnswer, code: string(cand.Finish), message: "the answer has no content"}
	case len(ch.Calls) > 0 && ch.Finish == provider.FinishStop:
		ch.Finish = provider.FinishToolCalls
	}
	return ch, v
}

// readParts reads the parts of a candidate.
func readParts(parts json.RawMessage) (ch chat.Choice) {
	var text, thoughts strings.Builder
	_ = wire.Each(parts, func(raw json.RawMessage) bool {
		var p struct {
			Text      wire.Text     `json:"text"`
			Thought   bool          `json:"thought"`
			Signature wire.Text     `json:"thoughtSignature"`
			Call      *functionCall `json:"functionCall"`
			Inline    *blob         `json:"inlineData"`
		}
		_ = json.Unmarshal(raw, &p)
		switch {
		case p.Call != nil:
			var arguments bytes.Buffer
			if json.Compact(&arguments, p.Call.Args) != nil || arguments.Len() == 0 {
				arguments.WriteString("{}")
			}
			id := p.Call.ID
			if id == "" { // chat completions want one, and results refer to it
				id = "call_" + strconv.Itoa(len(ch.Calls))
			}
			ch.Calls = append(ch.Calls, chat.Call{ID: id, Name: p.Call.Name, Arguments: arguments.Bytes(), Signature: string(p.Signature)})
		case p.Thought:
			thoughts.WriteString(string(p.Text))
		case p.Inline != nil:
			ch.Images = append(ch.Images, "data:"+p.Inline.Type+";base64,"+p.Inline.Data)
		default:
			text.WriteString(string(p.Text))
		}
		return true
	})
	ch.Text, ch.Reasoning = text.String(), thoughts.String()
	return ch
}

// finish maps a finishReason; words to come are kept.
func finish(reason, message string) (string, verdict) {
	switch reason {
	case "", "FINISH_REASON_UNSPECIFIED":
		return "", verdict{kind: provider.KindTruncated, message: "the answer has no finish reason"}
	case "STOP":
		return provider.FinishStop, verdict{}
	case "MAX_TOKENS":
		return provider.FinishLength, verdict{}
	case "FUNCTION_CALL": // servers that copy the API; Google's own says STOP
		return provider.FinishToolCalls, verdict{}
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR", "JAILBREAK":
		return provider.FinishContentFilter, verdict{}
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		return "", verdict{kind: provider.KindToolCallMalformed, code: reason, message: strings.TrimSpace(reason + " " + message)}
	}
	var r *provider.Redactor
	return r.CleanName(strings.ToLower(reason)), verdict{}
}
