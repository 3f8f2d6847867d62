package runner

import (
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
)

func TestReplay(t *testing.T) {
	given := func(n int64) limit.Cap { return limit.Cap{N: n, Set: true} }
	capped := Replay{Calls: 560, Prompt: 130, Cap: 1000, Output: 120, Latency: time.Second, Limits: limit.Limits{RPM: given(500), TPM: given(120_000)}}
	tests := []struct {
		name     string
		edit     func(*Replay)
		from, to time.Duration
	}{
		// 106 calls fit a minute: five whole minutes pass before the last 30.
		{"as it was", func(*Replay) {}, 5 * time.Minute, 5*time.Minute + 15*time.Second},
		{"twice the tokens", func(p *Replay) { p.Limits.TPM.N *= 2 }, 2 * time.Minute, 2*time.Minute + 15*time.Second},
		{"a cap near the outputs", func(p *Replay) { p.Cap = 150 }, time.Minute, time.Minute + 15*time.Second},
		{"learned reservations", func(p *Replay) { p.Learned = true }, time.Minute, 75 * time.Second},
		{"twice the requests, which do not bind", func(p *Replay) { p.Limits.RPM.N *= 2 }, 5 * time.Minute, 5*time.Minute + 15*time.Second},
		{"four at once and nothing else", func(p *Replay) { p.Limits = limit.Limits{Concurrency: 4} }, 140 * time.Second, 141 * time.Second},
		{"nothing to do", func(p *Replay) { p.Calls = 0 }, 0, 0},
	}
	for _, test := range tests {
		p := capped
		test.edit(&p)
		if got := p.Makespan(); got < test.from || got > test.to {
			t.Errorf("%s: got %v, want %v to %v", test.name, got, test.from, test.to)
		}
	}
}
