// Package retry decides what becomes of an operation whose attempt failed:
// try again and when, give it up, park or stop its route, or leave it alone.
//
// It is pure: time and randomness are arguments, and the state is the
// caller's. It reads a failure's class and never its text.
package retry

import (
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// Policy bounds the retries of one operation. Zero fields take the batch
// defaults named beside them.
type Policy struct {
	MaxAttempts int           // wire requests that count; 8
	MaxTotal    time.Duration // own backoff of the operation, without waits that a server asked for; 300 s
	Base, Cap   time.Duration // backoff n is random(0, min(Cap, Base*2^n)); 0.5 s, 30 s
	MaxWait     time.Duration // longest server-directed wait that is sat through; 15 min
	MaxOutage   time.Duration // longest time without one success on a failing route; 30 min
	HoldUnknown bool          // leave operations of unknown outcome alone instead of trying again
}

const (
	// ReconcileDelay is how long an attempt of unknown outcome gets, from its
	// sending, to be finished and found under its key.
	ReconcileDelay = 5 * time.Second
	// sameServer identical server errors in a row make one the item's own.
	sameServer = 4
	// emptyRetries and recheckRetries are what an empty answer, a malformed
	// tool call and a doubtful refusal get.
	emptyRetries   = 2
	recheckRetries = 1
	// recheckDelay is what a doubtful refusal of the key waits.
	recheckDelay = 5 * time.Second
	// alikeItems first items that all fail alike mean a bad template.
	alikeItems = 20
	// spread is added at random to a hint, so that waiters do not wake as one.
	spread = 0.1
)

// OrDefaults returns p with its zero fields filled.
func (p Policy) OrDefaults() Policy {
	if p.MaxAttempts <= 0 {
		p.MaxAttempts = 8
	}
	for _, f := range []struct {
		d   *time.Duration
		def time.Duration
	}{
		{&p.MaxTotal, 300 * time.Second},
		{&p.Base, 500 * time.Millisecond},
		{&p.Cap, 30 * time.Second},
		{&p.MaxWait, 15 * time.Minute},
		{&p.MaxOutage, 30 * time.Minute},
	} {
		if *f.d <= 0 {
			*f.d = f.def
		}
	}
	return p
}

// ceiling is the longest that backoff n may be.
func (p Policy) ceiling(n int) time.Duration {
	d := p.Base
	for ; n > 0 && d < p.Cap; n-- {
		d *= 2
	}
	return min(d, p.Cap)
}

// State is what the policy remembers of one operation. The zero value is an
// operation without failures; one taken over from an earlier run needs no more
// than Attempts.
type State struct {
	Attempts  int           // failed attempts that counted
	Backoff   time.Duration // own backoff spent
	Free      int           // failed attempts in a row that did not count
	FreeSince time.Time     // the first of those that never counted; zero = none

	Empty    int // empty answers and malformed tool calls
	Rechecks int
	Own      int    // failures of a server's kind, others having passed since the one before
	passed   int    // successes of the route at the last of them
	Same     int    // identical server errors in a row
	Server   string // the last of them
}

// suspectAfter is how often an item fails while others pass before it is its own
// doing. At the beginning of an outage that comes to one.
const suspectAfter = 3

// Suspect reports a failure of an item that failed where others passed: it says
// nothing of the route. Bad prompts are left over at the end, and alone at a
// fallback, and would look like an outage of it. A connection that never stood
// is no item's doing.
func (s *State) Suspect(k provider.Kind) bool {
	return s.Own >= suspectAfter && RouteWide(k) && !notSent(k)
}

// Action says what to do with the operation.
type Action uint8

// The actions.
const (
	Retry      Action = iota // again, not before Decision.NotBefore
	DeadLetter               // finished without a result, under Decision.Kind
	Park                     // the route rests until NotBefore (zero: not known); the operation stays pending
	Stop                     // the route is over for this run; the operation stays pending
	Hold                     // of unknown outcome and left so: not sent again in this run
	Leave                    // pending, as if never tried
)

// String names the action.
func (a Action) String() string {
	return [...]string{"retry", "dead letter", "park", "stop", "hold", "leave"}[a]
}

// Decision is what Decide says.
type Decision struct {
	Action    Action
	NotBefore time.Time     // Retry: of the next attempt. Park, Stop: when to come back, if known
	Pause     time.Time     // nothing may leave on the route before it; zero = no pause
	Kind      provider.Kind // the class for the dead letter or the stop
	Reason    string        // one line for people
}
