package openai

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// fault is the error object of any server that follows OpenAI, with what
// OpenRouter adds.
type fault struct {
	Message     wire.Text `json:"message"`
	Type        wire.Text `json:"type"`
	Code        wire.Text `json:"code"`
	Param       wire.Text `json:"param"`
	Status      wire.Text `json:"status"`
	ErrorType   wire.Text `json:"error_type"`
	LimitSource wire.Text `json:"limit_source"`
	Reason      wire.Text `json:"reason"`
	Inner       struct {
		Code wire.Text `json:"code"`
	} `json:"innererror"`
	Availability availability `json:"availability"`
	Metadata     struct {
		ErrorType    wire.Text            `json:"error_type"`
		LimitSource  wire.Text            `json:"limit_source"`
		Reason       wire.Text            `json:"reason"`
		Raw          wire.Text            `json:"raw"`
		ProviderName wire.Text            `json:"provider_name"`
		RetryAfter   wire.Text            `json:"retry_after_seconds"`
		Reasons      json.RawMessage      `json:"reasons"`
		Flagged      wire.Text            `json:"flagged_input"`
		Patterns     json.RawMessage      `json:"patterns"`
		ResetsAt     wire.Text            `json:"resets_at"`
		Headers      map[string]wire.Text `json:"headers"`
		Availability availability         `json:"availability"`
	} `json:"metadata"`
}

type availability struct {
	Code       wire.Text       `json:"code"`
	Retryable  json.RawMessage `json:"retryable"`
	RetryAfter wire.Text       `json:"retry_after"`
}

// parseFault finds the error in a body: {"error": object or text}, a flat
// object (Mistral, old vLLM), {"detail": …} (FastAPI), or a list of one of
// them (Gemini's compatible route). Nothing found is the zero fault.
func parseFault(body []byte) fault {
	body = wire.Payload(body)
	if len(body) > 0 && body[0] == '[' {
		_ = wire.Each(body, func(first json.RawMessage) bool { body = first; return false })
	}
	var top struct {
		Error     json.RawMessage `json:"error"`
		Detail    json.RawMessage `json:"detail"`
		ErrorType wire.Text       `json:"error_type"`
	}
	var f fault
	if json.Unmarshal(body, &top) != nil || !wire.Truthy(top.Error) || top.Error[0] != '{' {
		_ = json.Unmarshal(body, &f) // type errors leave the other fields filled
	}
	switch {
	case !wire.Truthy(top.Error):
	case top.Error[0] == '{':
		_ = json.Unmarshal(top.Error, &f)
	default:
		var text wire.Text
		_ = json.Unmarshal(top.Error, &text)
		f.Message = text
	}
	if f.Message == "" && wire.Truthy(top.Detail) {
		_ = json.Unmarshal(top.Detail, &f.Message)
	}
	f.merge(top.ErrorType)
	return f
}

// maxText bounds the text that the recognisers search.
const maxText = 16 << 10

// merge brings the places that one field may stand in together.
func (f *fault) merge(top wire.Text) {
	f.Message = f.Message[:min(len(f.Message), maxText)]
	f.Metadata.Raw = f.Metadata.Raw[:min(len(f.Metadata.Raw), maxText)]
	for _, v := range []wire.Text{f.Metadata.ErrorType, top} {
		if f.ErrorType == "" {
			f.ErrorType = v
		}
	}
	if f.LimitSource == "" {
		f.LimitSource = f.Metadata.LimitSource
	}
	if f.Reason == "" {
		f.Reason = f.Metadata.Reason
	}
	if f.Availability.Code == "" {
		f.Availability = f.Metadata.Availability
	}
}

// text is all that people are told, for the recognisers.
func (f *fault) text() string {
	if f.Metadata.Raw == "" {
		return string(f.Message)
	}
	return string(f.Message + ": " + f.Metadata.Raw)
}

// status is the HTTP status that the fault stands for, 0 if it names none.
func (f *fault) status() int {
	n, err := strconv.Atoi(string(f.Code))
	if err != nil || n < 400 || n > 599 {
		return 0
	}
	return n
}

// name is the word by which the provider calls the failure.
func (f *fault) name() string {
	for _, v := range []wire.Text{f.LimitSource, f.ErrorType, f.Availability.Code, f.Inner.Code} {
		if v != "" {
			return string(v)
		}
	}
	if _, err := strconv.Atoi(string(f.Code)); f.Code != "" && err != nil {
		return string(f.Code)
	}
	if f.Type != "" {
		return string(f.Type)
	}
	return string(f.Code)
}

// wait is the hint inside the body; negative = none.
func (f *fault) wait() time.Duration {
	for _, v := range []wire.Text{f.Availability.RetryAfter, f.Metadata.RetryAfter} {
		if d, ok := provider.Seconds(string(v)); ok {
			return d
		}
	}
	return -1
}

// headers returns h with the rate headers that OpenRouter repeats inside the
// body where a proxy has dropped them.
func (f *fault) headers(h http.Header) http.Header {
	if len(f.Metadata.Headers) == 0 {
		return h
	}
	h = h.Clone()
	for name, v := range f.Metadata.Headers {
		if name = http.CanonicalHeaderKey(name); strings.HasPrefix(name, "X-Ratelimit-") && h.Get(name) == "" {
			h.Set(name, string(v))
		}
	}
	return h
}

// refused makes the Error of an answer that is no success.
func (c *Client) refused(reply *provider.Reply) *provider.Error {
	f := parseFault(reply.Body)
	e := c.failure(reply, f)
	if e.Message == "" {
		e.Message = c.BodyText(reply)
	}
	return e
}

// unsuccessful makes the Error of a 200 that is no success.
func (c *Client) unsuccessful(reply *provider.Reply, v verdict) *provider.Error {
	if v.fault != nil {
		return c.failure(reply, *v.fault)
	}
	e := c.failure(reply, fault{Message: wire.Text(v.message)})
	e.Kind = v.kind
	e.RetryAfter, e.HasRetryAfter = 0, false // a success's hint means nothing
	return e
}

// failure classifies a fault and fills in all that the answer says of it.
func (c *Client) failure(reply *provider.Reply, f fault) *provider.Error {
	h := f.headers(reply.Header)
	repeated := *reply
	repeated.Header = h
	e := c.Failure(&repeated, f.name(), f.text(), f.wait())
	e.LimitType = limitType(&f)
	status := reply.StatusCode
	if status/100 == 2 {
		status = f.status()
	}
	e.Kind = c.classify(&f, status, h, e)
	c.quirks(&f, e, provider.ServerNow(h, reply.Done), reply.Done)
	return e
}

// quirks fills in what depends on the class.
func (c *Client) quirks(f *fault, e *provider.Error, server, local time.Time) {
	statedLimit(e)
	switch {
	case e.Kind == provider.KindDailyLimit:
		e.Reset = local.Add(e.RetryAfter)
		if !e.HasRetryAfter {
			// No one says when: days end at midnight UTC for most.
			day := server.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
			e.Reset = local.Add(day.Sub(server))
		}
	case e.Kind == provider.KindQuotaExhausted:
		if t, err := time.Parse(time.RFC3339, string(f.Metadata.ResetsAt)); err == nil {
			e.Reset = t
		}
	case e.Kind == provider.KindInvalid && e.StatusCode == 422:
		e.Recheck = c.Profile.Name == "groq" // covers failures on the model's side
	case e.Kind == provider.KindAuth && e.StatusCode == 401:
		e.Recheck = c.Profile.Name == "openrouter" // an outage once said "User not found"
	}
}
