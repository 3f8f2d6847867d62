package route

import (
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// step is one moment of a breaker: outcomes of calls granted at from, in tenths
// of a second, then what it says.
type step struct {
	at, from int // tenths of a second
	kinds    []provider.Kind
	allow    bool // ask for a grant, which must be given
	want     BreakerState
}

const (
	ok   = provider.KindNone
	down = provider.KindServer
	busy = provider.KindRateLimited
	lost = provider.KindTimeoutBeforeHeaders
	left = provider.KindCancelled
)

func times(n int, k provider.Kind) []provider.Kind {
	var all []provider.Kind
	for range n {
		all = append(all, k)
	}
	return all
}

func TestBreaker(t *testing.T) {
	for name, steps := range map[string][]step{
		"opens at the fifth failure of a new target": {
			{kinds: times(4, down), want: Closed}, {kinds: times(1, down), want: Open}, {at: 9, want: Open}, {at: 10, want: HalfOpen},
		},
		"failures of all route-wide classes count together": {
			{kinds: []provider.Kind{provider.KindConnect, provider.KindConnectTimeout, provider.KindOverloaded, provider.KindBadGateway, provider.KindLoading}, want: Open},
		},
		"after twenty successes it takes ten": {
			{kinds: times(40, ok), want: Closed}, {kinds: times(9, down), want: Closed}, {kinds: times(1, down), want: Open},
		},
		"a success starts the count over": {
			{kinds: times(4, down)}, {kinds: []provider.Kind{ok, down, down, down, down}, want: Closed}, {kinds: []provider.Kind{down}, want: Open},
		},
		"refusals and rejected requests show a server that lives": {
			{kinds: []provider.Kind{down, down, down, down, busy, down, down, down, down, provider.KindInvalid}, want: Closed}, {kinds: times(4, down), want: Closed},
		},
		"lost, cancelled and local ones show nothing": {
			{kinds: []provider.Kind{down, down, lost, left, provider.KindLocal, provider.KindBroken, down, down}, want: Closed}, {kinds: times(1, down), want: Open},
		},
		"timeouts alone do not open it": {{kinds: times(50, lost), want: Closed}},
		"half of the twenty is needed, too": {
			{kinds: []provider.Kind{ok, ok, ok, ok, ok, ok, ok, ok, down, down, down, down, down}, want: Closed}, {kinds: times(3, down), want: Open},
		},
		"one probe at a time, and its success closes": {
			{kinds: times(5, down), want: Open},
			{at: 10, allow: true, want: Open},
			{at: 15, from: 10, kinds: []provider.Kind{ok}, want: Closed},
			{at: 15, from: 15, kinds: times(4, down), want: Closed},
			{at: 15, from: 15, kinds: times(1, down), want: Open},
		},
		"a probe that is refused has reached a server": {
			{kinds: times(5, down), want: Open}, {at: 10, allow: true, want: Open}, {at: 11, from: 10, kinds: []provider.Kind{busy}, want: Closed},
		},
		"a probe that is lost has failed": {
			{kinds: times(5, down), want: Open}, {at: 10, allow: true, want: Open}, {at: 12, from: 10, kinds: []provider.Kind{lost}, want: Open}, {at: 31, want: Open}, {at: 32, want: HalfOpen},
		},
		"a probe that is cancelled leaves its place to the next": {
			{kinds: times(5, down), want: Open}, {at: 10, allow: true, want: Open}, {at: 11, from: 10, kinds: []provider.Kind{left}, want: HalfOpen}, {at: 11, allow: true, want: Open},
		},
		"late outcomes of calls from before change nothing": {
			{kinds: times(9, down), want: Open},
			{at: 5, kinds: []provider.Kind{ok}, want: Open},
			{at: 10, allow: true, want: Open},
			{at: 11, kinds: []provider.Kind{down, ok}, want: Open},
			{at: 12, from: 10, kinds: []provider.Kind{ok}, want: Closed},
			{at: 13, from: 0, kinds: times(9, down), want: Closed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b Breaker
			start := time.Unix(1_000_000, 0)
			when := func(tenths int) time.Time { return start.Add(time.Duration(tenths) * 100 * time.Millisecond) }
			for i, s := range steps {
				for _, k := range s.kinds {
					b.Observe(when(s.at), when(s.from), k)
				}
				if s.allow && !b.Allow(when(s.at)) {
					t.Fatalf("step %d: no grant", i)
				}
				if got := b.State(when(s.at)); got != s.want {
					t.Fatalf("step %d: got %d, want %d", i, got, s.want)
				}
				if s.want == Open && b.Allow(when(s.at)) {
					t.Fatalf("step %d: a grant while open", i)
				}
			}
		})
	}
}

func TestBreakerDoublesUpToHalfAMinute(t *testing.T) {
	var b Breaker
	now := time.Unix(1_000_000, 0)
	if !b.Until().IsZero() {
		t.Errorf("got %v for a closed breaker", b.Until())
	}
	for range 5 {
		b.Observe(now, now, down)
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if got := b.Until().Sub(now); got != want*time.Second {
			t.Fatalf("got %s, want %s", got, want*time.Second)
		}
		now = b.Until()
		if !b.Allow(now) || b.Allow(now) || !b.Until().IsZero() {
			t.Fatal("want one probe and no more")
		}
		b.Observe(now, now, down)
	}
}

// A probe can be made to go earlier, never later and never at once.
func TestBreakerHurries(t *testing.T) {
	for _, step := range []struct{ by, want time.Duration }{
		{500 * time.Millisecond, 500 * time.Millisecond}, {2 * time.Second, time.Second}, {0, time.Second}, {-time.Second, time.Second},
	} {
		now := time.Date(2026, 9, 10, 6, 0, 0, 0, time.UTC)
		var b Breaker
		b.Hurry(now, now.Add(time.Second)) // closed: it has no probe
		for range breakerRun {
			b.Observe(now, now, provider.KindConnect)
		}
		b.Hurry(now, now.Add(step.by))
		if got := b.Until().Sub(now); got != step.want {
			t.Errorf("by %v: got a probe after %v, want %v", step.by, got, step.want)
		}
	}
}
