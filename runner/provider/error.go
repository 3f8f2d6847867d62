package provider

import (
	"strconv"
	"strings"
	"time"
)

// Phase is how far an attempt got before it failed.
type Phase uint8

// The phases, in their order.
const (
	PhaseConnect Phase = iota // no connection, or nothing written on it
	PhaseHeaders              // bytes left; no status came
	PhaseBody                 // a status came
)

// String names the phase for messages.
func (p Phase) String() string {
	switch p {
	case PhaseConnect:
		return "connect"
	case PhaseHeaders:
		return "headers"
	default:
		return "body"
	}
}

// Error is a failed attempt. All text in it is cleaned (see [Redactor.Clean]).
type Error struct {
	Provider   string
	Kind       Kind
	Phase      Phase
	StatusCode int    // 0 = no status came; 200 = an error inside a success
	Code       string // the provider's own code or type
	Message    string // at most 2 KiB
	RequestID  string
	AnswerID   string // by which a [Looker] finds the answer that was lost; empty = it cannot
	Body       []byte // the answer's own body, as JSON; see [Redactor.FaultBody]

	RetryAfter    time.Duration // the server's hint: a lower bound of the wait, from when the answer came
	HasRetryAfter bool
	Reset         time.Time // when a daily or spend limit ends; zero = not said
	LimitType     string    // limit that refused: requests, tokens, input_tokens, output_tokens, requests_day, tokens_day; empty = not said
	Rate          Rate

	// Recheck says that one more try is worth while although the Kind is
	// permanent: a quirk of the provider (Groq 422, OpenRouter 401).
	Recheck bool

	Sent   bool      // bytes left this machine
	SentAt time.Time // when; zero if they did not
	Err    error     // the cause, if it was not an answer
}

// Error says who failed and how: "openai: status 429: rate_limited: text".
func (e *Error) Error() string {
	parts := make([]string, 0, 4)
	if e.Provider != "" {
		parts = append(parts, e.Provider)
	}
	if e.StatusCode != 0 {
		parts = append(parts, "status "+strconv.Itoa(e.StatusCode))
	}
	parts = append(parts, e.Kind.String())
	if e.Message != "" {
		parts = append(parts, e.Message)
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Unknown reports that the request may have been served and billed although
// no whole answer came.
func (e *Error) Unknown() bool {
	if !e.Sent {
		return false
	}
	switch e.Kind {
	case KindTimeoutBeforeHeaders, KindTimeoutMidBody, KindTimeoutMidStream, KindBroken, KindTruncated:
		return true
	case KindCancelled:
		return e.StatusCode < 300 // with a 499 the server itself says that it gave up
	default:
		return false
	}
}
