package retry

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// TestBounds drives operations through random failures: counted attempts and
// own backoff stay within the policy, and no retry comes before its hint.
func TestBounds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	kinds := provider.Kinds()
	for range 2000 {
		p := Policy{MaxAttempts: 1 + rnd.IntN(10), MaxTotal: time.Duration(rnd.IntN(60)) * time.Second}.OrDefaults()
		var s State
		h, now := &Health{}, t0
		for step := range 500 {
			e := failed(kinds[rnd.IntN(len(kinds))])
			e.SentAt = now
			e.HasRetryAfter, e.RetryAfter = rnd.IntN(2) == 0, time.Duration(rnd.IntN(20))*time.Second
			if rnd.IntN(3) == 0 {
				h.Observe(now, nil)
			}
			h.Observe(now, e)
			d := p.Decide(now, rnd.Float64, &s, h, e, false)
			if s.Attempts > p.MaxAttempts || s.Backoff > p.MaxTotal {
				t.Fatalf("%+v: got %+v, past the policy", p, s)
			}
			if d.Action != Retry {
				break
			}
			if s.Attempts == p.MaxAttempts || d.NotBefore.Before(now) || e.HasRetryAfter && d.NotBefore.Before(now.Add(e.RetryAfter)) || d.NotBefore.Before(d.Pause) {
				t.Fatalf("step %d, %s with a hint of %v: got %+v with %+v", step, e.Kind, e.RetryAfter, d, s)
			}
			now = d.NotBefore
		}
	}
}

// TestStormSpreads: those refused together with one hint do not wake together.
func TestStormSpreads(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	h := healthy()
	var buckets [10]int
	const n = 5000
	for range n {
		e := hinted(provider.KindRateLimited, 10*time.Second)
		h.Observe(t0, e)
		d := Policy{}.Decide(t0, rnd.Float64, &State{}, h, e, false)
		after := d.NotBefore.Sub(t0) - 10*time.Second
		if after < 0 || after >= time.Second {
			t.Fatalf("got a wait of 10s and %v, want up to a tenth more", after)
		}
		buckets[after/(100*time.Millisecond)]++
	}
	for i, b := range buckets {
		if b > 2*n/len(buckets) {
			t.Errorf("got %d of %d in tenth %d, want at most twice the mean", b, n, i)
		}
	}
}
