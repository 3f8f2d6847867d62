package queue_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/queue"
)

func push(r *queue.Ready[string], names ...string) {
	for _, n := range names {
		r.Push(n, queue.Normal, queue.Weight{Tokens: 1})
	}
}

func popAll[T any](r *queue.Ready[T], f queue.Fit) []T {
	var out []T
	for {
		v, ok := r.Pop(f)
		if !ok {
			return out
		}
		out = append(out, v)
	}
}

func TestPriorities(t *testing.T) {
	var r queue.Ready[string]
	r.Push("l", queue.Low, queue.Weight{})
	push(&r, "a", "b")
	r.Push("h", queue.High, queue.Weight{})
	push(&r, "c")
	r.PushFront("first", queue.Normal, queue.Weight{})
	if got, want := popAll(&r, anything()), []string{"h", "first", "a", "b", "c", "l"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if r.Len() != 0 {
		t.Errorf("got length %d, want 0", r.Len())
	}
}

// While higher priorities keep coming, lower ones have their turn by age: one for every 2,000 that pass
// them, in their own order, and none before.
func TestAgeing(t *testing.T) {
	for _, c := range []struct {
		name  string
		lower map[queue.Priority][]string
		want  map[int]string // by the number of the pick, from 1; all others are high
	}{
		{"low", map[queue.Priority][]string{queue.Low: {"l1", "l2"}}, map[int]string{2001: "l1", 4002: "l2"}},
		{"normal and low", map[queue.Priority][]string{queue.Normal: {"n1", "n2", "n3"}, queue.Low: {"l1", "l2"}}, map[int]string{2001: "n1", 2002: "l1", 4003: "n2", 4004: "l2", 6005: "n3"}},
	} {
		var r queue.Ready[string]
		for p, names := range c.lower {
			for _, n := range names {
				r.Push(n, p, queue.Weight{Tokens: 1})
			}
		}
		for i := 1; i <= 7000; i++ {
			r.Push("h", queue.High, queue.Weight{Tokens: 1})
			want := c.want[i]
			if want == "" {
				want = "h"
			}
			got, _ := r.Pop(anything())
			if got != want {
				t.Fatalf("%s: pick %d got %q, want %q", c.name, i, got, want)
			}
			if i%7 == 0 { // a pick in vain changes nothing
				p := queue.High
				if got[0] == 'n' {
					p = queue.Normal
				} else if got[0] == 'l' {
					p = queue.Low
				}
				r.PushFront(got, p, queue.Weight{Tokens: 1})
				if again, _ := r.Pop(anything()); again != got {
					t.Fatalf("%s: pick %d put back got %q, want %q", c.name, i, again, got)
				}
			}
		}
	}
}

// The least important is asked first, in the order of each priority.
func TestTakeLeast(t *testing.T) {
	var r queue.Ready[string]
	push(&r, "n1", "n2")
	r.Push("h", queue.High, queue.Weight{})
	r.Push("l", queue.Low, queue.Weight{})
	for _, want := range []string{"l", "n2", "n1", "h", ""} {
		got, ok := r.TakeLeast(9, func(s string) bool { return s != "n1" || r.Len() < 3 })
		if got != want || ok != (want != "") {
			t.Errorf("got %q, %t, want %q", got, ok, want)
		}
	}
}

// Take goes by the order alone, looks at no more than it is told, and leaves the rest in order.
func TestTake(t *testing.T) {
	var r queue.Ready[string]
	push(&r, "a", "b", "c")
	r.Push("h", queue.High, queue.Weight{})
	is := func(want string) func(string) bool { return func(s string) bool { return s == want } }
	for i, s := range []struct {
		n    int
		want string
		ok   bool
	}{{4, "x", false}, {2, "b", false}, {3, "b", true}, {1, "h", true}, {0, "a", false}} {
		if got, ok := r.Take(s.n, is(s.want)); ok != s.ok || ok && got != s.want {
			t.Errorf("step %d: got %q, %t; want %q, %t", i, got, ok, s.want, s.ok)
		}
	}
	if got, want := popAll(&r, anything()), []string{"a", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %v left, want %v", got, want)
	}
}

// What does not fit is passed by the closest fit from below.
func TestFit(t *testing.T) {
	var r queue.Ready[int64]
	for _, w := range []int64{90, 10, 50, 60, 50, 95} {
		r.Push(w, queue.Normal, queue.Weight{Tokens: w})
	}
	for i, s := range []struct{ room, want int64 }{{55, 50}, {55, 50}, {9, -1}, {100, 90}, {80, 10}, {80, 60}, {80, -1}, {95, 95}} {
		got, ok := r.Pop(queue.Fit{Tokens: s.room, Output: 1})
		if !ok {
			got = -1
		}
		if got != s.want {
			t.Errorf("step %d: got %d, want %d", i, got, s.want)
		}
	}
}

// The lightest is exact at any moment, however many weigh as little.
func TestLightest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var r queue.Ready[int64]
	var all []int64
	for range 20_000 {
		if len(all) == 0 || random.IntN(2) == 0 {
			w := int64(random.IntN(4))
			r.Push(w, queue.Normal, queue.Weight{Tokens: w})
			all = append(all, w)
		} else if v, ok := r.Pop(queue.Fit{Tokens: int64(random.IntN(4))}); ok {
			i := slices.Index(all, v)
			all = slices.Delete(all, i, i+1)
			if random.IntN(4) == 0 {
				r.PushFront(v, queue.Normal, queue.Weight{Tokens: v})
				all = append(all, v)
			}
		}
		got, ok := r.Lightest()
		if ok != (len(all) > 0) || ok && got != slices.Min(all) {
			t.Fatalf("got %d, %t of %v", got, ok, all)
		}
	}
}

// Tokens ahead asks for a light one, requests ahead for a heavy one, and in step the order holds.
func TestBalance(t *testing.T) {
	var r queue.Ready[int64]
	for _, w := range []int64{500, 400, 300, 200, 100} {
		r.Push(w, queue.Normal, queue.Weight{Tokens: w})
	}
	for i, s := range []struct{ want, pick int64 }{{480, 500}, {-300, 100}, {1000, 400}, {205, 200}, {0, 300}} {
		f := anything()
		f.Balance, f.Want, f.Slack = true, s.want, 30
		if got, _ := r.Pop(f); got != s.pick {
			t.Errorf("step %d: got %d, want %d", i, got, s.pick)
		}
	}
}

// A heavy operation that never fits the present room is passed a bounded number of times.
func TestNothingStarves(t *testing.T) {
	var r queue.Ready[int64]
	r.Push(100, queue.Normal, queue.Weight{Tokens: 100})
	passed := 0
	for ; passed < 100_000; passed++ {
		r.Push(1, queue.Normal, queue.Weight{Tokens: 1})
		if _, ok := r.Pop(queue.Fit{Tokens: 50, Output: 1}); !ok {
			break
		}
	}
	if passed > 5*queue.LookAhead {
		t.Fatalf("got passed %d times, want at most %d", passed, 5*queue.LookAhead)
	}
	if least, _ := r.Lightest(); least != 100 {
		t.Errorf("got lightest %d while one is overdue, want 100", least)
	}
	for range 2 {
		if got, _ := r.Pop(queue.Fit{Tokens: 100, Output: 1}); got != 100 {
			t.Errorf("got %d, want the overdue one", got)
		}
		r.PushFront(100, queue.Normal, queue.Weight{Tokens: 100}) // and it stays so
	}
}

// Beyond the look-ahead nothing passes.
func TestLookAhead(t *testing.T) {
	var r queue.Ready[int]
	for i := range queue.LookAhead {
		r.Push(i, queue.Normal, queue.Weight{Tokens: 10})
	}
	r.Push(-1, queue.Normal, queue.Weight{Tokens: 1})
	if v, ok := r.Pop(queue.Fit{Tokens: 5, Output: 1}); ok {
		t.Errorf("got %d from behind the look-ahead", v)
	}
	if v, _ := r.Pop(anything()); v != 0 {
		t.Errorf("got %d, want the first", v)
	}
	if v, ok := r.Pop(queue.Fit{Tokens: 5, Output: 1}); !ok || v != -1 {
		t.Errorf("got %d %v, want the light one, now in view", v, ok)
	}
}

func TestDrain(t *testing.T) {
	var r queue.Ready[int]
	for i := range 3 * queue.LookAhead {
		r.Push(i, queue.Normal, queue.Weight{})
	}
	if got := r.Drain(); len(got) != 3*queue.LookAhead || !slices.IsSorted(got) || r.Len() != 0 {
		t.Errorf("got %d drained, sorted %v, %d left", len(got), slices.IsSorted(got), r.Len())
	}
}

func TestDelayed(t *testing.T) {
	var d queue.Delayed[string]
	start := time.Unix(0, 0)
	for _, s := range []struct {
		v  string
		at time.Duration
	}{{"c", 3}, {"a", 1}, {"b1", 2}, {"b2", 2}, {"b3", 2}} {
		d.Push(s.v, start.Add(s.at))
	}
	if next, ok := d.Next(); !ok || !next.Equal(start.Add(1)) {
		t.Errorf("got %v %v, want 1 ns", next, ok)
	}
	if _, ok := d.Pop(start); ok {
		t.Error("got a value before its time")
	}
	var got []string
	for v, ok := d.Pop(start.Add(2)); ok; v, ok = d.Pop(start.Add(2)) {
		got = append(got, v)
	}
	if got = append(got, d.Drain()...); !slices.Equal(got, []string{"a", "b1", "b2", "b3", "c"}) {
		t.Errorf("got %v", got)
	}
}

func BenchmarkPop(b *testing.B) {
	for _, balance := range []bool{false, true} {
		b.Run(map[bool]string{false: "fifo", true: "balance"}[balance], func(b *testing.B) {
			var r queue.Ready[*int]
			for i := range queue.LookAhead {
				r.Push(nil, queue.Normal, queue.Weight{Tokens: int64(i * 7919 % 1000)})
			}
			f := anything()
			f.Balance = balance
			for i := 0; b.Loop(); i++ {
				f.Want = int64(i * 104729 % 1000)
				r.Pop(f)
				r.Push(nil, queue.Normal, queue.Weight{Tokens: int64(i * 7919 % 1000)})
			}
		})
	}
}

func BenchmarkPopNothingFits(b *testing.B) {
	var r queue.Ready[*int]
	for i := range queue.LookAhead {
		r.Push(nil, queue.Normal, queue.Weight{Tokens: int64(100 + i)})
	}
	for b.Loop() {
		r.Pop(queue.Fit{Tokens: 99, Output: 1})
	}
}

// anything is the Fit that everything suits.
func anything() queue.Fit { return queue.Fit{Tokens: math.MaxInt64, Output: math.MaxInt64} }
