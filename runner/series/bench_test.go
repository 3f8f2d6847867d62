package series

import (
	"encoding/json"
	"testing"
)

// BenchmarkSecond is what a run does each second once its points are full: one
// point, room for it, and the few for the snapshot.
func BenchmarkSecond(b *testing.B) {
	r := &Recorder{}
	r.Begin(0)
	now := int64(0)
	fill := func() map[uint64][]byte {
		now += second
		for i := range int64(200) {
			r.Now.Wait.Add(i * i)
		}
		r.Now.Calls += 200
		r.Now.Bound.Add("tpm", 900)
		r.Now.Uses = []Load{{1, 2}, {3, 4}}
		return r.Tick(now)
	}
	for range 3 * maxPoints {
		fill()
	}
	bytes := 0
	for b.Loop() {
		for _, v := range fill() {
			bytes += len(v)
		}
		few, err := json.Marshal(r.Few(150))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(few)), "snapshot-bytes")
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "stored-bytes/op")
}
