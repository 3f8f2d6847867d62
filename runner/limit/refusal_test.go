package limit_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
)

// start reserves and sends n calls at the given second.
func start(t *testing.T, l *limit.Limiter, second float64, n int) []limit.Ticket {
	t.Helper()
	var out []limit.Ticket
	now := at(second)
	for len(out) < n {
		ticket, w := l.Reserve(now, cost(10))
		if w.Reason == limit.AtSpread {
			now = w.Until
			continue
		}
		if w.Reason != limit.Granted {
			t.Fatalf("got %+v for call %d, want granted", w, len(out))
		}
		l.Sent(now, ticket)
		out = append(out, ticket)
	}
	return out
}

func wantWait(t *testing.T, l *limit.Limiter, second float64, why limit.Reason, from, to float64) {
	t.Helper()
	w := l.Peek(at(second), cost(10))
	until := w.Until.Sub(epoch).Seconds()
	if w.Reason != why || why != limit.Granted && (until < from || until > to) {
		t.Errorf("at %g s got %q until %.3f, want %q between %g and %g", second, w.Reason, until, why, from, to)
	}
}

// One flight refused is one pause; then one call goes first, then an even pace.
func TestRefusal(t *testing.T) {
	l := limit.New(limit.Config{Rand: rand.New(rand.NewPCG(1, 1))}, epoch)
	calls := start(t, l, 0, 6)
	refused := limit.Answer{Outcome: limit.RateLimit, Hinted: true, RetryAfter: 10 * time.Second, Report: unsaid()}
	refused.Report.Requests = limit.Window{Limit: 60, Remaining: 0, ResetAfter: -1}
	for i, c := range calls[:4] {
		l.Settle(at(1+float64(i)/10), c, refused)
	}
	wantWait(t, l, 2, limit.AfterHint, 11.3, 12.3)
	resumes := l.Peek(at(2), cost(1)).Until.Sub(epoch).Seconds() + 0.001
	probe := start(t, l, resumes, 1)[0]
	wantWait(t, l, resumes+0.1, limit.BehindProbe, resumes, resumes+5)
	l.Settle(at(resumes+0.2), probe, limit.Answer{})
	wantWait(t, l, resumes+0.3, limit.AtEvenPace, resumes+1, resumes+1.04)
	l.Settle(at(resumes+0.3), calls[4], refused) // of the old flight: a pause again, but no lower pace
	for _, u := range l.State(at(resumes + 0.3)).Uses {
		if u.Name == "rpm" && math.Abs(u.Pace-0.97*60) > 0.01 {
			t.Errorf("got a pace of %v, want 58.2", u.Pace)
		}
	}
}

// Without a hint the backoff doubles to 30 s, and a success ends it.
func TestBackoff(t *testing.T) {
	l := limit.New(limit.Config{}, epoch) // no jitter: half of each bound
	now := 0.0
	for i, want := range []float64{0.25, 0.5, 1, 2, 4, 8, 15, 15} {
		c := start(t, l, now, 1)[0]
		l.Settle(at(now), c, limit.Answer{Outcome: limit.RateLimit, Report: unsaid()})
		wait := l.Peek(at(now), cost(1)).Until.Sub(at(now)).Seconds()
		if math.Abs(wait-want) > 0.001 {
			t.Errorf("refusal %d: got a pause of %.3f s, want %.3f", i, wait, want)
		}
		now += max(wait, 2) + 60 // the even pace after the first is one a minute
	}
	l.Settle(at(now), start(t, l, now, 1)[0], limit.Answer{})
	c := start(t, l, now+70, 1)[0]
	l.Settle(at(now+70), c, limit.Answer{Outcome: limit.RateLimit, Report: unsaid()})
	if wait := l.Peek(at(now+70), cost(1)).Until.Sub(at(now + 70)).Seconds(); math.Abs(wait-0.25) > 0.001 {
		t.Errorf("got a pause of %.3f s after a success, want 0.250", wait)
	}
}

// A refused call far below the cap, in a burst, without word of a spent window: the pace becomes even.
// In any other case a single refusal does not.
func TestWhichRefusalsEndBursts(t *testing.T) {
	spent := unsaid()
	spent.Requests = limit.Window{Limit: 600, Remaining: 0, ResetAfter: 20 * time.Second}
	for _, tt := range []struct {
		name  string
		burst int
		a     limit.Answer
		even  bool
	}{
		{"a burst far below", 20, limit.Answer{Outcome: limit.RateLimit, Report: unsaid()}, true},
		{"a burst, hint of a second", 20, limit.Answer{Outcome: limit.RateLimit, Hinted: true, RetryAfter: time.Second, Report: unsaid()}, true},
		{"no burst", 3, limit.Answer{Outcome: limit.RateLimit, Report: unsaid()}, false},
		{"the window is spent", 20, limit.Answer{Outcome: limit.RateLimit, Report: spent}, false},
		{"a hint of a window", 20, limit.Answer{Outcome: limit.RateLimit, Hinted: true, RetryAfter: 40 * time.Second, Report: unsaid()}, false},
		{"a full pool", 20, limit.Answer{Outcome: limit.SharedPool, Report: unsaid()}, false},
		{"overload", 20, limit.Answer{Outcome: limit.Overloaded, Report: unsaid()}, false},
		{"too many at once", 20, limit.Answer{Outcome: limit.Concurrent, Report: unsaid()}, false},
		{"a server error", 20, limit.Answer{Outcome: limit.Failed, Report: unsaid()}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := limit.New(limit.Config{Limits: limit.Limits{RPM: given(600)}}, epoch)
			var last limit.Ticket
			for i := range tt.burst {
				last = start(t, l, 0.01*float64(i), 1)[0]
				if i < tt.burst-1 {
					l.Settle(at(0.01*float64(i)+0.005), last, limit.Answer{})
				}
			}
			l.Settle(at(1), last, tt.a)
			even := false
			for _, u := range l.State(at(1)).Uses {
				even = even || u.Pace > 0
			}
			if even != tt.even {
				t.Errorf("got even %v, want %v", even, tt.even)
			}
		})
	}
}

// SlowDown halves the rate, and it grows by half in 15 minutes at most.
func TestSlowDown(t *testing.T) {
	l := limit.New(limit.Config{}, epoch)
	now, sent := 0.0, 0
	minutes := map[int]int{}
	for ; now < 40*60; now += 0.05 {
		if w := l.Peek(at(now), cost(1)); w.Reason != limit.Granted {
			continue
		}
		c, _ := l.Reserve(at(now), cost(1))
		l.Sent(at(now), c)
		sent++
		minutes[int(now/60)]++
		a := limit.Answer{}
		if sent == 1200 { // a minute at 20 a second
			a = limit.Answer{Outcome: limit.SlowDown, Report: unsaid()}
		}
		l.Settle(at(now+0.01), c, a)
	}
	before, half, later := minutes[0], minutes[2], minutes[17]
	if math.Abs(float64(half)-float64(before)/2) > 0.06*float64(before) {
		t.Errorf("got %d a minute after %d, want half", half, before)
	}
	if ratio := float64(later) / float64(half); ratio < 1.3 || ratio > 1.5 {
		t.Errorf("got %.2f times as many 15 minutes later, want up to 1.5", ratio)
	}
}

// A spent day parks the limiter until its reset; then the day's log starts anew.
func TestDay(t *testing.T) {
	l := limit.New(limit.Config{Limits: limit.Limits{RPD: given(3)}}, epoch)
	calls := start(t, l, 0, 3)
	l.Settle(at(1), calls[0], limit.Answer{Outcome: limit.Day, Reset: at(5000), Report: unsaid()})
	wantWait(t, l, 2, limit.UntilNewDay, 5000, 5000.1)
	wantWait(t, l, 5001, limit.Granted, 0, 0)

	l = limit.New(limit.Config{}, epoch) // noon
	l.Settle(at(1), start(t, l, 0, 1)[0], limit.Answer{Outcome: limit.Day, Report: unsaid()})
	wantWait(t, l, 2, limit.UntilNewDay, 12*3600, 12*3600+1)
}

// After a suspend the monotonic clock is behind; the wall clock ends the pause.
func TestSuspend(t *testing.T) {
	start := time.Now() // has both readings
	l := limit.New(limit.Config{}, start)
	c, _ := l.Reserve(start, cost(1))
	l.Settle(start.Add(time.Second), c, limit.Answer{Outcome: limit.RateLimit, Hinted: true, RetryAfter: time.Minute, Report: unsaid()})
	if w := l.Peek(start.Add(11*time.Second), cost(1)); w.Reason != limit.AfterHint {
		t.Fatalf("got %+v, want the pause", w)
	}
	woken := start.Add(15 * time.Minute).Round(0) // wall time alone
	if w := l.Peek(woken, cost(1)); w.Reason != limit.Granted {
		t.Errorf("got %+v after the suspend, want granted", w)
	}
}

// What the server says remains caps a limit that the user gave, less what is in flight.
func TestRemaining(t *testing.T) {
	l := limit.New(limit.Config{Limits: limit.Limits{RPM: given(100)}}, epoch)
	calls := start(t, l, 0, 4)
	a := limit.Answer{Report: unsaid()}
	a.Report.Requests = limit.Window{Limit: 100, Remaining: 5, ResetAfter: 30 * time.Second}
	l.Settle(at(2), calls[0], a)
	start(t, l, 3, 2) // 3 of the first four and these two make up the five
	wantWait(t, l, 4, limit.AtServer, 29.9, 32.1)
	wantWait(t, l, 33, limit.Granted, 0, 0)
}

// A learned output, or headers, never make a call impossible: one larger than a learned limit goes alone.
func TestLargerThanLearned(t *testing.T) {
	l := limit.New(limit.Config{}, epoch)
	a := limit.Answer{Report: unsaid()}
	a.Report.Tokens = limit.Window{Limit: 100, Remaining: 90, ResetAfter: time.Second}
	l.Settle(at(1), start(t, l, 0, 1)[0], a)
	if _, _, never := l.Never(cost(500)); never {
		t.Error("got never on account of a learned limit")
	}
	if w := l.Peek(at(100), cost(500)); w.Reason != limit.Granted {
		t.Errorf("got %+v for a call larger than the learned limit, want granted alone", w)
	}
}

// The ceiling starts at 8, doubles each round trip while it binds, and shrinks when told to.
func TestConcurrencyGrowth(t *testing.T) {
	l := limit.New(limit.Config{Limits: limit.Limits{Concurrency: 100}}, epoch)
	if got := l.Concurrency().Ceiling(); got != 8 {
		t.Fatalf("got a ceiling of %d at first, want 8", got)
	}
	type call struct {
		ticket limit.Ticket
		done   float64
	}
	var wire []call
	now := 0.0
	for _, want := range []int{8, 8, 16, 32, 64, 100} {
		if got := l.Concurrency().Ceiling(); got < want*7/8 || got > want*9/8 {
			t.Errorf("at %.1f s got %d, want about %d", now, got, want)
		}
		for end := now + 1; now < end; now += 0.001 { // each call takes a second
			for len(wire) > 0 && wire[0].done <= now {
				l.Settle(at(now), wire[0].ticket, limit.Answer{})
				wire = wire[1:]
			}
			for {
				ticket, w := l.Reserve(at(now), cost(10))
				if w.Reason != limit.Granted {
					break
				}
				l.Sent(at(now), ticket)
				wire = append(wire, call{ticket, now + 1})
			}
		}
	}
	if got := len(wire); got != 100 {
		t.Errorf("got %d on the wire, want the ceiling of 100", got)
	}
	for _, c := range wire {
		l.Settle(at(now), c.ticket, limit.Answer{Outcome: limit.Overloaded, Report: unsaid()})
	}
	if got := l.Concurrency().Ceiling(); got < 45 || got > 55 {
		t.Errorf("got %d after an overload of 100 calls, want half, once", got)
	}
}

// A ceiling that brings no more completions goes back.
func TestConcurrencyPlateau(t *testing.T) {
	s := &serverModel{}
	cl := newClient(limit.Config{}, s, 0.2, 3, lengths(60_000, 1e6, 1))
	cl.slots = 40 // calls that the server works on; the others queue there
	cl.run(300)
	if got := cl.l.Concurrency().Ceiling(); got > 200 {
		t.Errorf("got a ceiling of %d for a server of 40 slots", got)
	}
	if rate := float64(cl.done) / cl.now; rate < 0.9*40/0.2 {
		t.Errorf("got %.0f calls a second, want nearly %.0f", rate, 40/0.2)
	}
}

// A larger ceiling that brings a little more is kept, one that brings nothing goes back, and one that
// brings less does at once.
func TestConcurrencyOfSmallGains(t *testing.T) {
	for name, test := range map[string]struct {
		power     float64 // of twice as many calls 2 to the power of it times the completions, from 64 to 256
		low, high float64 // the mean ceiling
		least     float64 // completions a second
		lull      bool    // there is nothing to send for half a second, when the ceiling has grown
	}{
		"a fifth more": {power: 0.25, low: 180, high: 400, least: 850},
		"no more":      {power: 0, low: 60, high: 140, least: 635},
		"a lull":       {power: 0, low: 60, high: 140, least: 630, lull: true},
		"a third less": {power: -0.6, low: 60, high: 75, least: 625},
	} {
		t.Run(name, func(t *testing.T) {
			l := limit.New(limit.Config{}, epoch)
			pace := func(n int) float64 { // of a server whose calls take 0.1 s, up to 64 at once
				return 640 * min(1, float64(n)/64) * math.Pow(min(4, max(1, float64(n)/64)), test.power)
			}
			var wire []limit.Ticket
			now, done, ceilings, lull := 0.0, 0, 0.0, math.Inf(1)
			for ; now < 120; done++ {
				if test.lull && l.Concurrency().Ceiling() > 100 {
					lull = min(lull, now)
				}
				for len(wire) < 60 || now < lull || now > lull+0.5 {
					ticket, w := l.Reserve(at(now), cost(1))
					if w.Reason != limit.Granted {
						break
					}
					l.Sent(at(now), ticket)
					wire = append(wire, ticket)
				}
				took := 1 / pace(len(wire))
				ceilings += took * float64(l.Concurrency().Ceiling())
				now += took
				l.Settle(at(now), wire[0], limit.Answer{Report: unsaid()})
				wire = wire[1:]
			}
			if mean := ceilings / now; mean < test.low || mean > test.high {
				t.Errorf("got a mean ceiling of %.0f, want %.0f to %.0f", mean, test.low, test.high)
			}
			if rate := float64(done) / now; rate < test.least {
				t.Errorf("got %.0f calls a second, want at least %.0f", rate, test.least)
			}
		})
	}
}

// What the first refusal found on the wire does not bring the old ceiling back.
func TestRestartIsNotUndone(t *testing.T) {
	l := limit.New(limit.Config{}, epoch)
	now := 0.0
	for range 60 {
		l.Settle(at(now+0.3), start(t, l, now, 1)[0], limit.Answer{Report: unsaid()})
		now += 0.4
	}
	for range 6 {
		calls := start(t, l, now, l.Concurrency().Ceiling())
		now++
		for _, c := range calls {
			l.Settle(at(now), c, limit.Answer{Report: unsaid()})
		}
	}
	calls := start(t, l, now, l.Concurrency().Ceiling())
	if len(calls) < 32 {
		t.Fatalf("got %d calls on the wire, want many", len(calls))
	}
	now++
	l.Settle(at(now), calls[0], limit.Answer{Outcome: limit.RateLimit, Report: unsaid()})
	for _, c := range calls[1:] {
		l.Settle(at(now), c, limit.Answer{Report: unsaid()})
	}
	if got := l.Concurrency().Ceiling(); got != 8 {
		t.Errorf("got a ceiling of %d, want to begin again with 8", got)
	}
}

// A ceiling that begins again grows again, also if growth beyond the one before had been found useless.
func TestRestartGrowsAgain(t *testing.T) {
	for refused := 60.0; refused < 100; refused += 5 {
		s := &serverModel{requests: &refusesOnce{at: refused}}
		cl := newClient(limit.Config{}, s, 0.2, 3, lengths(60_000, 1e6, 1))
		cl.slots = 40
		cl.run(refused)
		before := cl.done
		cl.run(refused + 20)
		if s.refused != 1 {
			t.Fatalf("got %d refusals, want one", s.refused)
		}
		if rate := float64(cl.done-before) / 20; rate < 0.6*40/0.2 {
			t.Errorf("got %.0f calls a second in the 20 s after a refusal at %.0f s, want most of %.0f", rate, refused, 40/0.2)
		}
	}
}

// refusesOnce refuses the first request from a moment on, and no other.
type refusesOnce struct {
	at   float64
	done bool
}

func (o *refusesOnce) wait(now, _ float64) float64 {
	if o.done || now < o.at {
		return 0
	}
	o.done = true
	return 1
}
func (o *refusesOnce) take(_, _ float64)       {}
func (o *refusesOnce) left(_ float64) float64  { return 1 }
func (o *refusesOnce) reset(_ float64) float64 { return 1 }

// Of calls that take long, those that are answered while the ceiling grows went out under a lower one: what
// a ceiling brings is not taken for what the next one does.
func TestConcurrencyPlateauOfLongCalls(t *testing.T) {
	sum := 0
	const runs = 12
	for seed := range uint64(runs) {
		s := &serverModel{}
		cl := newClient(limit.Config{}, s, 3, seed, lengths(40_000, 1e6, 1))
		cl.slots = 300
		cl.run(120)
		sum += cl.l.Concurrency().Ceiling()
	}
	if mean := sum / runs; mean < 300 || mean > 600 { // doubling makes it 512
		t.Errorf("got a mean ceiling of %d for a server of 300 slots", mean)
	}
}

// A server that answers in a millisecond is given twice as many calls as soon as 25 ms have shown what
// the last doubling brought.
func TestConcurrencyGrowsFastOnFastServer(t *testing.T) {
	l := limit.New(limit.Config{}, epoch)
	var wire []limit.Ticket
	now, since := 0.0, 0.0 // since 64 may be on the wire
	for l.Concurrency().Ceiling() < 256 && now < 10 {
		ticket, w := l.Reserve(at(now), cost(1))
		for ; w.Reason == limit.Granted; ticket, w = l.Reserve(at(now), cost(1)) {
			l.Sent(at(now), ticket)
			wire = append(wire, ticket)
		}
		if len(wire) == 0 {
			now = w.Until.Sub(epoch).Seconds()
			continue
		}
		now += 0.001 / float64(len(wire))
		l.Settle(at(now), wire[0], limit.Answer{Report: unsaid()})
		wire = wire[1:]
		if l.Concurrency().Ceiling() < 64 {
			since = now
		}
	}
	if took := now - since; took < 0.025 || took > 0.075 {
		t.Errorf("from 64 to 256 calls took %.0f ms, want 25 to 75", took*1000)
	}
}

// Where a call takes next to no time, thousands are done in a moment: the ceiling still doubles no
// faster than it can be told what the last doubling brought.
func TestConcurrencyPlateauOfShortCalls(t *testing.T) {
	s := &serverModel{}
	cl := newClient(limit.Config{}, s, 0.005, 3, lengths(60_000, 1e6, 1))
	cl.slots = 60
	cl.run(300)
	// On its way and back each call takes 13 ms more, so 216 keep the slots full.
	if got := cl.l.Concurrency().Ceiling(); cl.peak > 520 || got > 300 {
		t.Errorf("got up to %d calls on the wire and a ceiling of %d at the end, where 216 will do", cl.peak, got)
	}
	if rate := float64(cl.done) / cl.now; rate < 0.8*60/0.005 {
		t.Errorf("got %.0f calls a second, want nearly %.0f", rate, 60/0.005)
	}
}
