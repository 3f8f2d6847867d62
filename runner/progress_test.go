package runner

import (
	"errors"
	"io/fs"
	"math"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

func TestProgressAndSnapshotAddUp(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{RPM: 60, Latency: 3 * time.Second}, func(d *desk) {
		lines := append(prompts(80), ask("rude", "[[fault:policy]]"), ask("ill", "[[fault:500x2]]"), ask("gone", "[[fault:lostx1]]"))
		d.input(lines...)
		var last Progress
		var calls, seen int
		s := d.run(caps(60, 100_000), func(c *Config) {
			c.Progress = func(p Progress) {
				calls++
				if p.Total != len(lines) || p.Done < last.Done || p.Done+p.InFlight > p.Total || p.RequestsMinute > 60 || p.RPM != 60 {
					d.Errorf("after %v: got %+v", p.Elapsed, p)
				}
				last = p
				snap, err := checkpoint.ReadSnapshot(d.paths.Checkpoint)
				if errors.Is(err, fs.ErrNotExist) {
					return // not published yet
				}
				if err != nil {
					d.Error(err)
					return
				}
				seen++
				sum := 0
				for state, n := range snap.Counts {
					if sum += n; n < 0 {
						d.Errorf("the snapshot counts %d %s", n, state)
					}
				}
				if sum != len(lines) || snap.Operations != int64(len(lines)) {
					d.Errorf("the snapshot counts %d of %d operations: %v", sum, snap.Operations, snap.Counts)
				}
			}
		})
		if took := time.Duration(s.Seconds * float64(time.Second)); time.Duration(calls)*100*time.Millisecond > took+time.Second {
			d.Errorf("progress was shown %d times in %v, want at most ten a second", calls, took)
		}
		if last.Done < 70 || seen == 0 {
			d.Errorf("the last progress was %+v, the snapshot was seen %d times", last, seen)
		}
		if _, err := checkpoint.ReadSnapshot(d.paths.Checkpoint); !errors.Is(err, fs.ErrNotExist) {
			d.Errorf("after the run: got error %v, want that there is no snapshot", err)
		}
	})
}

func TestLongWaitsAreAnnounced(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(5)...)
		d.run(caps(2, 0))
		d.mustTell("waiting until")
		d.mustTell("rpm")
	})
}

func TestRemainingUnderLimits(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	full := limit.Wait{Until: now.Add(20 * time.Second), Reason: "rpm"}
	rpm := func(used int64, pace float64) []limit.Use {
		return []limit.Use{{Name: "rpm", Used: used, Limit: 45, Pace: pace}}
	}
	for _, test := range []struct {
		name string
		left limit.Cost
		uses []limit.Use
		wait limit.Wait
		want time.Duration
	}{
		{"no limit", limit.Cost{Requests: 1000}, nil, limit.Wait{}, 0},
		{"it fits at once", limit.Cost{Requests: 45}, rpm(0, 0), limit.Wait{}, 0},
		{"at the start", limit.Cost{Requests: 105}, rpm(0, 0), limit.Wait{}, 2 * time.Minute},
		{"waiting for the last window", limit.Cost{Requests: 15}, rpm(45, 0), full, 20 * time.Second},
		{"waiting, with one more to come", limit.Cost{Requests: 46}, rpm(45, 0), full, 80 * time.Second},
		{"evenly", limit.Cost{Requests: 90}, rpm(45, 45), full, 2 * time.Minute},
		{"tokens", limit.Cost{Requests: 3, Tokens: 2000, Output: 1000}, []limit.Use{{Name: "tpm", Used: 1000, Limit: 1000}}, limit.Wait{}, 3 * time.Minute},
		{"output apart", limit.Cost{Requests: 3, Tokens: 9000, Output: 1000}, []limit.Use{{Name: "otpm", Limit: 500}}, limit.Wait{}, time.Minute},
		{"a day", limit.Cost{Requests: 30}, []limit.Use{{Name: "rpd", Used: 10, Limit: 30}}, limit.Wait{}, 24 * time.Hour},
		{"for ever", limit.Cost{Tokens: math.MaxInt64}, []limit.Use{{Name: "tpd", Limit: 1}}, limit.Wait{}, math.MaxInt64/2 + 1 + 24*time.Hour},
	} {
		if got := underLimits(now, test.left, limit.State{Uses: test.uses}, test.wait); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestRemainingHoldsThroughWaits(t *testing.T) {
	t.Parallel()
	type look struct{ elapsed, left time.Duration }
	watch := func(looks *[]look) func(*Config) {
		return func(c *Config) {
			c.Progress = func(p Progress) { *looks = append(*looks, look{p.Elapsed, p.Remaining}) }
		}
	}
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		d.input(prompts(160)...)
		for _, first := range []int{150, 0} { // and again for the last ten of them
			var looks []look
			s := d.run(caps(30, 0), watch(&looks), func(c *Config) { c.Limit = first })
			for i, l := range looks {
				if off := l.elapsed.Seconds() + l.left.Seconds() - s.Seconds; off < -5 || off > 61 {
					d.Errorf("after %v of %.0f s: got %v left", l.elapsed, s.Seconds, l.left)
				}
				if i > 0 && l.left > looks[i-1].left+time.Minute {
					d.Errorf("after %v: what is left grew from %v to %v", l.elapsed, looks[i-1].left, l.left)
				}
			}
			if len(looks) == 0 || looks[0].left == 0 && s.Seconds > 30 {
				d.Errorf("got first looks %v of a run of %.0f s", looks[:min(3, len(looks))], s.Seconds)
			}
		}
	})
}
