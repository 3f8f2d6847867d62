package limit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestHorizon: how long what is left takes, in states whose answer is known.
func TestHorizon(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	user := func(n int64) Cap { return Cap{N: n, Set: true} }
	// used has n calls sent at once, and answered a second later, 20 seconds ago.
	used := func(n int) func(*Limiter) {
		return func(l *Limiter) {
			for range n {
				at := start.Add(-20 * time.Second)
				l.Seed(at.Add(-time.Second), Cost{Requests: 1, Tokens: 100}) // it counts from a second later
			}
		}
	}
	for _, test := range []struct {
		name   string
		limits Limits
		before func(*Limiter)
		left   Cost
		trip   time.Duration
		want   time.Duration
		within time.Duration
	}{
		{"nothing", Limits{RPM: user(45)}, nil, Cost{}, time.Second, 0, 0},
		{"no limit, one round trip", Limits{Concurrency: 8}, nil, Cost{Requests: 8}, 3 * time.Second, 3 * time.Second, 500 * time.Millisecond},
		{"no limit, rounds", Limits{Concurrency: 8}, nil, Cost{Requests: 80}, 3 * time.Second, 30 * time.Second, time.Second},
		{"at the start", Limits{RPM: user(45)}, nil, Cost{Requests: 105}, time.Second, 121 * time.Second, 8 * time.Second},
		{"waiting for the last window", Limits{RPM: user(45)}, used(45), Cost{Requests: 15}, 0, 40 * time.Second, 500 * time.Millisecond},
		{"waiting, with one more to come", Limits{RPM: user(45)}, used(45), Cost{Requests: 46}, 0, 100 * time.Second, time.Second},
		{"a day later", Limits{RPD: user(30)}, nil, Cost{Requests: 31}, 0, 24 * time.Hour, time.Second},
		{"tokens", Limits{TPM: user(1000)}, used(10), Cost{Requests: 30, Tokens: 3000}, 0, 160 * time.Second, time.Second},
		{"a heavy last one waits for a whole window", Limits{TPM: user(1000)}, nil, Cost{Requests: 4, Tokens: 2400}, 0, 3 * time.Minute, time.Second},
		{"output apart", Limits{OTPM: user(500)}, nil, Cost{Requests: 3, Tokens: 9000, Output: 1500}, 0, 2 * time.Minute, time.Second},
		{"none is none", Limits{RPM: Cap{Set: true}, Concurrency: 1000}, nil, Cost{Requests: 1000}, 0, 0, 0},
		{"for ever", Limits{TPD: user(1)}, nil, Cost{Requests: 1 << 40, Tokens: 1 << 60}, 0, far, 0},
	} {
		l := New(Config{Limits: test.limits, Accounting: Split, Rand: rand.New(rand.NewPCG(1, 2))}, start)
		l.bursts, l.conc.slow = true, false
		if test.limits.Concurrency > 0 {
			l.conc.ceiling = float64(test.limits.Concurrency)
		} else {
			l.conc.ceiling = DefaultCeiling
		}
		if test.before != nil {
			test.before(l)
		}
		if got := l.Horizon(start, test.left, test.trip); got < test.want-test.within || got > test.want+test.within {
			t.Errorf("%s: got %v, want %v within %v", test.name, got, test.want, test.within)
		}
	}
}
