package limit_test

import (
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
)

// admitted counts the calls that go within a stretch of time when each one that
// may go does, and is answered at once.
func admitted(l *limit.Limiter, from time.Time, within time.Duration) (n int) {
	for now := from; now.Sub(from) < within; {
		ticket, w := l.Reserve(now, cost(1))
		if w.Reason != limit.Granted {
			if !w.Until.After(now) {
				return n
			}
			now = w.Until
			continue
		}
		l.Sent(now, ticket)
		l.Settle(now, ticket, limit.Answer{Report: unsaid()})
		n++
	}
	return n
}

// A machine that sleeps with a full window wakes up with an empty one: as many
// calls go as a minute may have, and no more.
func TestSuspendAdmitsNoBurst(t *testing.T) {
	start := time.Now() // has both readings
	l := limit.New(limit.Config{Limits: limit.Limits{RPM: given(60)}}, start)
	if got := admitted(l, start, 59*time.Second); got != 60 {
		t.Fatalf("got %d in the first minute, want 60", got)
	}
	woken := start.Add(15 * time.Minute).Round(0) // the monotonic clock stood still: wall time alone tells
	if got := admitted(l, woken, 59*time.Second); got != 60 {
		t.Errorf("got %d in the minute after the suspend, want 60", got)
	}
}

// A wall clock that is set back or forth lets no second minute go, and one that
// is set back keeps nothing waiting for longer than the step.
func TestClockSteps(t *testing.T) {
	for name, step := range map[string]time.Duration{"a day back": -24 * time.Hour, "an hour back": -time.Hour, "a day forth": 24 * time.Hour} {
		start := time.Now().Round(0)
		l := limit.New(limit.Config{Limits: limit.Limits{RPM: given(60)}}, start)
		if got := admitted(l, start, 59*time.Second); got != 60 {
			t.Fatalf("%s: got %d in the first minute, want 60", name, got)
		}
		set, want := start.Add(59*time.Second+step), 60
		if step < 0 {
			want = 0 // the minute is not over by any clock
		}
		if got := admitted(l, set, 59*time.Second); got != want {
			t.Errorf("%s: got %d after the step, want %d", name, got, want)
		}
		if got := admitted(l, start.Add(24*time.Hour+3*time.Minute), 59*time.Second); got != 60 {
			t.Errorf("%s: got %d once the clock is past the step, want 60", name, got)
		}
	}
}
