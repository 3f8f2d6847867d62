package retry

import (
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

var t0 = time.Date(2026, 9, 10, 6, 0, 0, 0, time.UTC)

func half() float64 { return 0.5 }

func failed(k provider.Kind) *provider.Error {
	return &provider.Error{Provider: "p", Kind: k, StatusCode: 400, Sent: true, SentAt: t0.Add(-time.Second)}
}

func hinted(k provider.Kind, d time.Duration) *provider.Error {
	e := failed(k)
	e.RetryAfter, e.HasRetryAfter = d, true
	return e
}

// TestDecideOnce covers the first failure of each class on a healthy route.
func TestDecideOnce(t *testing.T) {
	want := map[provider.Kind]Action{
		provider.KindDailyLimit: Park, provider.KindCancelled: Leave,
		provider.KindRequestTooLarge: DeadLetter, provider.KindRequestTooDear: DeadLetter, provider.KindContextLength: DeadLetter,
		provider.KindContentPolicy: DeadLetter, provider.KindInvalid: DeadLetter, provider.KindUnsupportedParam: DeadLetter,
		provider.KindBodyTooLarge: DeadLetter, provider.KindResponseTooLarge: DeadLetter, provider.KindRedirectRefused: DeadLetter,
		provider.KindDependency: DeadLetter, provider.KindOther: DeadLetter,
		provider.KindQuotaExhausted: Stop, provider.KindNoQuota: Stop, provider.KindAuth: Stop, provider.KindRegion: Stop,
		provider.KindModelNotFound: Stop, provider.KindTLS: Stop,
	}
	for _, k := range provider.Kinds() {
		var s State
		h := healthy()
		e := failed(k)
		e.Sent = k != provider.KindCancelled && !notSent(k)
		h.Observe(t0, e)
		d := Policy{}.Decide(t0, half, &s, h, e, false)
		if d.Action != want[k] {
			t.Errorf("%s: got %s, want %s", k, d.Action, want[k])
		}
		if d.Action == Retry && !d.NotBefore.After(t0) {
			t.Errorf("%s: retried at %v, want later than now", k, d.NotBefore)
		}
		if Advice(k) == "" {
			t.Errorf("%s: no advice", k)
		}
	}
}

func healthy() *Health {
	h := &Health{}
	for range recent {
		h.Observe(t0, nil)
	}
	return h
}

func TestBackoff(t *testing.T) {
	tests := []struct {
		name    string
		e       *provider.Error
		rnd     float64
		want    time.Duration
		counts  bool
		earlier int
	}{
		{"first, full jitter", failed(provider.KindConflict), 0.5, 250 * time.Millisecond, true, 0},
		{"fourth doubles", failed(provider.KindConflict), 0.5, 2 * time.Second, true, 3},
		{"capped", failed(provider.KindConflict), 0.999999999, 30 * time.Second, true, 6},
		{"hint is a floor, a tenth spread", hinted(provider.KindRateLimited, 10*time.Second), 0.5, 10500 * time.Millisecond, false, 0},
		{"hint of 0: own backoff, counted", hinted(provider.KindRateLimited, 0), 0.5, 250 * time.Millisecond, true, 0},
		{"no hint: counted", failed(provider.KindRateLimited), 0.5, 250 * time.Millisecond, true, 0},
		{"unknown waits from its own sending", failed(provider.KindBroken), 0, 4 * time.Second, true, 0},
		{"server error with a hint", hinted(provider.KindOverloaded, 2*time.Second), 0, 2 * time.Second, true, 0},
		{"descriptors", failed(provider.KindLocal), 0.5, 250 * time.Millisecond, false, 0},
	}
	for _, tt := range tests {
		s := State{Attempts: tt.earlier}
		h := healthy()
		h.Observe(t0, tt.e)
		d := Policy{}.Decide(t0, func() float64 { return tt.rnd }, &s, h, tt.e, false)
		if got := d.NotBefore.Sub(t0); d.Action != Retry || got.Round(time.Millisecond) != tt.want || (s.Attempts > tt.earlier) != tt.counts {
			t.Errorf("%s: got %s after %v, counts %t; want retry after %v, counts %t", tt.name, d.Action, got, s.Attempts > tt.earlier, tt.want, tt.counts)
		}
	}
}

func TestRefusalPausesRoute(t *testing.T) {
	h, s := healthy(), State{}
	e := hinted(provider.KindRateLimited, 10*time.Second)
	h.Observe(t0, e)
	d := Policy{}.Decide(t0, half, &s, h, e, false)
	if !d.Pause.Equal(t0.Add(10 * time.Second)) {
		t.Errorf("got a pause until %v, want the hint without spread", d.Pause)
	}
	// Refusals with a reset never spend attempts; a route that only refuses stops.
	now := t0
	for i := range 100 {
		h.Observe(now, e)
		if d = (Policy{}).Decide(now, half, &s, h, e, false); d.Action != Retry {
			break
		}
		if s.Attempts > 0 {
			t.Fatalf("refusal %d counted", i)
		}
		now = now.Add(30 * time.Second)
	}
	if d.Action != Stop || now.Sub(t0) != 30*time.Minute {
		t.Errorf("got %s after %v, want stop after 30m", d.Action, now.Sub(t0))
	}
}

// TestEndlessWait: no moment is made up of a wait that ends never.
func TestEndlessWait(t *testing.T) {
	for d, endless := range map[time.Duration]bool{10 * 365 * 24 * time.Hour: true, 365 * 24 * time.Hour: false} {
		got := Policy{}.Decide(t0, half, &State{}, healthy(), hinted(provider.KindRateLimited, d), false)
		if got.Action != Park || got.NotBefore.IsZero() != endless || strings.Contains(got.Reason, "sensible") != endless {
			t.Errorf("%v: got %s until %v, %q", d, got.Action, got.NotBefore, got.Reason)
		}
	}
}

func TestParkOnLongWait(t *testing.T) {
	for _, k := range []provider.Kind{provider.KindRateLimited, provider.KindOverloaded} {
		s, h := State{}, healthy()
		d := Policy{}.Decide(t0, half, &s, h, hinted(k, 3*time.Hour), false)
		if d.Action != Park || !d.NotBefore.Equal(t0.Add(3*time.Hour)) {
			t.Errorf("%s: got %s until %v, want parked for 3h", k, d.Action, d.NotBefore)
		}
		if d = (Policy{}).Decide(t0, half, &s, h, hinted(k, 15*time.Minute), false); d.Action != Retry {
			t.Errorf("%s: a wait of 15m: got %s, want retry", k, d.Action)
		}
	}
	e := failed(provider.KindDailyLimit)
	e.Reset = t0.Add(18 * time.Hour)
	if d := (Policy{}).Decide(t0, half, &State{}, healthy(), e, false); d.Action != Park || !d.NotBefore.Equal(e.Reset) {
		t.Errorf("daily limit: got %s until %v, want parked until the reset", d.Action, d.NotBefore)
	}
	if d := (Policy{}).Decide(t0, half, &State{}, healthy(), hinted(provider.KindQuotaExhausted, time.Second), false); d.Action != Stop {
		t.Errorf("spent quota with Retry-After: got %s, want stop", d.Action)
	}
}

// attempts runs failures of one class until the policy gives up.
func attempts(p Policy, h *Health, e *provider.Error) (n int, d Decision) {
	s, now := State{}, t0
	for n = 1; n < 1000; n++ {
		e.SentAt = now
		h.Observe(now, nil) // others pass meanwhile
		h.Observe(now, e)
		if d = p.Decide(now, half, &s, h, e, false); d.Action != Retry {
			return n, d
		}
		now = d.NotBefore
	}
	return n, d
}

func TestGivingUp(t *testing.T) {
	tests := []struct {
		name string
		p    Policy
		e    *provider.Error
		want int
		kind provider.Kind
	}{
		{"conflict", Policy{}, failed(provider.KindConflict), 8, provider.KindConflict},
		{"max attempts", Policy{MaxAttempts: 3}, failed(provider.KindConflict), 3, provider.KindConflict},
		{"own backoff spent", Policy{MaxAttempts: 100, MaxTotal: 8 * time.Second}, failed(provider.KindConflict), 6, provider.KindConflict},
		{"unknown", Policy{}, failed(provider.KindTimeoutBeforeHeaders), 8, provider.KindOutcomeUnknown},
		{"identical server errors", Policy{}, failed(provider.KindServer), 4, provider.KindServer},
		{"empty answers", Policy{}, failed(provider.KindEmptyAnswer), 3, provider.KindEmptyAnswer},
		{"malformed tool call", Policy{}, failed(provider.KindToolCallMalformed), 2, provider.KindToolCallMalformed},
		{"refusals without a reset", Policy{MaxAttempts: 4}, failed(provider.KindRateLimited), 4, provider.KindRateLimited},
	}
	for _, tt := range tests {
		n, d := attempts(tt.p, healthy(), tt.e)
		if n != tt.want || d.Action != DeadLetter || d.Kind != tt.kind {
			t.Errorf("%s: got %s as %s after %d attempts, want a dead letter as %s after %d", tt.name, d.Action, d.Kind, n, tt.kind, tt.want)
		}
	}
}

func TestServerErrorsThatDiffer(t *testing.T) {
	s, h := State{}, healthy()
	for i := range 6 {
		e := failed(provider.KindServer)
		e.Message = []string{"a", "b"}[i%2]
		if d := (Policy{}).Decide(t0, half, &s, h, e, false); d.Action != Retry {
			t.Fatalf("attempt %d: got %s, want retry", i+1, d.Action)
		}
	}
}

func TestRecheck(t *testing.T) {
	auth, invalid := failed(provider.KindAuth), failed(provider.KindInvalid)
	auth.Recheck, invalid.Recheck = true, true
	if d := (Policy{}).Decide(t0, half, &State{}, &Health{}, auth, false); d.Action != Stop {
		t.Errorf("401 ahead of any success: got %s, want stop", d.Action)
	}
	for _, e := range []*provider.Error{auth, invalid} {
		s, h := State{}, healthy()
		first := Policy{}.Decide(t0, half, &s, h, e, false)
		second := Policy{}.Decide(t0, half, &s, h, e, false)
		if first.Action != Retry || second.Action == Retry {
			t.Errorf("%s: got %s then %s, want one retry", e.Kind, first.Action, second.Action)
		}
	}
}

func TestUnknownAndNever(t *testing.T) {
	cancelled := failed(provider.KindCancelled)
	cancelled.StatusCode = 0
	tests := []struct {
		name  string
		p     Policy
		e     *provider.Error
		never bool
		want  Action
	}{
		{"hold", Policy{HoldUnknown: true}, failed(provider.KindBroken), false, Hold},
		{"retry", Policy{}, failed(provider.KindBroken), false, Retry},
		{"never, lost", Policy{}, failed(provider.KindBroken), true, Hold},
		{"never, server error", Policy{}, failed(provider.KindServer), true, Hold},
		{"never, empty", Policy{}, failed(provider.KindEmptyAnswer), true, Hold},
		{"never, refused at the door", Policy{}, hinted(provider.KindRateLimited, time.Second), true, Retry},
		{"never, nothing sent", Policy{}, &provider.Error{Kind: provider.KindConnect}, true, Retry},
		{"never, wrong", Policy{}, failed(provider.KindInvalid), true, DeadLetter},
		{"cancelled in flight", Policy{}, cancelled, false, Hold},
		{"given up by the server", Policy{}, &provider.Error{Kind: provider.KindCancelled, StatusCode: 499, Sent: true}, false, Retry},
		{"given up by the server, never twice", Policy{}, &provider.Error{Kind: provider.KindCancelled, StatusCode: 499, Sent: true}, true, Hold},
		{"cancelled before sending", Policy{}, &provider.Error{Kind: provider.KindCancelled}, false, Leave},
	}
	for _, tt := range tests {
		d := tt.p.Decide(t0, half, &State{}, healthy(), tt.e, tt.never)
		if d.Action != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, d.Action, tt.want)
		}
	}
}

func TestBadTemplateStops(t *testing.T) {
	h, p := &Health{}, Policy{}
	for i := range alikeItems {
		e := failed(provider.KindInvalid)
		h.Observe(t0, e)
		want := DeadLetter
		if i == alikeItems-1 {
			want = Stop
		}
		if d := p.Decide(t0, half, &State{}, h, e, false); d.Action != want {
			t.Fatalf("item %d: got %s, want %s", i+1, d.Action, want)
		}
	}
	h = &Health{}
	h.Observe(t0, nil)
	for range 2 * alikeItems {
		e := failed(provider.KindInvalid)
		h.Observe(t0, e)
		if d := p.Decide(t0, half, &State{}, h, e, false); d.Action != DeadLetter {
			t.Fatalf("after a success: got %s, want dead letter", d.Action)
		}
	}
}

func TestTransient(t *testing.T) {
	for k, want := range map[provider.Kind]bool{
		provider.KindNone: false, provider.KindServer: true, provider.KindRateLimited: true, provider.KindOutcomeUnknown: true,
		provider.KindInvalid: false, provider.KindContextLength: false, provider.KindEmptyAnswer: false, provider.KindTruncated: true,
		provider.KindContentPolicy: false, provider.KindResponseTooLarge: false, provider.KindAuth: true,
	} {
		if Transient(k) != want {
			t.Errorf("%s: got %t, want %t", k, !want, want)
		}
	}
}

func TestAdviceWithConfigFile(t *testing.T) {
	for k, want := range map[provider.Kind]string{
		provider.KindConnect:         "check base_url in the config file, the network and the proxy variables, then run again",
		provider.KindModelNotFound:   "check the model, and that base_url in the config file ends as the provider says (often in /v1)",
		provider.KindNoQuota:         "the plan has no quota for this model: choose another model or plan",
		provider.KindRedirectRefused: "give the address that the redirect leads to as base_url in the config file",
		provider.KindAuth:            "check the key and what it may do, and that it belongs to this provider",
	} {
		if got := Configured(k); got != want {
			t.Errorf("%s: got %q, want %q", k, got, want)
		}
	}
}
