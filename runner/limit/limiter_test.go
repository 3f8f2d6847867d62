package limit_test

import (
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return epoch.Add(time.Duration(seconds * float64(time.Second)))
}

func given(n int64) limit.Cap { return limit.Cap{N: n, Set: true} }

// step asks for a call and, if it is granted, sends and answers it at once.
type step struct {
	at     float64
	cost   limit.Cost
	wantAt float64 // 0 = granted
	why    limit.Reason
}

func walk(t *testing.T, l *limit.Limiter, steps []step) {
	t.Helper()
	for i, s := range steps {
		ticket, wait := l.Reserve(at(s.at), s.cost)
		if wait.Reason != s.why {
			t.Fatalf("step %d: got reason %q, want %q", i, wait.Reason, s.why)
		}
		if s.why != limit.Granted {
			if got := wait.Until.Sub(epoch).Seconds(); s.wantAt > 0 && (got < s.wantAt-0.0005 || got > s.wantAt+0.0205) {
				t.Fatalf("step %d: got until %.3f, want %.3f", i, got, s.wantAt)
			}
			continue
		}
		l.Sent(at(s.at), ticket)
		l.Settle(at(s.at), ticket, limit.Answer{})
	}
}

func cost(tokens int64) limit.Cost { return limit.Cost{Requests: 1, Tokens: tokens} }

func TestReserve(t *testing.T) {
	tests := []struct {
		name  string
		c     limit.Config
		steps []step
	}{
		{"requests leave after a minute and the guard", limit.Config{Limits: limit.Limits{RPM: given(2)}}, []step{
			{at: 0, cost: cost(1)},
			{at: 1, cost: cost(1)},
			{at: 2, cost: cost(1), why: "rpm", wantAt: 60.25},
			{at: 60.2, cost: cost(1), why: "rpm", wantAt: 60.25},
			{at: 60.25, cost: cost(1)},
			{at: 60.5, cost: cost(1), why: "rpm", wantAt: 61.25},
			{at: 61.25, cost: cost(1)},
		}},
		{"both budgets or neither", limit.Config{Limits: limit.Limits{RPM: given(3), TPM: given(100)}}, []step{
			{at: 0, cost: cost(60)},
			{at: 1, cost: cost(50), why: "tpm", wantAt: 60.25},
			{at: 1, cost: cost(40)},
			{at: 2, cost: cost(1), why: "tpm", wantAt: 60.25},
			{at: 2, cost: cost(0)},
			{at: 3, cost: cost(0), why: "rpm", wantAt: 60.25},
		}},
		{"a day", limit.Config{Limits: limit.Limits{RPM: given(100), RPD: given(2)}}, []step{
			{at: 0, cost: cost(1)},
			{at: 1, cost: cost(1)},
			{at: 4000, cost: cost(1), why: "rpd"},
			{at: 86000, cost: cost(1), why: "rpd"},
			{at: 86470, cost: cost(1)},
		}},
		{"output apart", limit.Config{Accounting: limit.Split, Limits: limit.Limits{ITPM: given(100), OTPM: given(10)}}, []step{
			{at: 0, cost: limit.Cost{Requests: 1, Tokens: 10, Output: 10}},
			{at: 1, cost: limit.Cost{Requests: 1, Tokens: 10, Output: 1}, why: "otpm", wantAt: 60.25},
			{at: 1, cost: limit.Cost{Requests: 1, Tokens: 90}},
		}},
		{"a burst of two at 60 a minute", limit.Config{Limits: limit.Limits{RPM: given(60), Burst: 2}}, []step{
			{at: 0, cost: cost(1)},
			{at: 0.3, cost: cost(1)},
			{at: 0.6, cost: cost(1), why: limit.AtEvenPace, wantAt: 1},
			{at: 1, cost: cost(1)},
			{at: 1.2, cost: cost(1), why: limit.AtEvenPace, wantAt: 2},
		}},
		{"no limit at all", limit.Config{Limits: limit.Limits{RPM: given(0), TPM: given(0)}}, []step{
			{at: 0, cost: cost(1 << 40)},
			{at: 0.1, cost: cost(1 << 40)},
			{at: 0.2, cost: cost(1 << 40)},
		}},
		{"a suspend is no burst", limit.Config{Limits: limit.Limits{RPM: given(2)}}, []step{
			{at: 0, cost: cost(1)},
			{at: 1, cost: cost(1)},
			{at: 900, cost: cost(1)},
			{at: 900.5, cost: cost(1)},
			{at: 901, cost: cost(1), why: "rpm", wantAt: 960.25},
		}},
		{"time runs backwards", limit.Config{Limits: limit.Limits{RPM: given(2)}}, []step{
			{at: 100, cost: cost(1)},
			{at: -86400, cost: cost(1), why: limit.AtSpread},
			{at: 101, cost: cost(1)},
			{at: 3, cost: cost(1), why: "rpm"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { walk(t, limit.New(tt.c, epoch), tt.steps) })
	}
}

func TestNever(t *testing.T) {
	l := limit.New(limit.Config{Limits: limit.Limits{TPM: given(100), TPD: given(1000)}}, epoch)
	if name, n, never := l.Never(cost(200)); name != "tpm" || n != 100 || !never {
		t.Errorf("got %q %d %v, want tpm 100 true", name, n, never)
	}
	if _, _, never := l.Never(cost(100)); never {
		t.Error("got never for a cost of the whole limit")
	}
}

// An unsent reservation is held for as long as it takes, and given back by Cancel.
func TestHeld(t *testing.T) {
	l := limit.New(limit.Config{Limits: limit.Limits{RPM: given(1)}}, epoch)
	ticket, _ := l.Reserve(at(0), cost(1))
	if _, w := l.Reserve(at(1000), cost(1)); w.Reason != "rpm" || !w.Far(at(1000)) {
		t.Errorf("got %+v, want to wait for the settling", w)
	}
	l.Cancel(at(1000), ticket)
	l.Cancel(at(1000), ticket)
	ticket, w := l.Reserve(at(1000.1), cost(1))
	if w.Reason != limit.Granted {
		t.Fatalf("got %+v after Cancel, want granted", w)
	}
	l.Settle(at(1010), ticket, limit.Answer{})
	if _, w := l.Reserve(at(1011), cost(1)); w.Until.Sub(at(1070.25)).Abs() > time.Millisecond {
		t.Errorf("got %v, want a minute after the settling", w.Until.Sub(epoch))
	}
}

func TestSeed(t *testing.T) {
	l := limit.New(limit.Config{Limits: limit.Limits{RPM: given(3)}}, epoch)
	for _, s := range []float64{-10, -70, -30} {
		l.Seed(at(s), cost(5))
	}
	walk(t, l, []step{
		{at: 0, cost: cost(1)},
		{at: 1, cost: cost(1), why: "rpm", wantAt: 31.25},
		{at: 31.25, cost: cost(1)},
		{at: 32, cost: cost(1), why: "rpm", wantAt: 51.25},
	})
}

// A server that has just started may take longer than the guard before it looks at its limits, so the
// first flight counts from its answers; later calls count from their sending.
func TestColdServer(t *testing.T) {
	l := limit.New(limit.Config{Limits: limit.Limits{RPM: given(1)}}, epoch)
	for i, want := range []float64{60.85, 121.25} {
		sent := 61 * float64(i)
		ticket, w := l.Reserve(at(sent), cost(1))
		if w.Reason != limit.Granted {
			t.Fatalf("call %d: got %+v, want granted", i, w)
		}
		l.Sent(at(sent), ticket)
		l.Settle(at(sent+0.6), ticket, limit.Answer{})
		if w := l.Peek(at(sent+1), cost(1)); w.Until.Sub(at(want)).Abs() > 20*time.Millisecond {
			t.Errorf("call %d: got until %v, want %v s", i, w.Until.Sub(epoch), want)
		}
	}
}

// State says what limits now, and how much of each budget is used.
func TestState(t *testing.T) {
	l := limit.New(limit.Config{Limits: limit.Limits{RPM: given(2), TPM: given(100)}}, epoch)
	walk(t, l, []step{{at: 0, cost: cost(30)}, {at: 1, cost: cost(40)}})
	s := l.State(at(2))
	if s.Requests != 2 || s.Tokens != 70 || s.Ceiling != 8 || s.Wire != 0 {
		t.Errorf("got %+v", s)
	}
	want := []limit.Use{{Name: "rpm", Used: 2, Limit: 2}, {Name: "tpm", Used: 70, Limit: 100}}
	if len(s.Uses) != 2 || s.Uses[0] != want[0] || s.Uses[1] != want[1] {
		t.Errorf("got uses %+v, want %+v", s.Uses, want)
	}
	if room := l.Room(at(2)); room.Requests != 0 || room.Tokens != 30 {
		t.Errorf("got room %+v, want no request and 30 tokens", room)
	}
}

// Burst without a known limit bounds a second.
func TestBurstOfUnknownLimit(t *testing.T) {
	walk(t, limit.New(limit.Config{Limits: limit.Limits{Burst: 2}}, epoch), []step{
		{at: 0, cost: cost(1)},
		{at: 0.1, cost: cost(1)},
		{at: 0.2, cost: cost(1), why: limit.AtEvenPace, wantAt: 0.5},
		{at: 0.5, cost: cost(1)},
	})
}

// What was used beyond the charge is charged; what was not used is given back only on request.
func TestUsed(t *testing.T) {
	for _, tt := range []struct {
		refund bool
		used   int64
		left   int64
	}{{false, 80, 20}, {false, 10, 50}, {true, 10, 90}} {
		l := limit.New(limit.Config{Refund: tt.refund, Limits: limit.Limits{TPM: given(100)}}, epoch)
		ticket, _ := l.Reserve(at(0), cost(50))
		l.Sent(at(0), ticket)
		l.Settle(at(1), ticket, limit.Answer{Used: cost(tt.used), Known: true})
		if got := l.Room(at(2)).Tokens; got != tt.left {
			t.Errorf("refund %v, used %d of 50: got room for %d, want %d", tt.refund, tt.used, got, tt.left)
		}
	}
}

func TestAccounting(t *testing.T) {
	for _, tt := range []struct {
		a    limit.Accounting
		want limit.Cost
	}{
		{limit.Sum, limit.Cost{Requests: 1, Tokens: 130}},
		{limit.Max, limit.Cost{Requests: 1, Tokens: 100}},
		{limit.Input, limit.Cost{Requests: 1, Tokens: 30}},
		{limit.Split, limit.Cost{Requests: 1, Tokens: 30, Output: 100}},
		{limit.None, limit.Cost{Requests: 1}},
	} {
		if got := tt.a.Charge(30, 100); got != tt.want {
			t.Errorf("%v: got %+v, want %+v", tt.a, got, tt.want)
		}
		if back, ok := limit.ParseAccounting(tt.a.String()); back != tt.a || !ok {
			t.Errorf("%v: got %v %v back from its name", tt.a, back, ok)
		}
	}
	if _, ok := limit.ParseAccounting("most"); ok {
		t.Error("got an accounting named most")
	}
}
