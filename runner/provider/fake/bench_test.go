package fake

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// discard is a ResponseWriter that keeps nothing.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkHandler measures a call of 1 KB with limits, headers and the ledger on, without a socket. The mock must not
// be the bottleneck of a run: the goal is 25,000 calls a second on two cores.
func BenchmarkHandler(b *testing.B) {
	s := New(Config{RPM: 1 << 30, TPM: 1 << 40, Window: Sliding, LogMax: -1})
	pad := strings.Repeat("lorem ipsum ", 75)
	var serial atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		w := &discard{h: http.Header{}}
		for pb.Next() {
			r, _ := http.NewRequest(http.MethodPost, "http://fake/v1/chat/completions",
				strings.NewReader(`{"model":"gpt-4o","max_tokens":64,"messages":[{"role":"user","content":"`+hexID(uint64(serial.Add(1)))+pad+`"}]}`))
			r.Body = io.NopCloser(r.Body)
			clear(w.h)
			s.ServeHTTP(w, r)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
