package fake

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAdmission sends three minutes' worth of calls, each repeated at the server's own hint, in virtual time: the hints
// lead to every answer, and the time is what the window allows.
func TestAdmission(t *testing.T) {
	for _, c := range []struct {
		name     string
		cfg      Config
		min, max float64 // seconds for 3 x 60 calls
		peak     int64   // in a rolling minute
	}{
		{"bucket", Config{RPM: 60}, 119, 121, 120},
		{"small bucket", Config{RPM: 60, Burst: 5}, 174, 180, 66},
		{"fixed", Config{RPM: 60, Window: Fixed}, 119, 121, 60},
		{"sliding", Config{RPM: 60, Window: Sliding}, 119, 121, 60},
		{"slices", Config{RPM: 60, Window: Slices}, 178, 180, 60},
		{"tokens", Config{TPM: 60 * 35, Window: Sliding}, 119, 121, 60},
		{"scaled", Config{RPM: 60, Window: Sliding, WindowLength: 6 * time.Second}, 11.9, 12.1, 60},
		{"day", Config{RPD: 60, Day: 10 * time.Minute}, 1199, 1201, 60},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(c.cfg)
			rt := &Transport{Server: s}
			for i := range 180 {
				body := chat(fmt.Sprintf("n%03d", i))
				for {
					g := post(t, rt, "/v1/chat/completions", body, "")
					if g.err != nil || g.status != 200 && g.status != 429 {
						t.Fatalf("%s: got %+v", c.name, g)
					}
					if g.status == 200 {
						break
					}
					wait, err := strconv.ParseFloat(g.header.Get("Retry-After"), 64)
					if err != nil || wait <= 0 {
						t.Fatalf("%s: retry-after: got %q", c.name, g.header.Get("Retry-After"))
					}
					time.Sleep(time.Duration(wait * float64(time.Second)))
				}
			}
			st := s.Stats()
			if st.LastSend < c.min || st.LastSend > c.max {
				t.Errorf("%s: got %.1f s, want %v to %v", c.name, st.LastSend, c.min, c.max)
			}
			if st.PeakRequests > c.peak || st.Admitted != 180 || st.Answered != 180 || st.Billed != 180 || st.RefusedSum == 0 {
				t.Errorf("%s: got %+v", c.name, st)
			}
		})
	}
}

// TestFreeTier is the field's own case: a limit of 20 a minute whose bucket holds 30, hinted at by OpenRouter's headers
// alone. A loop that waits for the reset needs 90 s for 60 calls.
func TestFreeTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{RPM: 20, Burst: 30, Style: OpenRouter})
		rt := &Transport{Server: s}
		for i := range 60 {
			for {
				g := post(t, rt, "/api/v1/chat/completions", chat(fmt.Sprint(i)), "")
				if g.status == 200 {
					if g.header.Get("X-Ratelimit-Limit") != "" {
						t.Fatal("got limit headers on a success")
					}
					break
				}
				if g.status != 429 || g.header.Get("Retry-After") != "" || g.header.Get("X-Ratelimit-Limit") != "20" || !strings.Contains(g.body, "openrouter_free_tier_per_minute") {
					t.Fatalf("got %+v", g)
				}
				ms, err := strconv.ParseInt(g.header.Get("X-Ratelimit-Reset"), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(time.UnixMilli(ms)))
			}
		}
		if st := s.Stats(); st.LastSend < 89 || st.LastSend > 92 {
			t.Errorf("got %.1f s, want 89 to 92", st.LastSend)
		}
	})
}

func TestConcurrencyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Concurrency: 3, Latency: time.Second, Style: RetryAfter})
		rt := &Transport{Server: s}
		statuses := parallel(t, rt, 5, func(i int) string { return chat(fmt.Sprint(i)) }, nil)
		st := s.Stats()
		if statuses[200] != 3 || statuses[429] != 2 || st.Refused["concurrency"] != 2 || st.MaxInFlight != 3 || st.InFlight != 0 {
			t.Errorf("got %v, %+v", statuses, st)
		}
		if g := post(t, rt, "/v1/chat/completions", chat("later"), ""); g.status != 200 {
			t.Errorf("got %d after the others ended, want 200", g.status)
		}
	})
}

// parallel makes n calls at once and counts the statuses, 0 for an error.
func parallel(t *testing.T, rt http.RoundTripper, n int, body func(i int) string, key func(i int) string) map[int]int {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	statuses := map[int]int{}
	for i := range n {
		wg.Go(func() {
			k := ""
			if key != nil {
				k = key(i)
			}
			g := post(t, rt, "/v1/chat/completions", body(i), k)
			mu.Lock()
			defer mu.Unlock()
			statuses[g.status]++
		})
	}
	wg.Wait()
	return statuses
}

func TestCountRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{RPM: 2, Window: Sliding, CountRefused: true})
		rt := &Transport{Server: s}
		for range 4 {
			post(t, rt, "/v1/chat/completions", chat("x"), "")
			time.Sleep(20 * time.Second)
		}
		// Admitted at 0 and 20 s, refused at 40 s; at 60 s the first has left but the refused one still counts.
		if st := s.Stats(); st.Admitted != 2 || st.Refused["requests"] != 2 {
			t.Errorf("got %+v", st)
		}
	})
}

func TestTooLarge(t *testing.T) {
	s := New(Config{TPM: 100})
	g := post(t, &Transport{Server: s}, "/v1/chat/completions", `{"model":"m","max_tokens":200,"messages":[]}`, "")
	if g.status != 429 || !strings.Contains(g.body, "Request too large") || g.header.Get("Retry-After") != "" || g.header.Get("X-Should-Retry") != "false" || s.Stats().Refused["too_large"] != 1 {
		t.Errorf("got %+v", g)
	}
}

func TestCharges(t *testing.T) {
	const body = `{"model":"m","n":2,"max_completion_tokens":50,"messages":[{"role":"user","content":"0123456789ab\u00e9\ud83d\ude00\n日"}]}` // 4 + 16 characters
	for _, c := range []struct {
		cfg    Config
		body   string
		charge int64
	}{
		{Config{Accounting: Sum}, body, 6 + 100},
		{Config{Accounting: Max}, body, 100},
		{Config{Accounting: In}, body, 6},
		{Config{Accounting: None}, body, 0},
		{Config{Accounting: Sum, Count: func(string, string, []byte) int { return 40 }}, body, 140},
		{Config{Accounting: Max, Count: func(string, string, []byte) int { return 400 }}, body, 100},
		{Config{Accounting: Sum, Output: 20}, chat("abcd"), 3 + 20},
		{Config{Accounting: Sum, DefaultOutput: 7}, chat("abcd"), 3 + 7},
	} {
		s := New(c.cfg)
		post(t, &Transport{Server: s}, "/v1/chat/completions", c.body, "")
		if got := s.Stats().PeakTokens; got != c.charge {
			t.Errorf("%v: got a charge of %d, want %d", c.cfg.Accounting, got, c.charge)
		}
	}
}

func TestRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{TPM: 1000, Window: Sliding, Refund: true, Latency: time.Second, Output: 10})
		rt := &Transport{Server: s}
		body := `{"model":"m","max_tokens":900,"messages":[]}`
		post(t, rt, "/v1/chat/completions", body, "")
		g := post(t, rt, "/v1/chat/completions", body, "") // fits only because 890 came back
		if g.status != 200 || g.header.Get("X-Ratelimit-Remaining-Tokens") != strconv.Itoa(1000-11-901) {
			t.Errorf("got %d, remaining %q", g.status, g.header.Get("X-Ratelimit-Remaining-Tokens"))
		}
	})
}

// TestLedgerAgainstLog plays a random hour and reckons every figure again from the log.
func TestLedgerAgainstLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{
			RPM: 600, TPM: 30_000, Concurrency: 40, Window: Fixed, Latency: 2 * time.Second, LatencyJitter: time.Second, LatencySigma: 0.5,
			OutputJitter: 20, ErrorRate: 0.1, LostRate: 0.1, Seed: 7,
		})
		rt := &Transport{Server: s}
		rnd := rand.New(rand.NewPCG(8, 9))
		var wg sync.WaitGroup
		for range 3000 {
			i := rnd.IntN(500)
			wg.Go(func() { post(t, rt, "/v1/chat/completions", chat(fmt.Sprint(i)), fmt.Sprint("k", i)) })
			time.Sleep(time.Duration(rnd.Int64N(int64(150 * time.Millisecond))))
		}
		wg.Wait()
		st, log := s.Stats(), s.Log()
		var want Stats
		billed := map[string]int64{}
		var asked, requests, tokens []event
		for _, e := range log {
			at := e.Time.UnixNano()
			asked = append(asked, event{at, 1})
			if e.Refused != "" {
				want.RefusedSum++
				continue
			}
			requests, tokens = append(requests, event{at, 1}), append(tokens, event{at, e.Tokens})
			want.BilledTokens += int64(e.Billed)
			want.MaxInFlight = max(want.MaxInFlight, e.InFlight)
			if e.Billed > 0 {
				want.Billed++
				billed[e.Key]++
			}
			if e.Status == 200 {
				want.Answered++
			}
		}
		for _, n := range billed {
			if n > 1 {
				want.Twice.Operations++
				want.Twice.Extra += n - 1
			}
		}
		got := Stats{
			RefusedSum: st.RefusedSum, BilledTokens: st.BilledTokens, MaxInFlight: st.MaxInFlight, Billed: st.Billed, Answered: st.Answered,
			Twice: Twice{Operations: st.Twice.Operations, Extra: st.Twice.Extra},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("ledger %+v\nfrom the log %+v", got, want)
		}
		if st.Twice.Operations != st.TwiceBodies.Operations || st.Rekeyed != 0 || st.InFlight != 0 || st.Asked != 3000 || len(log) != 3000 || st.Asked != st.Admitted+st.RefusedSum {
			t.Errorf("got %+v", st)
		}
		if st.Lost == 0 || st.Faults["error"] == 0 || st.Faults["lost"] != st.Lost || st.RefusedSum == 0 {
			t.Errorf("the hour had no %+v", st)
		}
		minute := int64(time.Minute)
		if a, r, k := peakOf(asked, minute), peakOf(requests, minute), peakOf(tokens, minute); a != st.PeakAsked || r != st.PeakRequests || k != st.PeakTokens {
			t.Errorf("peaks: got %d %d %d, from the log %d %d %d", st.PeakAsked, st.PeakRequests, st.PeakTokens, a, r, k)
		}
	})
}

// peakOf is brutePeak of events in any order.
func peakOf(events []event, length int64) int64 {
	sortEvents(events)
	return brutePeak(events, length)
}
