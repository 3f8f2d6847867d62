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
		{at: 1, cost: cost(1), why: "rpm", wantAt: 30.25},
		{at: 30.25, cost: cost(1)},
		{at: 31, cost: cost(1), why: "rpm", wantAt: 50.25},
	})
}
