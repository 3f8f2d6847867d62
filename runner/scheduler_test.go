package runner

import (
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// stage is a scheduler with the time in the test's hand.
type stage struct {
	*testing.T
	*scheduler
	now time.Time
}

func newStage(t *testing.T, edit ...func(*Config)) *stage {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := &Config{Targets: make([]Target, 1), Policy: retry.Policy{}.OrDefaults()}
	for _, e := range edit {
		e(c)
	}
	return &stage{t, newScheduler(c, &plan{}, now), now}
}

// job is an operation with a prompt and a cap of so many tokens.
func (s *stage) job(id string, prompt, output int) *job {
	j := &job{tokens: estimate.Tokens{Prompt: prompt, MaxOutput: output}}
	j.op.ID, j.rec.API = id, "/chat/completions"
	return j
}

func (s *stage) enter(jobs ...*job) {
	s.Helper()
	for _, j := range jobs {
		if dead := s.push(s.now, j); dead != nil {
			s.Errorf("%s is refused: %+v", j.op.ID, dead)
		}
	}
}

// grants takes what may go now, sent at once.
func (s *stage) grants() (ids []string, jobs []*job, wake time.Time) {
	for {
		j, at := s.next(s.now)
		if j == nil {
			return ids, jobs, at
		}
		s.sent(s.now, j)
		ids, jobs = append(ids, j.op.ID), append(jobs, j)
	}
}

// one grants exactly one job.
func (s *stage) one(id string) *job {
	s.Helper()
	got, jobs, _ := s.grants()
	if len(got) != 1 || got[0] != id {
		s.Fatalf("got grants %q, want %q alone", got, id)
	}
	return jobs[0]
}

func (s *stage) answer(j *job, in, out int64) {
	s.answered(s.now, j, &provider.Response{Usage: provider.Usage{Input: in, Output: out, Known: true}, Rate: provider.NoRate(), Done: s.now})
	s.stored(j, verdict{status: checkpoint.Completed})
}

func (s *stage) fail(j *job, e *provider.Error) verdict {
	e.Rate = provider.NoRate()
	v := s.failed(s.now, j, e)
	j.op.Attempts = append(j.op.Attempts, checkpoint.Attempt{At: s.now, Sent: e.Sent})
	j.op.Status = v.status
	s.stored(j, v)
	return v
}

func alone(c *Config) { c.Targets[0].Limits.Concurrency = 1 }

func TestSchedulerRetriesAfterBackoff(t *testing.T) {
	s := newStage(t, alone)
	s.enter(s.job("a", 10, 10))
	j := s.one("a")
	v := s.fail(j, &provider.Error{Kind: provider.KindServer, StatusCode: 500, Sent: true, SentAt: s.now, Phase: provider.PhaseBody})
	if !v.again || v.status != checkpoint.Delayed || v.notBefore.Sub(s.now) > 500*time.Millisecond {
		t.Fatalf("got %+v, want again within the base of 0.5 s", v)
	}
	if s.idle() {
		t.Error("idle while an operation waits for its retry")
	}
	if _, _, wake := s.grants(); !wake.Equal(v.notBefore) {
		t.Errorf("wakes at %v, want %v", wake, v.notBefore)
	}
	s.now = v.notBefore
	s.answer(s.one("a"), 10, 10)
	if !s.idle() || s.count.Retries != 1 || s.count.Completed != 1 || s.count.Calls != 2 {
		t.Errorf("got idle %t, counts %+v", s.idle(), s.count)
	}
}

func TestSchedulerUnknownOutcome(t *testing.T) {
	lost := func(s *stage) *provider.Error {
		return &provider.Error{Kind: provider.KindBroken, Phase: provider.PhaseHeaders, Sent: true, SentAt: s.now}
	}
	s := newStage(t, alone)
	s.enter(s.job("a", 10, 10))
	v := s.fail(s.one("a"), lost(s))
	if v.status != checkpoint.Unknown || !v.again || v.notBefore.Sub(s.now) < retry.ReconcileDelay {
		t.Errorf("got %+v, want unknown and again after %v", v, retry.ReconcileDelay)
	}
	if s.count.Unknowns != 1 || s.count.Unknown[0] != "a" || s.unsettled != 1 {
		t.Errorf("got counts %+v, %d unsettled", s.count, s.unsettled)
	}
	s.now = v.notBefore
	s.answer(s.one("a"), 10, 10)
	if s.unsettled != 0 || s.count.Held != 0 {
		t.Errorf("answered: got %d unsettled, %d held; want 0, 0", s.unsettled, s.count.Held)
	}

	for _, hold := range []func(*Config, *job){
		func(c *Config, _ *job) { c.Policy.HoldUnknown = true },
		func(_ *Config, j *job) { j.rec.Never = true },
	} {
		j := s.job("a", 10, 10)
		s = newStage(t, func(c *Config) { hold(c, j) })
		s.enter(j)
		v := s.fail(s.one("a"), lost(s))
		if v.status != checkpoint.Unknown || v.again || s.count.Held != 1 || !s.idle() {
			t.Errorf("held: got %+v, %d held, idle %t", v, s.count.Held, s.idle())
		}
	}
}

func TestSchedulerStops(t *testing.T) {
	tests := []struct {
		name string
		err  provider.Error
		kind StopKind
		in   time.Duration // until when it says to come back; 0 = it does not
	}{
		{"key", provider.Error{Kind: provider.KindAuth, StatusCode: 401}, StopProvider, 0},
		{"quota", provider.Error{Kind: provider.KindQuotaExhausted, StatusCode: 429, HasRetryAfter: true, RetryAfter: time.Second}, StopProvider, 0},
		{"day", provider.Error{Kind: provider.KindDailyLimit, StatusCode: 429, HasRetryAfter: true, RetryAfter: 7 * time.Hour}, StopBound, 7 * time.Hour},
		{"long wait", provider.Error{Kind: provider.KindRateLimited, StatusCode: 429, HasRetryAfter: true, RetryAfter: 16 * time.Minute}, StopBound, 16 * time.Minute},
	}
	for _, test := range tests {
		s := newStage(t, alone)
		s.enter(s.job("a", 10, 10), s.job("b", 10, 10))
		err := test.err
		err.Sent, err.Phase = true, provider.PhaseBody
		v := s.fail(s.one("a"), &err)
		if v.status != checkpoint.Delayed || v.again || s.stop == nil || s.stop.Kind != test.kind || s.stop.Hint == "" {
			t.Errorf("%s: got %+v, stop %+v; want kind %d", test.name, v, s.stop, test.kind)
			continue
		}
		if until := s.stop.Until; test.in == 0 != until.IsZero() || test.in > 0 && until.Sub(s.now) != test.in {
			t.Errorf("%s: come back at %v, want after %v", test.name, until, test.in)
		}
		if j, _ := s.next(s.now.Add(48 * time.Hour)); j != nil || !s.idle() || s.wants() {
			t.Errorf("%s: sends, waits or wants more after the stop", test.name)
		}
	}
}

func TestSchedulerLimits(t *testing.T) {
	s := newStage(t, caps(3, 1000))
	s.enter(s.job("a", 400, 100), s.job("b", 400, 100), s.job("c", 400, 100))
	_, jobs, _ := s.grants()
	for ; len(jobs) < 2; s.now = s.now.Add(10 * time.Millisecond) {
		_, more, _ := s.grants()
		jobs = append(jobs, more...)
	}
	for _, j := range jobs {
		s.answer(j, 400, 100)
	}
	got, _, wake := s.grants()
	if len(got) != 0 || wake.Sub(s.now) < 50*time.Second || wake.Sub(s.now) > 62*time.Second || s.wait.Reason != "tpm" {
		t.Errorf("got %q, wake in %v for %q; want none for a minute for tpm", got, wake.Sub(s.now), s.wait.Reason)
	}
	s.now = wake
	s.one("c")
}

func TestSchedulerRefusesWhatNeverFits(t *testing.T) {
	tests := []struct {
		accounting     limit.Accounting
		prompt, output int
		class          string
	}{
		{limit.Sum, 600, 401, "request_exceeds_tpm"},
		{limit.Sum, 600, 400, ""},
		{limit.Max, 600, 1000, ""},
		{limit.Max, 1001, 0, "request_exceeds_tpm"},
		{limit.Input, 1000, 9999, ""},
		{limit.None, 99999, 99999, ""},
		{limit.Sum, 1000, 0, ""}, // what is reserved without a cap is learned
	}
	for _, test := range tests {
		s := newStage(t, caps(60, 1000), func(c *Config) { c.Targets[0].Accounting = test.accounting })
		j := s.job("a", test.prompt, test.output)
		dead := s.push(s.now, j)
		if class := ""; dead != nil {
			if class = dead.class; class != test.class {
				t.Errorf("%v %d+%d: got class %q, want %q", test.accounting, test.prompt, test.output, class, test.class)
			}
			continue
		}
		if test.class != "" {
			t.Errorf("%v %d+%d: taken, want class %q", test.accounting, test.prompt, test.output, test.class)
		}
		s.one("a")
	}
}

func TestSchedulerStopsAtTheCostBound(t *testing.T) {
	s := newStage(t, alone, func(c *Config) {
		c.Targets[0].Price, c.MaxCost = money.Price{Input: 1, Output: 1, Known: true}, 50
	})
	s.enter(s.job("a", 20, 10), s.job("b", 20, 10))
	j := s.one("a")
	if s.stop != nil {
		t.Fatal("stopped while a call may leave something over")
	}
	s.answer(j, 20, 1)
	s.now = s.now.Add(time.Second)
	if got, _, _ := s.grants(); len(got) != 0 || s.stop == nil || s.stop.Kind != StopBound {
		t.Errorf("got %q, stop %+v; want the cost bound's: 21 spent, 30 more could pass 50", got, s.stop)
	}
}

// The cap that a provider is sent where a request names none is what is
// reserved, and what the call can cost.
func TestSchedulerReservesTheCapThatIsSent(t *testing.T) {
	for _, test := range []struct {
		output   int
		reserved int64
		uncapped int64
	}{{0, 4096, 0}, {50, 50, 0}} {
		s := newStage(t, alone, func(c *Config) {
			c.Targets[0].DefaultCap, c.Targets[0].Price = 4096, money.Price{Output: 1, Known: true}
		})
		s.enter(s.job("a", 100, test.output))
		j := s.one("a")
		if j.reserved != test.reserved || s.money.open != money.Amount(test.reserved) || s.count.Uncapped != test.uncapped {
			t.Errorf("cap %d: got %d reserved, %d in the bound, %d uncapped calls, want %d, the same, %d",
				test.output, j.reserved, s.money.open, s.count.Uncapped, test.reserved, test.uncapped)
		}
	}
}

func TestSchedulerServesPriorities(t *testing.T) {
	s := newStage(t, alone)
	for id, p := range map[string]input.Priority{"low": input.Low, "high": input.High, "normal": input.Normal} {
		j := s.job(id, 10, 10)
		j.rec.Priority = p
		s.enter(j)
	}
	for _, id := range []string{"high", "normal", "low"} {
		s.answer(s.one(id), 10, 10)
		s.now = s.now.Add(time.Second)
	}
}

func TestSchedulerReservesWhatItLearned(t *testing.T) {
	reserved := func(s *stage, output int, api string) int64 {
		j := s.job("x", 10, output)
		j.rec.API = api
		s.lane(j).charge(j)
		return j.reserved
	}
	for _, learned := range []bool{false, true} {
		s := newStage(t, func(c *Config) { c.Learned = learned })
		for range 20 {
			s.lanes[0].outputs.add(30)
		}
		under := int64(500)
		if learned {
			under = 30
		}
		for _, test := range []struct {
			output int
			api    string
			want   int64
		}{{500, "/chat/completions", under}, {20, "/chat/completions", 20}, {0, "/chat/completions", 30}, {0, "/embeddings", 0}} {
			if got := reserved(s, test.output, test.api); got != test.want {
				t.Errorf("learned %t, cap %d of %s: got %d reserved, want %d", learned, test.output, test.api, got, test.want)
			}
		}
	}
}

// TestEndlessReset: what a server names as the end of a spent limit ends the
// run, and if it is no sensible time, none is told.
func TestEndlessReset(t *testing.T) {
	for reset, told := range map[time.Duration]bool{time.Hour: true, 10 * 365 * 24 * time.Hour: false} {
		s := newStage(t)
		s.enter(s.job("a", 10, 10), s.job("b", 10, 10))
		j := s.one("a")
		rate := provider.NoRate()
		rate.Requests = provider.Window{Limit: 10, Remaining: 0, ResetAfter: reset}
		s.answered(s.now, j, &provider.Response{Usage: provider.Usage{Input: 10, Output: 10, Known: true}, Rate: rate, Done: s.now})
		s.stored(j, verdict{status: checkpoint.Completed})
		if got, _, _ := s.grants(); len(got) > 0 {
			t.Errorf("%v: got %q granted, want the wait", reset, got)
		}
		if s.stop == nil || s.stop.Kind != StopBound || s.stop.Until.IsZero() == told {
			t.Errorf("%v: got stop %+v, want one with a moment: %t", reset, s.stop, told)
		}
	}
}

// Attempts of which no byte left are no calls, neither for the summary nor for
// those who watch; what goes out after them is a call, and the retry of those
// alone that went out ahead of them.
func TestOnlyWhatIsSentIsCounted(t *testing.T) {
	s := newStage(t, alone)
	told, reserved := map[Transition]int64{}, int64(0)
	s.watch = func(e Event) {
		told[e.What]++
		if e.What == Sent {
			reserved += e.Reserved
		}
	}
	s.enter(s.job("a", 10, 10))
	next := func() *job {
		for range 10 {
			j, wake := s.next(s.now)
			if j != nil {
				return j
			}
			s.now = wake
		}
		t.Fatal("nothing is granted")
		return nil
	}
	refused := func() *provider.Error {
		return &provider.Error{Kind: provider.KindConnect, Phase: provider.PhaseConnect}
	}
	s.fail(next(), refused())
	s.fail(next(), &provider.Error{Kind: provider.KindServer, StatusCode: 500, Sent: true, Phase: provider.PhaseBody}) // no client told of the sending
	s.fail(next(), refused())
	j := next()
	s.sent(s.now, j)
	s.answer(j, 10, 10)
	s.enter(s.job("b", 10, 10))
	s.lost(next()) // its row could not be stored
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"calls", s.count.Calls, 2},
		{"sent", told[Sent], 2},
		{"retries", s.count.Retries, 1},
		{"retried", told[Retried], 1},
		{"unreached", s.count.Unreached, 2},
		{"tokens reserved, as told", reserved, s.count.TokensReserved},
		{"granted", told[Granted], 5},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, c.got, c.want)
		}
	}
	if reserved == 0 {
		t.Error("got no tokens reserved")
	}
}

// A call for which this machine had no descriptor lowers the ceiling, but takes
// nothing from the limits.
func TestNoDescriptorTakesNothingFromTheLimits(t *testing.T) {
	s := newStage(t, func(c *Config) {
		c.Targets[0].Limits = limit.Limits{RPM: limit.Cap{N: 10, Set: true}, RPD: limit.Cap{N: 10, Set: true}}
	})
	s.enter(s.job("a", 10, 10))
	l := s.lanes[0].limiter
	before := l.State(s.now).Ceiling
	j, _ := s.next(s.now)
	if j == nil {
		t.Fatal("nothing is granted")
	}
	s.fail(j, &provider.Error{Kind: provider.KindLocal, Phase: provider.PhaseConnect})
	st := l.State(s.now)
	if st.Requests != 0 || st.Tokens != 0 || st.Wire != 0 || st.Ceiling >= before {
		t.Errorf("got %+v, want nothing that counts, and a ceiling below %d", st, before)
	}
	for _, u := range st.Uses {
		if u.Used != 0 {
			t.Errorf("got %+v, want nothing used", u)
		}
	}
}
