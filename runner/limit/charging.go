package limit

import "strings"

// Unit is what a server counts a prompt in when it charges it.
type Unit uint8

const (
	Either     Unit = iota // not known: the larger of the two is charged
	Tokens                 // as its tokenizer counts
	Characters             // by their number, as OpenAI's limiter does
)

// Charging is how a server charges calls against its token limit. The zero value is what nothing is
// known of: prompt and reserved output, kept when the call ends.
type Charging struct {
	Form Accounting
	Bare Accounting // the form for calls that name no output cap
	Unit Unit
	Back bool // what a call did not use is given back when it ends
}

// As is a provider's form before anything has been seen.
func As(a Accounting) Charging { return Charging{Form: a, Bare: a} }

// Of is the form for a call that names an output cap, or none.
func (c Charging) Of(capped bool) Accounting {
	if capped {
		return c.Form
	}
	return c.Bare
}

// Prompt is what is charged for a prompt of so many tokens, or by its characters.
func (c Charging) Prompt(tokens, characters int64) int64 {
	switch c.Unit {
	case Tokens:
		return tokens
	case Characters:
		return characters
	}
	return max(tokens, characters)
}

// String says it in words: "sum, input without a cap, by characters".
func (c Charging) String() string {
	s := c.Form.String()
	if c.Bare != c.Form {
		s += ", " + c.Bare.String() + bareWords
	}
	switch c.Unit {
	case Tokens:
		s += byTokens
	case Characters:
		s += byCharacters
	}
	if c.Back {
		s += givenBack
	}
	return s
}

const (
	bareWords    = " without a cap"
	byTokens     = ", by tokens"
	byCharacters = ", by characters"
	givenBack    = ", the unused part given back"
)

// ParseCharging is the inverse of String.
func ParseCharging(s string) (c Charging, ok bool) {
	s, c.Back = strings.CutSuffix(s, givenBack)
	if rest, found := strings.CutSuffix(s, byCharacters); found {
		s, c.Unit = rest, Characters
	} else if rest, found := strings.CutSuffix(s, byTokens); found {
		s, c.Unit = rest, Tokens
	}
	form, bare, two := strings.Cut(s, ", ")
	if c.Form, ok = ParseAccounting(form); !ok {
		return Charging{}, false
	}
	c.Bare = c.Form
	if two {
		bare, ok = strings.CutSuffix(bare, bareWords)
		if c.Bare, two = ParseAccounting(bare); !ok || !two {
			return Charging{}, false
		}
	}
	return c, true
}
