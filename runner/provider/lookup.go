package provider

import "context"

// Looker is a [Client] that can ask what became of a call whose answer was
// lost, by the id that came before it was (see [Error.AnswerID]).
type Looker interface {
	// LookUp asks once what became of the request r. It generates nothing, and
	// its failure, an *[Error], says nothing of the call.
	LookUp(ctx context.Context, r Request, id string) (*Found, error)
}

// Fate is what a look-up found.
type Fate uint8

// The fates.
const (
	FateGone     Fate = iota // nothing is known of the call, or its answer is not kept
	FateRunning              // it is still being worked on
	FateEnded                // it failed, was cancelled or is no answer: there is none to come
	FateAnswered             // its answer is whole
)

// String names the fate for logs and metrics.
func (f Fate) String() string {
	switch f {
	case FateRunning:
		return "running"
	case FateEnded:
		return "ended"
	case FateAnswered:
		return "found"
	default:
		return "gone"
	}
}

// Found is what a look-up says.
type Found struct {
	Fate     Fate
	Response *Response // of FateAnswered, without SentAt
	Failed   bool      // of FateEnded: the provider failed, so it bills nothing. What was cancelled is billed as far as it came
}
