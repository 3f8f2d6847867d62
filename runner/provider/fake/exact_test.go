package fake

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLedgerExact mixes APIs, models, faults, streams and clients that give up: every call is in one account only, and
// the log adds up to the totals.
func TestLedgerExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{
			RPM: 3000, TPM: 60_000, ITPM: 30_000, OTPM: 30_000, Concurrency: 60, Window: Sliding, Latency: 2 * time.Second, LatencyJitter: time.Second,
			OutputJitter: 20, ErrorRate: 0.05, ErrorMax: 20, LostRate: 0.05, HonourKeys: true, LogMax: 5000,
			PerModel: map[string]Config{"m1": {RPM: 100, FailFirst: 3, Latency: time.Second, Style: OpenRouter}, "m2": {DownFrom: 300, DownUntil: 400}},
		})
		rt := &Transport{Server: s, HeaderTimeout: 20 * time.Second}
		faults := []string{"", "", "", "500", "lost", "truncated", "short", "stream_cut=3", "stream_end", "stream_error", "stream_undone", "stream_stall=1", "stream_open", "hang", "quota", "empty", "keepalive=3s"}
		rnd := rand.New(rand.NewPCG(1, 2))
		var wg sync.WaitGroup
		for i := range 1200 {
			a := streamed[rnd.IntN(len(streamed))]
			prompt := fmt.Sprint(i%900, " words")
			if f := faults[rnd.IntN(len(faults))]; f != "" {
				prompt += "[[fault:" + f + "]]"
			}
			body := ask(a.body, prompt)
			if a.name != "gemini" {
				body = fmt.Sprintf(`{"model":"m%d",`, i%3) + body[len(`{"model":"m",`):]
			}
			patience, start := time.Duration(rnd.IntN(60_000))*time.Millisecond, time.Duration(rnd.IntN(50_000))*time.Millisecond
			wg.Go(func() {
				<-time.After(start)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				native(ctx, t, rt, a.path, body)
			})
		}
		wg.Wait()
		synctest.Wait()
		st := s.Stats()
		var models ModelStats
		for _, m := range st.Models {
			models.Asked += m.Asked
			models.Billed += m.Billed
			models.Tokens += m.Tokens
			models.Answered += m.Answered
		}
		var statuses, billed, output, tokens int64
		for _, n := range st.Statuses {
			statuses += n
		}
		for _, e := range s.Log() {
			billed, output, tokens = billed+int64(e.Billed), output+int64(e.Output), tokens+e.Tokens
		}
		for name, pair := range map[string][2]int64{
			"asked":         {st.Asked, st.Admitted + st.RefusedSum + st.Rejected + st.Duplicates},
			"statuses":      {st.Asked, statuses},
			"log":           {st.Asked, int64(len(s.Log()))},
			"billed":        {st.Billed, st.Answered + st.Lost + st.Abandoned},
			"billed tokens": {st.BilledTokens, billed}, "input and output": {st.BilledTokens, st.InputTokens + st.OutputTokens},
			"output": {st.OutputTokens, output}, "charged": {st.Charged, tokens}, "in flight": {int64(st.InFlight), 0},
			"models asked": {st.Asked, models.Asked}, "models billed": {st.Billed, models.Billed}, "models tokens": {st.BilledTokens, models.Tokens},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s: got %d and %d: %+v", name, pair[0], pair[1], st)
			}
		}
		if st.Answered < 100 || st.Lost < 100 || st.Abandoned < 20 || st.RefusedSum < 100 || st.Rejected == 0 {
			t.Errorf("got too little of something: %+v", st)
		}
	})
}
