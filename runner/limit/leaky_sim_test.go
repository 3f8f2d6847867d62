package limit_test

import (
	"fmt"
	"testing"

	"github.com/llmbatch/llmbatch/runner/limit"
)

// TestLeakyBucket: a server that lets ten requests a second through, as web servers' own limiters do, and at
// most a second's worth at once. It is refused from early on, when a minute has admitted next to nothing.
func TestLeakyBucket(t *testing.T) {
	const n, best, seeds = 300, 29, 20
	for _, tt := range []struct {
		burst            float64
		style            headers
		waits            bool // a burst is let through at the rate, not at once
		known            bool
		seconds, refused float64 // at most: the slowest run, and the mean share of calls
	}{
		{10, silent, false, true, 33, 0.01},
		{10, silent, true, true, 33, 0.01},
		{10, retryAfter, false, true, 33, 0.01},
		{10, retryAfter, true, true, 33, 0.01},
		{10, silent, false, false, 45, 0.02},
		{10, silent, true, false, 45, 0.02},
		{10, retryAfter, false, false, 45, 0.02},
		{10, retryAfter, true, false, 45, 0.02},
		{0, silent, false, true, 60, 0.04},
		{0, retryAfter, false, true, 60, 0.04},
		{0, silent, false, false, 180, 0.02},
		{0, retryAfter, false, false, 180, 0.02},
	} {
		t.Run(fmt.Sprintf("burst %g/%v/waits %v/given %v", tt.burst, tt.style, tt.waits, tt.known), func(t *testing.T) {
			t.Parallel()
			slowest, refused := 0.0, 0
			for seed := range uint64(seeds) {
				b := newTokenBucket(1+tt.burst, 600)
				s := &serverModel{requests: b, style: tt.style}
				if tt.waits {
					s.delay = func(now float64) float64 { return max(0, tt.burst-b.left(now)) * 60 / 600 }
				}
				var c limit.Config
				if tt.known {
					c.Limits = caps(600, 0)
				}
				cl := newClient(c, s, 0.3, seed, lengths(n, 1e5, 1))
				cl.run(3000)
				if cl.done != n {
					t.Fatalf("seed %d: got %d of %d done at %.1f s", seed, cl.done, n, cl.now)
				}
				slowest, refused = max(slowest, cl.last), refused+s.refused
			}
			share := float64(refused) / (n * seeds)
			t.Logf("at most %.1f s for %d, %.2f %% refused", slowest, best, 100*share)
			if slowest > tt.seconds || share > tt.refused {
				t.Errorf("got at most %.1f s and %.2f %% refused, want at most %g s and %g %%", slowest, 100*share, tt.seconds, 100*tt.refused)
			}
		})
	}
}
