package runner

import (
	"testing"
	"time"
)

func TestCount(t *testing.T) {
	for _, test := range []struct {
		n    int64
		want string
	}{{0, "0 calls"}, {1, "1 call"}, {2, "2 calls"}, {999, "999 calls"}, {1000, "1,000 calls"}, {-1000000, "-1,000,000 calls"}, {-100, "-100 calls"}} {
		if got := Count(test.n, "call"); got != test.want {
			t.Errorf("%d: got %q, want %q", test.n, got, test.want)
		}
	}
}

func TestClockHasADateWhenFarOff(t *testing.T) {
	now := time.Date(2026, 3, 1, 20, 30, 0, 0, time.UTC)
	for after, want := range map[time.Duration]string{
		time.Minute:    "20:31:00",
		6 * time.Hour:  "02:30:00",
		26 * time.Hour: "2026-03-02 22:30:00",
	} {
		if got := Clock(now, now.Add(after)); got != want {
			t.Errorf("in %v: got %q, want %q", after, got, want)
		}
	}
}
