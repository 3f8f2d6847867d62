package runner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

// Runs that are stopped at random moments, against a server that fails, loses
// answers and refuses: whatever happens, each operation ends with one line,
// is billed once, and the limits hold across all the starts.
func TestStoppedRunsAgainstABadServer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := fake.Config{
				RPM: 120, Window: fake.Sliding, Latency: 2 * time.Second, LatencyJitter: time.Second,
				ErrorRate: 0.1, LostRate: 0.05, HonourKeys: true, Seed: seed, Count: tokensOf,
			}
			bubble(t, c, func(d *desk) {
				const n = 120
				d.input(mixed(n, 60)...)
				rnd := rand.New(rand.NewPCG(seed, 1))
				starts := 0
				for ; starts < 100; starts++ {
					ctx, stop := context.WithCancel(d.Context())
					timer := time.AfterFunc(time.Duration(rnd.IntN(30_000))*time.Millisecond, stop)
					s, err := Run(ctx, d.config(caps(100, 20_000), func(c *Config) { c.Grace = time.Duration(rnd.IntN(4000)) * time.Millisecond }))
					if err != nil {
						d.Fatal(err)
					}
					timer.Stop()
					d.agrees(s)
					if s.Stop == nil {
						break
					}
				}
				if starts == 0 {
					d.Error("the run was never stopped: the test shows nothing")
				}
				d.whole(ids(n)...)
				d.wantPeak(100, 20_000)
				if st := d.server.Stats(); st.TwiceBodies.Operations != 0 || st.Rekeyed != 0 || st.Billed != n {
					d.Errorf("%d calls were billed, %d operations twice, %d under two keys; want %d, 0, 0", st.Billed, st.TwiceBodies.Operations, st.Rekeyed, n)
				}
			})
		})
	}
}

// agrees checks the summary of a run against its checkpoint.
func (d *desk) agrees(s *Summary) {
	d.Helper()
	n := map[string]int64{}
	for _, op := range d.rows() {
		n[op.Status.String()]++
	}
	if s.Completed != n["completed"] || s.Failed != n["dead_letter"] || s.Unknown != n["unknown"] || n["in_flight"] != 0 {
		d.Errorf("the summary counts %d completed, %d failed, %d unknown; the checkpoint %v", s.Completed, s.Failed, s.Unknown, n)
	}
	if sum := s.Completed + s.Failed + s.Unknown + s.Pending + s.Skipped; sum != s.Operations || s.Pending < 0 {
		d.Errorf("the figures of the summary do not add up: %+v", s)
	}
}
