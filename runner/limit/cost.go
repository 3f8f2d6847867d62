package limit

import "math/rand/v2"

// Accounting says how a provider charges one call against its token limits.
// The forms are those of the providers' own documents.
type Accounting uint8

const (
	Sum   Accounting = iota // prompt + reserved output (Azure, Cerebras, Groq; the default)
	Max                     // the larger of the two (OpenAI)
	Input                   // the prompt alone (Gemini)
	Split                   // prompt and output against budgets of their own (Anthropic)
	None                    // no token limit (DeepSeek, local servers)
)

// String gives the name that flags use.
func (a Accounting) String() string {
	switch a {
	case Max:
		return "max"
	case Input:
		return "input"
	case Split:
		return "split"
	case None:
		return "none"
	default:
		return "sum"
	}
}

// ParseAccounting is the inverse of String.
func ParseAccounting(s string) (Accounting, bool) {
	for _, a := range []Accounting{Sum, Max, Input, Split, None} {
		if a.String() == s {
			return a, true
		}
	}
	return Sum, false
}

// Cost is what one call takes from the budgets. The zero Cost takes nothing.
type Cost struct {
	Requests int64
	Tokens   int64 // the charge on the token budget; under Split, on the input budget
	Output   int64 // the charge on the output budget; 0 but under Split
}

// Charge turns the tokens of one call (prompt, and output reserved or used) into its Cost.
func (a Accounting) Charge(prompt, output int64) Cost {
	c := Cost{Requests: 1}
	switch a {
	case Max:
		c.Tokens = max(prompt, output)
	case Input:
		c.Tokens = prompt
	case Split:
		c.Tokens, c.Output = prompt, output
	case None:
	default:
		c.Tokens = prompt + output
	}
	return c
}

// Cap is one limit. The zero Cap is learned from the server; Set with N 0 means that there is none;
// Set with N > 0 is the user's and hard.
type Cap struct {
	N   int64
	Set bool
}

// Limits are the budgets of one limit group. The zero value learns everything.
type Limits struct {
	RPM, TPM    Cap // requests and tokens a minute
	ITPM, OTPM  Cap // input and output tokens a minute, for Split (ITPM for Input too)
	RPD, TPD    Cap // requests and tokens in 24 hours
	Burst       int64
	Concurrency int // the ceiling of calls on the wire; 0 = 1,024
}

// Given says that the user gave one of them.
func (l *Limits) Given() bool {
	return l.RPM.N+l.TPM.N+l.ITPM.N+l.OTPM.N+l.RPD.N+l.TPD.N+l.Burst > 0
}

// Config is what New needs. Burst bounds how many requests go at once: the pace is then a bucket of
// Burst refilled at the request limit (or, while none is known, at Burst a second) beside the
// rolling minute; 0 means the whole limit.
type Config struct {
	Limits
	Accounting Accounting
	Refund     bool       // the provider gives back what a call did not use
	Rand       *rand.Rand // jitter of pauses; nil = always the middle of the range
}

// The budgets, in the order in which they are named to the user.
const (
	dReq = iota
	dTok
	dIn
	dOut
	dReqDay
	dTokDay
	dims
)

// amounts is a Cost laid out by budget.
type amounts [dims]int64

// tooMuch bounds every amount, so that sums of hostile figures cannot overflow.
const tooMuch = 1 << 50

func clamp(n int64) int64 { return min(max(n, 0), tooMuch) }

func (c Cost) amounts() amounts {
	r, t, o := clamp(c.Requests), clamp(c.Tokens), clamp(c.Output)
	return amounts{dReq: r, dTok: t + o, dIn: t, dOut: o, dReqDay: r, dTokDay: t + o}
}
