package runner

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/route"
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

// With several targets the end is not told for sooner than the next call may go.
func TestRemainingIsNoLessThanTheWait(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(45)...)
		house := fake.New(fake.Config{RPM: 20, Window: fake.Sliding, Latency: time.Second})
		seen := 0
		d.run(d.pair(house, fake.New(fake.Config{}), route.SetOf(route.Provider5xx)), given(20), func(c *Config) {
			c.Progress = func(p Progress) {
				if p.InFlight > 0 || p.Done == p.Total || time.Until(p.Until) <= 0 {
					return
				}
				if seen++; p.Remaining < time.Until(p.Until) {
					d.Errorf("after %v: %v are left, and nothing goes for %v", p.Elapsed, p.Remaining, time.Until(p.Until))
				}
			}
		})
		if seen == 0 {
			d.Error("no wait was shown")
		}
	})
}

// A ceiling ends when a call does, and a bar that named a moment would be wrong.
func TestCeilingNamesNoMoment(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: 3 * time.Second}, func(d *desk) {
		d.input(prompts(40)...)
		seen := 0
		d.run(func(c *Config) {
			c.Targets[0].Limits.Concurrency = 4
			c.Progress = func(p Progress) {
				if p.Limiting != "concurrency" {
					return
				}
				if seen++; !p.Until.IsZero() {
					d.Errorf("after %v: concurrency limits until %v", p.Elapsed, p.Until)
				}
			}
		})
		if seen == 0 {
			d.Error("concurrency never limited")
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
				if off := l.elapsed.Seconds() + l.left.Seconds() - s.Seconds; off < -6 || off > 6 {
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

// Calls of unknown outcome go again five seconds after they went. The end is no
// sooner, whatever room the limits have.
func TestRemainingCountsWaitsOfOperations(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: 100 * time.Millisecond}, func(d *desk) {
		lines := append(prompts(20), ask("gone", "[[fault:lostx1]] 1"), ask("lost", "[[fault:lostx1]] 2"))
		d.input(lines...)
		seen := 0
		s := d.run(caps(600, 0), func(c *Config) {
			c.Progress = func(p Progress) {
				if p.Delayed < 2 || p.Done < 20 {
					return
				}
				if seen++; p.Remaining < 5*time.Second-p.Elapsed {
					d.Errorf("after %v: got %v left, and nothing goes before the fifth second", p.Elapsed, p.Remaining)
				}
			}
		})
		if seen == 0 || s.Seconds < 5 {
			d.Errorf("the wait was seen %d times in %.1f s", seen, s.Seconds)
		}
	})
}

// A provider that has never answered gives nothing to reckon with, whether its
// limits are known or not.
func TestRemainingIsNotToldBeforeAnyAnswer(t *testing.T) {
	t.Parallel()
	for _, rpm := range []int64{0, 60} {
		bubble(t, fake.Config{DownFrom: 1, DownUntil: 15}, func(d *desk) {
			d.input(prompts(30)...)
			failed, told := 0, 0
			d.run(caps(rpm, 0), func(c *Config) {
				c.Progress = func(p Progress) {
					answered := d.server.Stats().Billed > 0
					switch {
					case !answered && p.Calls > 0 && p.InFlight == 0:
						if failed++; p.Remaining != 0 {
							d.Errorf("%d a minute, after %v: got %v left, and no call has been answered", rpm, p.Elapsed, p.Remaining)
						}
					case answered && p.Remaining > 0:
						told++
					}
				}
			})
			if failed == 0 || rpm > 0 && told == 0 {
				d.Errorf("%d a minute: got %d looks during the outage, %d after it that tell what is left", rpm, failed, told)
			}
		})
	}
}
