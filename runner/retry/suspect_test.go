package retry

import (
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// An item is suspected where others pass between its failures, and not in an
// outage, however many items there are.
func TestSuspect(t *testing.T) {
	tests := []struct {
		name     string
		steps    string // F = it fails, C = it finds no server, S = another passes
		suspect  bool
		attempts int
	}{
		{"nothing ever passed", "FFFFFF", false, 6},
		{"an outage after successes", "SSSFFFFFF", false, 6},
		{"twice among others", "SFSFFF", false, 4},
		{"three times among others", "SFSSFSF", true, 3},
		{"no server among others", "SCSSCSC", false, 3},
		{"an outage for a suspect, too", "SFSSFSFCCCCCC", true, 5}, // down at the third
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var h Health
			var s State
			for i, step := range tt.steps {
				now := t0.Add(time.Duration(i) * time.Second)
				if step == 'S' {
					h.Observe(now, nil)
					continue
				}
				e := failed(provider.KindOverloaded)
				if step == 'C' {
					e = failed(provider.KindConnect)
				}
				h.Observe(now, e)
				Policy{}.Decide(now, half, &s, &h, e, false)
			}
			if got := s.Suspect(provider.KindOverloaded); got != tt.suspect || s.Attempts != tt.attempts {
				t.Errorf("got suspect %t after %d attempts, want %t after %d", got, s.Attempts, tt.suspect, tt.attempts)
			}
		})
	}
}
