package limit

import (
	"testing"
	"time"
)

// One refusal may come by chance, or from a window that others have spent. It
// must not pin the pace to what a young run has been admitted so far.
func TestOneRefusalIsNoPace(t *testing.T) {
	for _, nth := range []int{1, 2, 12, 20, 60} {
		one(t, nth)
	}
}

// one runs 300 calls of which only the nth is refused.
func one(t *testing.T, nth int) {
	t.Helper()
	start := time.Unix(1_700_000_000, 0)
	at := start
	l := New(Config{}, at)
	done, asked := 0, 0
	for done < 300 && at.Sub(start) < time.Hour {
		ticket, wait := l.Reserve(at, Cost{Requests: 1, Tokens: 10})
		if wait.Reason != Granted {
			at = wait.Until
			continue
		}
		l.Sent(at, ticket)
		at = at.Add(50 * time.Millisecond)
		asked++
		if asked == nth {
			l.Settle(at, ticket, Answer{Outcome: RateLimit})
			continue
		}
		l.Settle(at, ticket, Answer{})
		done++
	}
	if took := at.Sub(start); took > time.Minute {
		t.Errorf("300 calls, call %d refused: got %v, want no more than a minute", nth, took)
	}
}
