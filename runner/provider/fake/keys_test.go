package fake

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestIdempotencyKeys(t *testing.T) {
	s := New(Config{HonourKeys: true, RPM: 3})
	rt := &Transport{Server: s}
	first := post(t, rt, "/v1/chat/completions", chat("x"), "a")
	again := post(t, rt, "/v1/chat/completions", chat("x"), "a")
	if again.status != 200 || again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %+v, want the first answer again", again)
	}
	if g := post(t, rt, "/v1/chat/completions", chat("y"), "a"); g.status != 400 {
		t.Errorf("another body under the key: got %d, want 400", g.status)
	}
	lost := chat("[[fault:lostx1]]")
	if g := post(t, rt, "/v1/chat/completions", lost, "b"); g.err == nil {
		t.Error("got an answer, want it lost")
	}
	if g := post(t, rt, "/v1/chat/completions", lost, "b"); g.status != 200 {
		t.Errorf("after a loss: got %d, want the answer", g.status)
	}
	failed := chat("[[fault:500x1]]")
	if g := post(t, rt, "/v1/chat/completions", failed, "c"); g.status != 500 {
		t.Errorf("got %d, want 500", g.status)
	}
	if g := post(t, rt, "/v1/chat/completions", failed, "c"); g.status != 429 { // a failure is not kept: a fourth call
		t.Errorf("got %d, want 429", g.status)
	}
	st := s.Stats()
	if st.Billed != 2 || st.Duplicates != 2 || st.Twice.Operations != 0 || st.Admitted != 3 || st.Keys != 3 || st.Lost != 1 {
		t.Errorf("got %+v", st)
	}
}

// TestKeysAtOnce sends the same key many times at once: one is billed, the others wait for its answer; when the first
// fails, the next one takes its place.
func TestKeysAtOnce(t *testing.T) {
	for _, c := range []struct {
		text string
		want map[int]int
	}{
		{"x", map[int]int{200: 20}},
		{"[[fault:500x3]]", map[int]int{500: 3, 200: 17}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(Config{HonourKeys: true, Latency: time.Second})
			got := parallel(t, &Transport{Server: s}, 20, func(int) string { return chat(c.text) }, func(int) string { return "k" })
			st := s.Stats()
			if fmt.Sprint(got) != fmt.Sprint(c.want) || st.Billed != 1 || st.Duplicates != int64(c.want[200]-1) || st.InFlight != 0 {
				t.Errorf("%s: got %v, %+v", c.text, got, st)
			}
		})
	}
}

// TestWithoutKeys is the server as it is by default: it sees the key and bills again.
func TestWithoutKeys(t *testing.T) {
	s := New(Config{})
	rt := &Transport{Server: s}
	for range 3 {
		post(t, rt, "/v1/chat/completions", chat("x"), "a")
	}
	post(t, rt, "/v1/chat/completions", chat("y"), "")
	post(t, rt, "/v1/chat/completions", chat("y"), "")
	st := s.Stats()
	if st.Billed != 5 || st.Twice.Operations != 2 || st.Twice.Extra != 3 || st.Twice.List[0] != "a" || st.TwiceBodies.Operations != 2 {
		t.Errorf("got %+v", st)
	}
}

// TestResetInFlight clears the account while calls are in flight and while one waits for another's key.
func TestResetInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{HonourKeys: true, Latency: time.Second, Concurrency: 5})
		rt := &Transport{Server: s}
		done := make(chan map[int]int)
		go func() {
			done <- parallel(t, rt, 2, func(int) string { return chat("x") }, func(int) string { return "k" })
		}()
		time.Sleep(time.Millisecond)
		s.Reset()
		if got := <-done; got[200] != 2 {
			t.Errorf("got %v, want both answered", got)
		}
		if st := s.Stats(); st.Billed != 1 || st.InFlight != 0 {
			t.Errorf("got %+v, want the call that began after the reset alone", st)
		}
	})
}

func TestWaiterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{HonourKeys: true, Latency: time.Minute})
		rt := &Transport{Server: s}
		go post(t, rt, "/v1/chat/completions", chat("x"), "k")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if g := send(ctx, rt, "http://fake", "/v1/chat/completions", chat("x"), "k"); g.err == nil {
			t.Errorf("got %+v, want the context's error", g)
		}
		time.Sleep(time.Minute)
		if st := s.Stats(); st.Billed != 1 || st.Statuses["aborted"] != 1 || st.Statuses["200"] != 1 {
			t.Errorf("got %+v", st)
		}
	})
}
