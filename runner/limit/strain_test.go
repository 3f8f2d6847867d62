package limit

import (
	"testing"
	"time"
)

// A server that answers one call in twenty with an overload is used as far as
// the ceiling allows; one that answers half of them so is not.
func TestFewOverloadsDoNotCutTheCeiling(t *testing.T) {
	for _, test := range []struct {
		every     int // each so-manieth answer is an overload
		low, high int // of the ceiling after a thousand answers
	}{{20, 32, 32}, {2, 1, 8}} {
		at := time.Unix(1_700_000_000, 0)
		l := New(Config{Limits: Limits{Concurrency: 32}}, at)
		var out []Ticket
		answered := 0
		for answered < 1000 {
			for {
				ticket, wait := l.Reserve(at, Cost{Requests: 1, Tokens: 10})
				if wait.Reason == AtSpread {
					at = wait.Until
					continue
				}
				if wait.Reason != Granted {
					break
				}
				l.Sent(at, ticket)
				out = append(out, ticket)
			}
			at = at.Add(100 * time.Millisecond)
			for _, ticket := range out {
				answered++
				a := Answer{}
				if answered%test.every == 0 {
					a.Outcome = Overloaded
				}
				l.Settle(at, ticket, a)
			}
			out = out[:0]
		}
		if got := l.Concurrency().Ceiling(); got < test.low || got > test.high {
			t.Errorf("one overload in %d: got a ceiling of %d, want %d to %d", test.every, got, test.low, test.high)
		}
	}
}
