package runner

import "testing"

func TestRatios(t *testing.T) {
	var r ratios
	for range 19 {
		r.add("claude", 100, 150)
	}
	if got := r.correct("claude", 1000); got != 1000 {
		t.Errorf("after 19 answers: got %d, want 1000 as reckoned", got)
	}
	r.add("claude", 100, 150)
	if got := r.correct("claude", 1000); got != 1500 {
		t.Errorf("after 20 answers of half as much again: got %d, want 1500", got)
	}
	if got := r.correct("gpt-4o", 1000); got != 1000 {
		t.Errorf("another model: got %d, want 1000", got)
	}
	// New answers outweigh old ones in time.
	for range 60_000 {
		r.add("claude", 100, 80)
	}
	if got := r.correct("claude", 1000); got < 800 || got > 805 {
		t.Errorf("after many answers of 0.8: got %d, want about 800", got)
	}
	for range 100_000 {
		r.add("liar", 100, 1_000_000)
		r.add("miser", 100, 1)
	}
	if got := r.correct("liar", 10); got != 50 {
		t.Errorf("nonsense upwards: got %d, want 50", got)
	}
	if got := r.correct("miser", 10); got != 2 {
		t.Errorf("nonsense downwards: got %d, want 2", got)
	}
}
