package series

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
)

func TestHistogramBuckets(t *testing.T) {
	last := int64(0)
	for b := range buckets {
		from, to := Bounds(b)
		if from != last || to <= from && to > 0 {
			t.Fatalf("bucket %d is [%d, %d), want it to begin at %d", b, from, to, last)
		}
		if got := bucketOf(from); got != b {
			t.Errorf("%d is in bucket %d, want %d", from, got, b)
		}
		if to > 0 && bucketOf(to-1) != b {
			t.Errorf("%d is in bucket %d, want %d", to-1, bucketOf(to-1), b)
		}
		last = to
	}
	if got := bucketOf(math.MaxInt64); got != buckets-1 {
		t.Errorf("the largest value is in bucket %d, want %d", got, buckets-1)
	}
	if got := bucketOf(-5); got != 0 {
		t.Errorf("a value below 0 is in bucket %d, want 0", got)
	}
}

func TestHistogramQuantiles(t *testing.T) {
	var h Histogram
	for v := range int64(1000) {
		h.Add(v + 1)
	}
	for _, c := range []struct {
		q    float64
		want int64
	}{{0.5, 500}, {0.95, 950}, {0.99, 990}, {1, 1000}} {
		if got := h.Quantile(c.q); math.Abs(float64(got-c.want)) > float64(c.want)/8 {
			t.Errorf("quantile %g is %d, want about %d", c.q, got, c.want)
		}
	}
	var again, both Histogram
	b, err := json.Marshal(h)
	if err == nil {
		err = json.Unmarshal(b, &again)
	}
	if err != nil || !reflect.DeepEqual(again.counts, h.counts) || again.N() != 1000 {
		t.Errorf("read back: %v, %d values; want what was written", err, again.N())
	}
	both.Merge(h)
	both.Merge(again)
	if both.N() != 2000 || both.Quantile(0.5) != h.Quantile(0.5) {
		t.Errorf("twice the same: %d values, median %d; want 2000, %d", both.N(), both.Quantile(0.5), h.Quantile(0.5))
	}
	for _, bad := range []string{`[1]`, `[-1,2]`, `[999999,2]`, `[3,-1]`, `{}`} {
		if err := json.Unmarshal([]byte(bad), &again); err == nil {
			t.Errorf("%s was read as a histogram", bad)
		}
	}
	if empty := (&Histogram{}); empty.Quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
}

func TestTallyIsBounded(t *testing.T) {
	var tally Tally
	for i := range 1000 {
		tally.Add(string(rune('a'+i)), 1)
	}
	if len(tally) != maxNames+1 || tally[Other] != 1000-maxNames || tally.Sum() != 1000 {
		t.Errorf("got %d names and %d others of %d, want %d and %d of 1000", len(tally), tally[Other], tally.Sum(), maxNames+1, 1000-maxNames)
	}
}

// store is what a checkpoint does with what Tick returns.
type store map[uint64][]byte

func (s store) note(values map[uint64][]byte) {
	for k, v := range values {
		if v == nil {
			delete(s, k)
		} else {
			s[k] = v
		}
	}
}

// load reads the values in the order of keys.
func (s store) load() *Recorder {
	r := &Recorder{}
	for _, k := range slices.Sorted(maps.Keys(s)) {
		r.Load(k, s[k])
	}
	return r
}

func TestThinning(t *testing.T) {
	for _, c := range []struct {
		name    string
		seconds []int64 // of each run
	}{
		{"a short run", []int64{30}},
		{"one that just fits", []int64{maxPoints}},
		{"a long run", []int64{5000}},
		{"a long run, resumed", []int64{4000, 2000, 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept := store{}
			now, calls := int64(1_700_000_000_000), int64(0)
			for _, seconds := range c.seconds {
				r := kept.load()
				r.Begin(now)
				for range seconds {
					now += second
					calls++
					r.Now.Calls++
					r.Now.Wait.Add(7)
					r.Now.Bound.Add("rpm", 1000)
					r.Now.Uses = []Load{{Used: calls, Max: 60}}
					kept.note(r.Tick(now))
				}
				now += 100 * second // nothing runs
			}
			r := kept.load()
			if len(r.Points) > maxPoints+len(c.seconds)+1 || len(kept) != len(r.Points)+len(r.Runs) {
				t.Errorf("kept %d values, %d points; want at most %d points and nothing stale", len(kept), len(r.Points), maxPoints)
			}
			sum := int64(0)
			for i, p := range r.Points {
				sum += p.Calls
				if p.Calls*second != p.Span || p.Wait.N() != p.Calls || p.Bound["rpm"] != p.Span {
					t.Fatalf("point %d of %d ms has %d calls, %d waits, %v; want one for each second", i, p.Span, p.Calls, p.Wait.N(), p.Bound)
				}
				if i == 0 {
					continue
				}
				before := r.Points[i-1]
				gap := p.From - before.End()
				if want := int64(0); p.Run == before.Run && gap != want || p.Run != before.Run && gap != 100*second {
					t.Fatalf("a gap of %d ms before point %d of run %d", gap, i, p.Run)
				}
			}
			if sum != calls || len(r.Runs) != len(c.seconds) {
				t.Errorf("got %d calls in %d runs, want %d in %d", sum, len(r.Runs), calls, len(c.seconds))
			}
		})
	}
}

func TestThinningIsEven(t *testing.T) {
	r := &Recorder{}
	r.Begin(0)
	for i := range int64(20_000) {
		r.Tick((i + 1) * second)
	}
	longest, shortest := int64(0), int64(math.MaxInt64)
	for _, p := range r.Points {
		longest, shortest = max(longest, p.Span), min(shortest, p.Span)
	}
	if longest > 4*shortest {
		t.Errorf("points are from %d to %d ms long, want them within four times", shortest, longest)
	}
}

func TestManyRunsFold(t *testing.T) {
	kept, now := store{}, int64(0)
	for range 100 {
		r := kept.load()
		run := r.Begin(now)
		run.Target("house", "small").Calls = 1
		run.Failed.Add("server", 1)
		now += second
		kept.note(r.Tick(now))
	}
	r := kept.load()
	if len(r.Runs) != maxRuns {
		t.Errorf("got %d runs, want %d", len(r.Runs), maxRuns)
	}
	sum := r.Sum()
	if sum.Targets[0].Calls != 100 || sum.Failed["server"] != 100 || sum.Folded != 99 {
		t.Errorf("got %d calls, %d failures of %d runs; want 100 each", sum.Targets[0].Calls, sum.Failed["server"], sum.Folded+1)
	}
}

func TestFewLeavesTheSeriesAlone(t *testing.T) {
	r := &Recorder{}
	r.Begin(0)
	for i := range int64(500) {
		r.Now.Calls, r.Now.Bound = 1, Tally{"tpm": 1000}
		r.Tick((i + 1) * second)
	}
	few := r.Few(100)
	calls := int64(0)
	for _, p := range few.Points {
		calls += p.Calls
	}
	if calls != 500 || len(few.Points) > 101 {
		t.Errorf("got %d calls in %d points, want 500 in about 100", calls, len(few.Points))
	}
	for i, p := range r.Points {
		if p.Calls != 1 || p.Bound["tpm"] != 1000 {
			t.Fatalf("point %d has become %+v", i, p)
		}
	}
}

func TestDamagedValuesAreLeftOut(t *testing.T) {
	r := &Recorder{}
	r.Load(1<<32|1, []byte(`{"t":1,"d":1}`)) // its run's own value is gone
	r.Load(2<<32, []byte(`{"from":5}`))
	r.Load(2<<32|1, []byte(`not JSON`))
	r.Load(2<<32|2, []byte(`{"t":7,"d":1,"c":3}`))
	if len(r.Runs) != 1 || len(r.Points) != 1 || r.Points[0].Calls != 3 {
		t.Errorf("got %d runs, %d points; want one of each", len(r.Runs), len(r.Points))
	}
}
