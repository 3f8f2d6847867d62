package limit

import (
	"testing"
	"time"
)

// A first call that is refused finds a window that others have spent. It must
// not pin the pace to the nothing that was admitted so far.
func TestFirstCallRefused(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	at := start
	l := New(Config{}, at)
	first, _ := l.Reserve(at, Cost{Requests: 1, Tokens: 10})
	l.Sent(at, first)
	at = at.Add(50 * time.Millisecond)
	l.Settle(at, first, Answer{Outcome: RateLimit})
	done := 0
	for done < 300 && at.Sub(start) < time.Hour {
		ticket, wait := l.Reserve(at, Cost{Requests: 1, Tokens: 10})
		if wait.Reason != Granted {
			at = wait.Until
			continue
		}
		l.Sent(at, ticket)
		at = at.Add(50 * time.Millisecond)
		l.Settle(at, ticket, Answer{})
		done++
	}
	if took := at.Sub(start); took > time.Minute {
		t.Errorf("300 calls after a refused first one: got %v, want no more than a minute", took)
	}
}
