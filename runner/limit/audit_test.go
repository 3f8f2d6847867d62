package limit_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
)

// account is a server's token limit as its headers show it, and what it charges.
type account struct {
	limit   float64
	fixed   bool // a window that is full again each minute, else a bucket
	charge  func(limit.Call) int64
	back    bool                 // gives back what a call did not use
	others  func(i int) float64  // what other processes take before the i-th call
	latency func(i int) float64  // seconds
	gap     float64              // between calls, in seconds
	call    func(int) limit.Call // the i-th
	failing func(i int) bool
}

// observe sends n calls to the account and returns what the limiter makes of its headers.
func (s account) observe(start limit.Charging, n int) (limit.Charging, int) {
	l := limit.New(limit.Config{Accounting: start.Form, Limits: limit.Limits{RPM: given(0), TPM: given(1 << 40), Concurrency: 1 << 20}}, epoch)
	l.Take(start)
	l.Follow()
	level, last, moves := s.limit, 0.0, 0
	refill := func(now float64) {
		if s.fixed {
			if int(now/60) > int(last/60) {
				level = s.limit
			}
		} else {
			level = min(s.limit, level+(now-last)*s.limit/60)
		}
		last = now
	}
	type flight struct {
		at     float64
		ticket limit.Ticket
		answer limit.Answer
		unused float64
	}
	var out []flight
	land := func(until float64) {
		for len(out) > 0 && out[0].at <= until {
			f := out[0]
			out = out[1:]
			refill(f.at)
			level = min(s.limit, level+f.unused)
			l.Settle(at(f.at), f.ticket, f.answer)
			if l.Moved() {
				moves++
			}
		}
	}
	now := 0.0
	for i := range n {
		land(now)
		ticket, wait := l.Reserve(at(now), limit.Cost{Requests: 1, Tokens: 1})
		for wait.Reason != limit.Granted {
			now = max(now+0.001, wait.Until.Sub(epoch).Seconds())
			land(now)
			ticket, wait = l.Reserve(at(now), limit.Cost{Requests: 1, Tokens: 1})
		}
		l.Sent(at(now), ticket)
		refill(now)
		if s.others != nil {
			level = max(level-s.others(i), 0)
		}
		c := s.call(i)
		charge := s.charge(c)
		level -= float64(charge)
		reset := (s.limit - level) / s.limit * 60
		if s.fixed {
			reset = 60 - (now - float64(int(now/60))*60)
		}
		a := limit.Answer{Call: c, Report: limit.Report{Tokens: limit.Window{
			Limit: int64(s.limit), Remaining: int64(max(level, 0)), ResetAfter: time.Duration(reset * 1e9),
		}}}
		if s.failing != nil && s.failing(i) {
			a.Outcome = limit.Failed
		}
		f := flight{at: now + s.latency(i), ticket: ticket, answer: a}
		if s.back {
			f.unused = float64(max(charge-c.Billed-c.Output, 0))
		}
		k, _ := slices.BinarySearchFunc(out, f, func(a, b flight) int {
			if a.at <= b.at {
				return -1
			}
			return 1
		})
		out = slices.Insert(out, k, f)
		now += s.gap
	}
	land(now + 1000)
	return l.Charging(), moves
}

func TestAudit(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	prompts := make([]int64, 1000)
	for i := range prompts {
		prompts[i] = 50 + r.Int64N(400)
	}
	capped := func(i int) limit.Call {
		p := prompts[i%len(prompts)]
		return limit.Call{Prompt: p, Billed: p + 1, Characters: p*5/4 + 9, Reserved: 200 + p%7*50, Output: 22 + p%5, Capped: true}
	}
	bare := func(i int) limit.Call {
		c := capped(i)
		c.Reserved, c.Capped = 1024, false
		return c
	}
	mixed := func(i int) limit.Call {
		if i%3 == 0 {
			return bare(i)
		}
		return capped(i)
	}
	as := func(f func(prompt, output int64) int64) func(limit.Call) int64 {
		return func(c limit.Call) int64 { return f(c.Billed, c.Reserved) }
	}
	sum := as(func(p, o int64) int64 { return p + o })
	largest := as(func(p, o int64) int64 { return max(p, o) })
	input := as(func(p, _ int64) int64 { return p })
	characters := func(c limit.Call) int64 { return c.Characters }
	quick := func(int) float64 { return 0.2 }
	uneven := func(i int) float64 { return 0.2 + float64(prompts[i%1000]%97)/50 }
	by := func(f, bare limit.Accounting, u limit.Unit) limit.Charging {
		return limit.Charging{Form: f, Bare: bare, Unit: u}
	}
	tests := []struct {
		name  string
		start limit.Accounting
		s     account
		n     int
		want  limit.Charging
		moves int
	}{
		{"19 pairs are too few", limit.Sum, account{charge: input, call: capped, gap: 90}, 20, by(limit.Sum, limit.Sum, limit.Either), 0},
		{"20 agree", limit.Sum, account{charge: input, call: capped, gap: 90}, 21, by(limit.Input, limit.Sum, limit.Tokens), 1},
		{"sum stays", limit.Sum, account{charge: sum, call: capped}, 300, by(limit.Sum, limit.Sum, limit.Tokens), 1},
		{"sum where the larger was expected", limit.Max, account{charge: sum, call: capped, gap: 90}, 21, by(limit.Sum, limit.Max, limit.Tokens), 1},
		{"the larger where sum was expected", limit.Sum, account{charge: largest, call: capped, gap: 90}, 21, by(limit.Max, limit.Sum, limit.Either), 1},
		{"no charge at all", limit.Sum, account{charge: func(limit.Call) int64 { return 0 }, call: capped, gap: 90}, 21, by(limit.None, limit.Sum, limit.Either), 1},
		{"a charge where none was expected", limit.None, account{charge: sum, call: capped, gap: 90}, 21, by(limit.Sum, limit.None, limit.Tokens), 1},
		{"by characters", limit.Max, account{charge: characters, call: bare, gap: 90}, 21, by(limit.Max, limit.Input, limit.Characters), 1},
		{"with and without a cap", limit.Max, account{charge: characters, call: mixed, gap: 90}, 60, by(limit.Input, limit.Input, limit.Characters), -1},
		{"many at once", limit.Sum, account{charge: input, call: capped, latency: uneven, gap: 0.02}, 200, by(limit.Input, limit.Sum, limit.Tokens), -1},
		{"a fixed window", limit.Sum, account{charge: input, call: capped, fixed: true, gap: 0.5}, 300, by(limit.Input, limit.Sum, limit.Tokens), -1},
		{"a bucket that is nearly full all the time", limit.Sum, account{charge: input, call: capped, gap: 3}, 60, by(limit.Input, limit.Sum, limit.Tokens), -1},
		{"others take as much", limit.Sum, account{charge: input, call: capped, others: func(i int) float64 { return float64(prompts[(i*7)%1000] * int64(i%2)) }}, 120, by(limit.Input, limit.Sum, limit.Tokens), -1},
		{"others alone are no reason to move", limit.Input, account{charge: input, call: capped, others: func(i int) float64 { return float64(prompts[(i*7)%1000]) }}, 400, by(limit.Input, limit.Input, limit.Either), 0},
		{"failed calls say nothing", limit.Sum, account{charge: input, call: capped, failing: func(i int) bool { return i%2 == 0 }}, 200, by(limit.Sum, limit.Sum, limit.Either), 0},
		{"given back", limit.Sum, account{limit: 20_000, charge: sum, call: capped, back: true, gap: 0.6}, 200, limit.Charging{Form: limit.Sum, Bare: limit.Sum, Unit: limit.Tokens, Back: true}, -1},
		{"given back, several at once", limit.Sum, account{limit: 40_000, charge: sum, call: capped, back: true, latency: uneven, gap: 0.3}, 400, limit.Charging{Form: limit.Sum, Bare: limit.Sum, Unit: limit.Tokens, Back: true}, -1},
		{"given back, short answers are no sign of another form", limit.Sum, account{limit: 20_000, charge: sum, back: true, gap: 0.6, call: func(i int) limit.Call {
			c := capped(i)
			c.Output = 1
			return c
		}}, 200, limit.Charging{Form: limit.Sum, Bare: limit.Sum, Unit: limit.Tokens, Back: true}, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.s
			if s.limit == 0 {
				s.limit = 200_000
			}
			if s.gap == 0 {
				s.gap = 0.5
			}
			if s.latency == nil {
				s.latency = quick
			}
			got, moves := s.observe(limit.As(tt.start), tt.n)
			if got != tt.want || tt.moves >= 0 && moves != tt.moves {
				t.Errorf("got %q after %d moves, want %q after %d", got, moves, tt.want, tt.moves)
			}
		})
	}
}

// A server that states budgets for input and output alone charges them apart.
func TestAuditApart(t *testing.T) {
	l := limit.New(limit.Config{}, epoch)
	l.Follow()
	for i := range 20 {
		if c := l.Charging(); c.Form != limit.Sum {
			t.Fatalf("after %d answers: got %s, want sum", i, c)
		}
		now := at(float64(i))
		ticket, _ := l.Reserve(now, cost(10))
		l.Sent(now, ticket)
		w := limit.Window{Limit: 1000, Remaining: 900}
		l.Settle(now, ticket, limit.Answer{Call: limit.Call{Prompt: 10}, Report: limit.Report{Input: w, Output: w, Tokens: limit.Window{Limit: -1, Remaining: -1}}})
	}
	if c := l.Charging(); c.Form != limit.Split || c.Bare != limit.Split || !l.Moved() {
		t.Errorf("after 20 answers: got %s, want split", c)
	}
}

func TestChargingText(t *testing.T) {
	for _, c := range []limit.Charging{
		{},
		{Form: limit.Max, Bare: limit.Input, Unit: limit.Characters},
		{Form: limit.Split, Bare: limit.Split, Unit: limit.Tokens, Back: true},
		{Form: limit.Sum, Bare: limit.None, Back: true},
	} {
		if back, ok := limit.ParseCharging(c.String()); !ok || back != c {
			t.Errorf("%q: got %+v %v, want %+v", c, back, ok, c)
		}
	}
	for _, s := range []string{"", "most", "sum, input", "sum, most without a cap", "sum, by letters"} {
		if c, ok := limit.ParseCharging(s); ok {
			t.Errorf("%q: got %+v, want none", s, c)
		}
	}
}
