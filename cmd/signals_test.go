package cmd

import (
	"testing"
	"time"
)

func TestSecondStopIsNoEcho(t *testing.T) {
	start := time.Unix(1_790_000_000, 0)
	for name, test := range map[string]struct {
		after []time.Duration // of the signals that follow the first
		want  []bool
	}{
		"timeout(1) sends two":   {[]time.Duration{20 * time.Microsecond}, []bool{false}},
		"a second Ctrl-C":        {[]time.Duration{400 * time.Millisecond}, []bool{true}},
		"a terminal that closes": {[]time.Duration{time.Millisecond, 30 * time.Millisecond, 2 * time.Second}, []bool{false, false, true}},
	} {
		var s stops
		if s.again(start) {
			t.Errorf("%s: the first is taken for a second", name)
		}
		for i, after := range test.after {
			if got := s.again(start.Add(after)); got != test.want[i] {
				t.Errorf("%s: after %v got %t", name, after, got)
			}
		}
	}
}
