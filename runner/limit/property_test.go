package limit_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
)

// sentLog is an independent checker: it keeps what was sent and when, and knows no limiter.
type sentLog struct {
	at   []time.Time
	cost []limit.Cost
}

func (s *sentLog) add(at time.Time, c limit.Cost) {
	s.at, s.cost = append(s.at, at), append(s.cost, c)
}

// check fails the test if any window of the span held more than the limits. Quadratic and plain on
// purpose.
func (s *sentLog) check(t *testing.T, span time.Duration, requests, tokens int64) {
	t.Helper()
	for i := range s.at {
		var c limit.Cost
		for j := range s.at {
			if d := s.at[i].Sub(s.at[j]); d >= 0 && d < span {
				c.Requests += s.cost[j].Requests
				c.Tokens += s.cost[j].Tokens
			}
		}
		if c.Requests > requests || c.Tokens > tokens {
			t.Fatalf("the %v up to %v held %d requests and %d tokens, want at most %d and %d",
				span, s.at[i].Sub(epoch), c.Requests, c.Tokens, requests, tokens)
		}
	}
}

// drive plays a trace against a limiter of 20 requests and 1,000 tokens a minute, 60 and 2,500 a day.
// draw gives the next number below n, and false at the end of the trace.
func drive(t *testing.T, draw func(n int64) (int64, bool), backwards bool) {
	l := limit.New(limit.Config{Limits: limit.Limits{RPM: given(20), TPM: given(1000), RPD: given(60), TPD: given(2500)}}, epoch)
	type open struct {
		ticket limit.Ticket
		cost   limit.Cost
		sent   bool
	}
	var calls []open
	var log sentLog
	now, latest := epoch, epoch
	for i := int64(0); i < 6; i++ {
		ago, _ := draw(120)
		c := cost(10 * i)
		l.Seed(epoch.Add(-time.Duration(ago)*time.Second), c)
		log.add(epoch.Add(-time.Duration(ago)*time.Second), c)
	}
	for {
		what, more := draw(16)
		if !more {
			break
		}
		step, _ := draw(4000)
		now = now.Add(time.Duration(step) * time.Millisecond)
		if backwards && what == 15 {
			now = now.Add(-time.Hour)
		}
		if now.After(latest) {
			latest = now
		}
		if what < 8 || len(calls) == 0 {
			tokens, _ := draw(300)
			for range 4 { // as many as go at once
				ticket, w := l.Reserve(now, cost(tokens))
				if w.Reason != limit.Granted {
					if w.Until.IsZero() {
						t.Fatalf("got a refusal without a moment: %+v", w)
					}
					break
				}
				calls = append(calls, open{ticket: ticket, cost: cost(tokens)})
			}
			continue
		}
		pick, _ := draw(int64(len(calls)))
		c := &calls[pick]
		switch {
		case what < 12 && !c.sent:
			l.Sent(latest, c.ticket)
			log.add(latest, c.cost)
			c.sent = true
		case what == 12 && !c.sent:
			l.Cancel(now, c.ticket)
			calls = append(calls[:pick], calls[pick+1:]...)
		case c.sent:
			l.Settle(now, c.ticket, anyAnswer(draw))
			calls = append(calls[:pick], calls[pick+1:]...)
		}
	}
	log.check(t, time.Minute, 20, 1000)
	log.check(t, 24*time.Hour, 60, 2500)
	for _, c := range calls {
		l.Settle(latest, c.ticket, limit.Answer{})
	}
	comesBack(t, l, latest)
}

// comesBack fails the test if a small call is not granted in the end to one who asks when told to.
func comesBack(t *testing.T, l *limit.Limiter, now time.Time) {
	t.Helper()
	for range 200 {
		_, w := l.Reserve(now, cost(1))
		if w.Reason == limit.Granted {
			return
		}
		if w.Until.Before(now) || w.Far(now) {
			t.Fatalf("got %+v at %v with nothing in flight", w, now)
		}
		now = w.Until
	}
	t.Fatalf("got no grant after 200 waits: %+v", l.State(now))
}

func anyAnswer(draw func(int64) (int64, bool)) limit.Answer {
	n := func(most int64) int64 { v, _ := draw(most); return v }
	// A spent day's quota clears the day's log, as it should: left to TestDay.
	kinds := []limit.Outcome{
		limit.OK, limit.OK, limit.OK, limit.Failed, limit.RateLimit, limit.RateLimit,
		limit.SlowDown, limit.Concurrent, limit.InFlightBudget, limit.SharedPool, limit.Overloaded,
	}
	a := limit.Answer{Outcome: kinds[n(int64(len(kinds)))], Report: unsaid()}
	if n(2) == 0 {
		a.Hinted, a.RetryAfter = true, time.Duration(n(90)-5)*time.Second
	}
	if n(2) == 0 {
		a.Report.Requests = limit.Window{Limit: n(100) - 2, Remaining: n(100) - 2, ResetAfter: time.Duration(n(120)-2) * time.Second}
	}
	if n(2) == 0 {
		a.Report.Tokens = limit.Window{Limit: n(5000) - 2, Remaining: n(5000) - 2, ResetAfter: time.Duration(n(120)-2) * time.Second}
	}
	if n(4) == 0 {
		a.Known, a.Used = true, cost(n(400))
	}
	return a
}

// TestNeverAbove: whatever happens, no rolling minute and no rolling day holds more than the caps.
func TestNeverAbove(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		left := 600
		drive(t, func(n int64) (int64, bool) {
			left--
			return r.Int64N(max(n, 1)), left > 0
		}, seed%2 == 1)
	}
}

// FuzzTrace is the same for traces that no one drew.
func FuzzTrace(f *testing.F) {
	f.Add([]byte("a request, an answer, a refusal and a hint"), false)
	f.Add(make([]byte, 400), true)
	f.Fuzz(func(t *testing.T, trace []byte, backwards bool) {
		if len(trace) > 4000 {
			return
		}
		drive(t, func(n int64) (int64, bool) {
			if len(trace) < 2 {
				return 0, false
			}
			v := int64(binary.LittleEndian.Uint16(trace))
			trace = trace[2:]
			return v % max(n, 1), true
		}, backwards)
	})
}

// FuzzReport feeds hostile figures: no panic, no overflow, and a call is granted in the end.
func FuzzReport(f *testing.F) {
	f.Add(int64(20), int64(0), int64(3e9), int64(1e9), uint8(limit.RateLimit), true)
	f.Add(int64(-1<<63), int64(1<<62), int64(1<<63-1), int64(-5), uint8(limit.OK), false)
	f.Fuzz(func(t *testing.T, most, left, reset, hint int64, outcome uint8, known bool) {
		var c limit.Config
		if known {
			c.Limits = caps(60, 1000)
		}
		l := limit.New(c, epoch)
		now := epoch
		for i := range 40 {
			ticket, w := l.Reserve(now, cost(most))
			if w.Reason == limit.Granted {
				l.Sent(now, ticket)
				win := limit.Window{Limit: most, Remaining: left - int64(i), ResetAfter: time.Duration(reset)}
				l.Settle(now.Add(time.Duration(i)*time.Millisecond), ticket, limit.Answer{
					Outcome: limit.Outcome(outcome) % (limit.Overloaded + 1), Hinted: i%2 == 0, RetryAfter: time.Duration(hint),
					Report: limit.Report{Requests: win, Tokens: win, TokensDay: win}, Known: true, Used: cost(left),
				})
			}
			l.Room(now)
			l.Balance(now, 1, 1<<40)
			now = now.Add(time.Duration(i) * 10 * time.Millisecond)
		}
		for range 200 {
			_, w := l.Reserve(now, limit.Cost{Requests: 1})
			if w.Reason == limit.Granted {
				return
			}
			if w.Until.Before(now) || w.Far(now) {
				return // a pause of a thousand hours is the server's to ask for
			}
			now = w.Until
		}
		t.Fatalf("got no grant after 200 waits: %+v", l.State(now))
	})
}

func BenchmarkReserveSentSettle(b *testing.B) {
	for name, c := range map[string]limit.Config{
		"learned": {},
		"given":   {Limits: limit.Limits{RPM: given(10_000_000), TPM: given(10_000_000_000), RPD: given(1 << 40)}},
	} {
		b.Run(name, func(b *testing.B) {
			l := limit.New(c, epoch)
			now := epoch
			for b.Loop() {
				now = now.Add(10 * time.Microsecond)
				ticket, w := l.Reserve(now, cost(500))
				if w.Reason != limit.Granted {
					continue
				}
				l.Sent(now, ticket)
				l.Settle(now, ticket, limit.Answer{})
			}
		})
	}
}

// BenchmarkAskWhileFull is what a dispatcher does on each event while the minute is full of small charges
// and a heavy call waits.
func BenchmarkAskWhileFull(b *testing.B) {
	l := limit.New(limit.Config{Limits: limit.Limits{RPM: given(20_000), TPM: given(1_000_000)}}, epoch)
	now := epoch
	for l.Room(now).Tokens >= 100 {
		if ticket, w := l.Reserve(now, cost(100)); w.Reason == limit.Granted {
			l.Sent(now, ticket)
			l.Settle(now, ticket, limit.Answer{})
		}
		now = now.Add(4 * time.Millisecond)
	}
	for b.Loop() {
		l.Room(now)
		l.Balance(now, 1, 1<<40)
		l.Peek(now, cost(500_000))
	}
}
