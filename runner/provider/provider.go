// Package provider defines one call to an LLM API: what is asked, what came
// back, and how it failed.
//
// It owns what every provider shares: the vocabulary of failures ([Kind]), the
// HTTP transport that makes one attempt exactly one wire request, the readers
// of wait hints and rate-limit headers, the cleaning of server text, secrets
// and the table of known providers. Wire formats live in the packages below.
package provider

import (
	"context"
	"time"
)

// Client sends requests to one provider. An implementation is safe for
// concurrent use, puts exactly one request on the wire a call, and returns
// failures as *[Error].
type Client interface {
	Do(ctx context.Context, r Request) (*Response, error)
}

// Checker is a [Client] that tells ahead of a call whether it makes one.
type Checker interface {
	// Check says why no request can be made of r, as the *[Error] that Do would
	// return; nil = Do sends one. It sends nothing. The model in the body may be
	// another than r's, and the output cap have any of its names.
	Check(r Request) error
}

// Request is one attempt.
type Request struct {
	API   string // "/chat/completions", "/responses", "/embeddings", "/completions", "/moderations", "/messages"
	Model string // only for providers whose path names it; the body holds it too
	Body  []byte // JSON; sent byte for byte where the provider has the API, else translated
	Key   string // sent as Idempotency-Key; empty = no header

	// Stream has the answer streamed where the API can, so that no silence on
	// the wire outlasts a proxy; what comes back is the same whole answer.
	Stream bool

	// OnSent is called at most once, when the request has been written or, if
	// the answer came before that, just ahead of its being returned. It is
	// never called after Do has returned, and must not block. May be nil.
	OnSent func(time.Time)

	// OnID is called at most once, as soon as the answer's id is known, if a
	// look-up takes it and the answer is streamed (see [Looker]). It is called
	// by the goroutine that called Do; nil = nobody wants it.
	OnID func(id string)
}

// Response is a whole and successful answer.
type Response struct {
	StatusCode int
	RequestID  string // cleaned; from the headers
	ID         string // cleaned; the body's id
	Model      string // cleaned; the model that answered
	Body       []byte // the answer in the API's own shape, valid JSON in valid UTF-8
	Native     []byte // as the provider sent it, where Body is a translation; else nil
	Usage      Usage
	Finish     string // one of the Finish constants, or the provider's own cleaned word, or empty
	Rate       Rate
	SentAt     time.Time
	Done       time.Time // the last byte was read
}

// Values of [Response.Finish].
const (
	FinishStop          = "stop"
	FinishLength        = "length"
	FinishRefused       = "refused"
	FinishContentFilter = "content_filter"
	FinishToolCalls     = "tool_calls"
)

// Usage is what an answer says it used, in tokens. Cached is part of Input
// and Reasoning of Output. Known is false when the answer said nothing.
type Usage struct {
	Input, Output, Cached, Reasoning int64
	Known                            bool
}

// mostTokens is more than any call can use.
const mostTokens = 1_000_000_000_000

// Plausible reports that counts of tokens can be such: an answer that says
// otherwise says nothing of its usage.
func Plausible(tokens ...int64) bool {
	for _, n := range tokens {
		if n < 0 || n > mostTokens {
			return false
		}
	}
	return true
}

// Window is one limit as the server reports it; -1 (or a negative
// ResetAfter) means that it did not say.
type Window struct {
	Limit, Remaining int64
	ResetAfter       time.Duration // until full again: an upper bound of the wait, no more
}

// Said reports whether the server said anything about the window.
func (w Window) Said() bool { return w.Limit >= 0 || w.Remaining >= 0 || w.ResetAfter >= 0 }

// Rate is what the headers of one answer say about limits. Build it with
// [NoRate] or [ParseRate]: the zero value claims limits of nought.
type Rate struct {
	Requests, Tokens       Window // a minute
	Input, Output          Window // tokens a minute, where they are counted apart
	RequestsDay, TokensDay Window
}

// NoRate is a Rate in which nothing was said.
func NoRate() Rate {
	n := Window{Limit: -1, Remaining: -1, ResetAfter: -1}
	return Rate{n, n, n, n, n, n}
}

// windows lists the windows of r.
func (r *Rate) windows() [6]*Window {
	return [6]*Window{&r.Requests, &r.Tokens, &r.Input, &r.Output, &r.RequestsDay, &r.TokensDay}
}
