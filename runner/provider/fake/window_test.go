package fake

import (
	"math/rand/v2"
	"sort"
	"testing"
	"time"
)

// base is a clock-aligned start: a whole minute.
const base = int64(1_800_000_000_000_000_000)

func sec(x float64) int64 { return base + int64(x*1e9) }

func TestWindows(t *testing.T) {
	const minute = int64(time.Minute)
	type step struct {
		at   float64 // seconds
		n    int64
		want float64 // seconds to wait; 0 = admitted
	}
	for _, c := range []struct {
		name  string
		win   window
		steps []step
	}{
		{"bucket", newBucket(60, 3, minute, base), []step{{0, 1, 0}, {0, 2, 0}, {0, 1, 1}, {0.5, 1, 0.5}, {1, 1, 0}, {1, 3, 3}, {100, 3, 0}, {100, 1, 1}}},
		{"fixed by the clock", &fixed{limit: 3, length: minute}, []step{{50, 3, 0}, {50, 1, 10}, {59.5, 1, 0.5}, {60, 3, 0}, {60, 1, 60}}},
		{"fixed with a phase", &fixed{limit: 3, length: minute, phase: 7e9}, []step{{5, 3, 0}, {5, 1, 2}, {7, 3, 0}, {7, 1, 60}}},
		{"fixed from the first call", &fixed{limit: 3, length: minute, atFirst: true}, []step{{50, 2, 0}, {100, 1, 0}, {100, 1, 10}, {110, 1, 0}, {115, 2, 0}, {115, 1, 55}}},
		{"sliding", &sliding{limit: 3, log: rolling{length: minute}}, []step{{0, 1, 0}, {10, 2, 0}, {10, 1, 50}, {10, 2, 60}, {59.5, 1, 0.5}, {60, 1, 0}, {60, 1, 10}, {69.9, 3, 50.1}, {70, 2, 0}}},
		{"slices", newSlices(120, minute, 1e9, base), []step{{0, 1, 0}, {0.5, 1, 0}, {0.5, 1, 0.5}, {1, 2, 0}, {30, 2, 0}, {30, 1, 1}}},
		{"slices of one and a half", newSlices(90, minute, 1e9, base), []step{{0, 2, 0}, {1, 1, 0}, {1, 1, 1}, {2, 2, 0}, {2, 1, 1}, {3, 1, 0}}},
		{"slices below one", newSlices(20, minute, 1e9, base), []step{{0, 1, 0}, {0, 1, 3}, {2.9, 1, 0.1}, {3, 1, 0}, {3, 1, 3}, {60, 1, 0}, {60, 1, 3}}},
		{"slices, a charge above a share", newSlices(600, minute, 1e9, base), []step{{0, 1, 0}, {0, 25, 1}, {1, 25, 0}, {1, 1, 2}, {3, 5, 0}, {3, 1, 1}}},
	} {
		for i, s := range c.steps {
			got := c.win.wait(sec(s.at), s.n)
			if d := got - int64(s.want*1e9); d < -1000 || d > 1000 || (got == 0) != (s.want == 0) {
				t.Errorf("%s, step %d %+v: got a wait of %v", c.name, i, s, time.Duration(got))
			}
			if got == 0 {
				c.win.take(sec(s.at), s.n)
			}
		}
	}
}

// TestWaitIsTrue asks at random moments: whatever a window says to wait is enough, and a millisecond less is not.
func TestWaitIsTrue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const minute = int64(time.Minute)
	for range 40 {
		limit := 1 + rnd.Int64N(500)
		for _, w := range []window{
			newBucket(limit, limit, minute, base), &fixed{limit: limit, length: minute, phase: rnd.Int64N(minute)}, &fixed{limit: limit, length: minute, atFirst: true},
			&sliding{limit: limit, log: rolling{length: minute}}, newSlices(limit, minute, 1e9, base),
		} {
			now := base
			for range 300 {
				now += rnd.Int64N(3 * minute / limit)
				n := 1 + rnd.Int64N(min(limit, 20))
				if d := w.wait(now, n); d > 0 {
					if d > 1_000_000 && w.wait(now+d-1_000_000, n) == 0 {
						t.Fatalf("%T limit %d: %v for %d is too long", w, limit, time.Duration(d), n)
					}
					now += d
					if again := w.wait(now, n); again > 0 {
						t.Fatalf("%T limit %d: after the wait of %v for %d still %v", w, limit, time.Duration(d), n, time.Duration(again))
					}
				}
				left := w.left(now)
				w.take(now, n)
				if _, isSlices := w.(*sliced); !isSlices && (left < n || w.left(now) != left-n) {
					t.Fatalf("%T limit %d: left %d, took %d, left %d", w, limit, left, n, w.left(now))
				}
				if w.full(now) <= 0 {
					t.Fatalf("%T: full at once after a call", w)
				}
			}
		}
	}
}

// TestSlidingNeverExceeds is the window's promise, checked by brute force.
func TestSlidingNeverExceeds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	s := &sliding{limit: 100, log: rolling{length: int64(time.Minute)}}
	var taken []event
	for now := base; len(taken) < 2000; now += rnd.Int64N(2e9) {
		if n := 1 + rnd.Int64N(30); s.wait(now, n) == 0 {
			s.take(now, n)
			taken = append(taken, event{now, n})
		}
	}
	if peak := brutePeak(taken, int64(time.Minute)); peak > 100 || peak < 90 {
		t.Errorf("got a rolling minute of %d, want at most 100 and near it", peak)
	}
}

func brutePeak(events []event, length int64) (peak int64) {
	for i, e := range events {
		sum := int64(0)
		for j := i; j >= 0 && events[j].at > e.at-length; j-- {
			sum += events[j].n
		}
		peak = max(peak, sum)
	}
	return peak
}

func TestRollingPeak(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		r := rolling{length: int64(time.Second)}
		var all []event
		now := base
		for range 5000 {
			now += rnd.Int64N(3) * rnd.Int64N(2_000_000) // the same moment now and then
			e := event{now, rnd.Int64N(100)}
			all = append(all, e)
			r.add(e.at, e.n)
		}
		if want := brutePeak(all, r.length); r.peak != want {
			t.Errorf("got %d, want %d", r.peak, want)
		}
	}
	edge := rolling{length: 10}
	edge.add(1, 5)
	edge.add(11, 5)
	if edge.peak != 5 {
		t.Errorf("two events exactly one length apart: got %d, want 5", edge.peak)
	}
}

// TestRollingCoarse fills a window beyond what is kept exactly: memory stays bounded and the peak is not understated.
func TestRollingCoarse(t *testing.T) {
	r := rolling{length: int64(time.Second)}
	const each = 500 // ns: 2,000,000 a second
	n := int64(0)
	for now := base; now < base+3e9; now += each {
		r.add(now, 1)
		n++
	}
	exact := int64(time.Second) / each
	if r.peak < exact || r.peak > exact+coarse/each {
		t.Errorf("got a peak of %d of %d, want %d and at most a millisecond's calls more", r.peak, n, exact)
	}
	if live := len(r.events) - r.head; live > 2*exactEvents {
		t.Errorf("got %d events kept, want a bounded number", live)
	}
}

func TestGiveBack(t *testing.T) {
	const minute = int64(time.Minute)
	for _, c := range []struct {
		name        string
		win         window
		soon, later int64 // left after 40 of 100 were given back 1 s and 70 s after they were taken
	}{
		{"bucket", newBucket(100, 100, minute, base), 41, 100},
		{"fixed", &fixed{limit: 100, length: minute}, 40, 100},
		{"sliding", &sliding{limit: 100, log: rolling{length: minute}}, 40, 100},
		{"slices", newSlices(100, minute, 1e9, base), 40, 100},
	} {
		c.win.take(base, 100)
		c.win.giveBack(sec(1), base, 40)
		if got := c.win.left(sec(1)); got != c.soon {
			t.Errorf("%s: got %d left, want %d", c.name, got, c.soon)
		}
		c.win.giveBack(sec(70), base, 40)
		if got := c.win.left(sec(70)); got != c.later {
			t.Errorf("%s, after the window: got %d left, want %d", c.name, got, c.later)
		}
	}
}

func sortEvents(events []event) {
	sort.SliceStable(events, func(i, j int) bool { return events[i].at < events[j].at })
}
