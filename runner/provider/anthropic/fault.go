package anthropic

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// fault is the error object of the messages API.
type fault struct {
	Type    wire.Text `json:"type"`
	Message wire.Text `json:"message"`
	Details struct {
		Code wire.Text `json:"error_code"`
	} `json:"details"`
}

// maxText bounds the text that the recognisers search.
const maxText = 16 << 10

func parseFault(body []byte) (f fault, requestID string) {
	var top struct {
		Error     json.RawMessage `json:"error"`
		RequestID wire.Text       `json:"request_id"`
	}
	_ = json.Unmarshal(wire.Payload(body), &top) // a field of another type leaves the rest filled
	if json.Unmarshal(top.Error, &f) != nil && f.Message == "" {
		_ = json.Unmarshal(top.Error, &f.Message) // a gateway's bare text
	}
	f.Message = f.Message[:min(len(f.Message), maxText)]
	return f, string(top.RequestID)
}

// refused makes the Error of an answer that is no success.
func (c *Client) refused(reply *provider.Reply) *provider.Error {
	e := c.faulty(reply, reply.Body)
	if e.Message == "" {
		e.Message = c.BodyText(reply)
	}
	return e
}

// unsuccessful makes the Error of a 200 that is no success and names no error.
func (c *Client) unsuccessful(reply *provider.Reply, kind provider.Kind, message string) *provider.Error {
	e := c.Failure(reply, "", message, -1)
	e.Kind = kind
	e.RetryAfter, e.HasRetryAfter = 0, false // Anthropic sends the header with successes too
	return e
}

// faulty classifies the error in a body, under a status or inside a success.
func (c *Client) faulty(reply *provider.Reply, body []byte) *provider.Error {
	f, id := parseFault(body)
	text := string(f.Message)
	code := string(f.Type)
	if f.Details.Code != "" {
		code = string(f.Details.Code)
	}
	e := c.Failure(reply, code, text, -1)
	if e.RequestID == "" {
		e.RequestID = c.Redactor.CleanName(id)
	}
	if reply.StatusCode/100 == 2 {
		e.RetryAfter, e.HasRetryAfter = 0, false
	}
	e.Kind = f.kind(reply.StatusCode)
	switch e.Kind {
	case provider.KindQuotaExhausted:
		e.Reset = spendReset(f, provider.ServerNow(reply.Header, reply.Done))
	case provider.KindRateLimited:
		statedLimit(e, text)
	}
	return e
}

// kind gives the fault its class. Spend beats every other signal: waiting does
// not pay a bill.
func (f *fault) kind(status int) provider.Kind {
	text := strings.ToLower(string(f.Message))
	switch {
	case f.Details.Code == "enforced_spend_limit_reached", f.Type == "billing_error":
		return provider.KindQuotaExhausted
	case f.Type == "rate_limit_error":
		switch {
		case strings.Contains(text, "acceleration"): // the rate rose too fast
			return provider.KindSlowDown
		case strings.Contains(text, "concurrent"):
			return provider.KindConcurrency
		case strings.Contains(text, "spend limit"): // where a gateway drops the details
			return provider.KindQuotaExhausted
		}
		return provider.KindRateLimited
	case f.Type == "not_found_error" && strings.Contains(text, "file") && !strings.Contains(text, "model"):
		return provider.KindInvalid // about what the item names
	case f.Type == "invalid_request_error":
		return invalid(text)
	}
	if k, ok := byType[f.Type]; ok {
		return k
	}
	if status/100 == 2 {
		return provider.KindServer
	}
	return wire.KindOfStatus(status)
}

var byType = map[wire.Text]provider.Kind{
	"authentication_error": provider.KindAuth,
	"permission_error":     provider.KindAuth,
	"not_found_error":      provider.KindModelNotFound,
	"conflict_error":       provider.KindConflict,
	"request_too_large":    provider.KindBodyTooLarge,
	"api_error":            provider.KindServer,
	"timeout_error":        provider.KindServerTimeout,
	"overloaded_error":     provider.KindOverloaded,
}

// invalid tells apart what Anthropic puts under invalid_request_error, by the
// text, which alone says it.
func invalid(text string) provider.Kind {
	switch {
	case wire.SaysSpend(text):
		return provider.KindQuotaExhausted
	case wire.SaysContext(text):
		return provider.KindContextLength
	case strings.Contains(text, "content filtering policy"):
		return provider.KindContentPolicy
	}
	return provider.KindInvalid
}

var regained = regexp.MustCompile(`regain access on (\d{4}-\d{2}-\d{2}) at (\d{2}:\d{2}) UTC`)

// spendReset is when a spend limit ends: what the text says, or for the tier's
// own limit the first of the next month.
func spendReset(f fault, now time.Time) time.Time {
	if m := regained.FindStringSubmatch(string(f.Message)); m != nil {
		if t, err := time.Parse("2006-01-02 15:04", m[1]+" "+m[2]); err == nil {
			return t
		}
	}
	if f.Details.Code == "enforced_spend_limit_reached" {
		u := now.UTC()
		return time.Date(u.Year(), u.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Time{}
}

// stated finds "rate limit of 40,000 input tokens per minute".
var stated = regexp.MustCompile(`(?i)(?:limit (?:of )?\(?)?([0-9][0-9,]*)? ?\b(input tokens|output tokens|tokens|requests) per minute`)

// statedLimit says which limit refused and how high it is, where the headers
// did not.
func statedLimit(e *provider.Error, text string) {
	m := stated.FindStringSubmatch(text)
	if m == nil {
		return
	}
	e.LimitType = strings.ReplaceAll(strings.ToLower(m[2]), " ", "_")
	w := map[string]*provider.Window{
		"requests": &e.Rate.Requests, "tokens": &e.Rate.Tokens, "input_tokens": &e.Rate.Input, "output_tokens": &e.Rate.Output,
	}[e.LimitType]
	if n, err := strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64); err == nil && n > 0 && w.Limit < 0 {
		w.Limit = n
	}
}
