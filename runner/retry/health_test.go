package retry

import (
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

func unsent() *provider.Error { return &provider.Error{Kind: provider.KindConnect} }

func TestOutageCostsNoAttempt(t *testing.T) {
	for name, e := range map[string]*provider.Error{"unreachable": unsent(), "overloaded": failed(provider.KindOverloaded)} {
		h, p := healthy(), Policy{}
		states := make([]State, 12)
		now, stopped := t0, false
		for !stopped {
			next := now.Add(time.Hour)
			for i := range states {
				h.Observe(now, e)
				d := p.Decide(now, half, &states[i], h, e, false)
				stopped = stopped || d.Action == Stop
				if d.Action == Retry && d.NotBefore.Before(next) {
					next = d.NotBefore
				}
			}
			if !stopped {
				now = next
			}
		}
		counted := 0
		for i := range states {
			counted += states[i].Attempts
		}
		if out := now.Sub(t0); out != 30*time.Minute {
			t.Errorf("%s: stopped after %v, want 30m", name, out)
		}
		// The first failures, until most of the last 20 had failed, may count.
		if counted > 12 {
			t.Errorf("%s: %d attempts counted, want at most one an operation", name, counted)
		}
	}
}

func TestDown(t *testing.T) {
	h := &Health{}
	h.Observe(t0, unsent())
	if !h.Down() {
		t.Error("nothing has ever connected: got up, want down")
	}
	h.Observe(t0, nil)
	h.Observe(t0, unsent())
	if h.Down() {
		t.Error("one failure after a success: got down, want up")
	}
	for range 10 {
		h.Observe(t0, failed(provider.KindServer))
	}
	if !h.Down() {
		t.Error("11 of the last 20 failed: got up, want down")
	}
	for range 10 {
		h.Observe(t0, nil)
	}
	if h.Down() {
		t.Error("half of the last 20 passed: got down, want up")
	}
}

func TestPauseIsShared(t *testing.T) {
	h, p := &Health{}, Policy{}.OrDefaults()
	first := h.pause(t0, half, p)
	if again := h.pause(t0.Add(time.Millisecond), half, p); !again.Equal(first) {
		t.Errorf("got a second pause until %v within the first until %v", again, first)
	}
	second := h.pause(first, half, p)
	if second.Sub(first) <= first.Sub(t0) {
		t.Errorf("got pauses of %v and %v, want the second longer", first.Sub(t0), second.Sub(first))
	}
}

// The last pause ends with the time that an outage may take, and a probe goes then,
// however many wait. What a server asks for is waited for all the same.
func TestLastProbeIsInTime(t *testing.T) {
	p := Policy{MaxOutage: 4 * time.Second}
	for _, step := range []struct {
		at, hint, pause time.Duration // since the first failure; hint 0 = none
		stop            bool
	}{
		{0, 0, 750 * time.Millisecond, false},
		{750 * time.Millisecond, 0, 2250 * time.Millisecond, false},
		{2250 * time.Millisecond, 0, 4 * time.Second, false},
		{2251 * time.Millisecond, 0, 4 * time.Second, false},
		{3 * time.Second, 5 * time.Second, 8250 * time.Millisecond, false},
		{4 * time.Second, 0, 0, true},
	} {
		h, s := &Health{}, State{}
		h.Observe(t0, unsent())
		for now := time.Duration(0); now < step.at; now = h.until.Sub(t0) {
			h.pause(t0.Add(now), half, p.OrDefaults())
		}
		e := unsent()
		if step.hint > 0 {
			e.RetryAfter, e.HasRetryAfter = step.hint, true
		}
		now := t0.Add(step.at)
		probe := !now.Before(h.until)
		h.Observe(now, e)
		d := p.Decide(now, half, &s, h, e, false)
		if step.stop {
			if d.Action != Stop {
				t.Errorf("after %v: got %s, want stop", step.at, d.Action)
			}
			continue
		}
		if got := d.Pause.Sub(t0); got != step.pause {
			t.Errorf("after %v: got a pause until %v, want %v", step.at, got, step.pause)
		}
		if probe && !d.NotBefore.Equal(d.Pause) {
			t.Errorf("after %v: the probe goes at %v, want %v", step.at, d.NotBefore.Sub(t0), step.pause)
		}
	}
}

func TestLoadingWaits(t *testing.T) {
	h, s := healthy(), State{}
	e := failed(provider.KindLoading)
	h.Observe(t0, e)
	if d := (Policy{}).Decide(t0, half, &s, h, e, false); d.Action != Retry || s.Attempts > 0 || d.Pause.IsZero() {
		t.Errorf("got %+v and %d attempts, want a retry that pauses the route and counts for nothing", d, s.Attempts)
	}
}
