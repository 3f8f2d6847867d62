package runner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/queue"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// BenchmarkScheduler is what the decisions on one operation cost, with a full
// queue: from its entry to its being stored.
func BenchmarkScheduler(b *testing.B) {
	for name, limits := range map[string]limit.Limits{
		"learned": {},
		"given":   {RPM: limit.Cap{N: 1 << 40, Set: true}, TPM: limit.Cap{N: 1 << 50, Set: true}},
	} {
		b.Run(name, func(b *testing.B) {
			now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			s := newScheduler(&Config{Targets: []Target{{Limits: limits}}, Policy: retry.Policy{}.OrDefaults()}, &plan{}, now)
			resp := &provider.Response{Usage: provider.Usage{Input: 20, Output: 14, Known: true}, Rate: provider.NoRate()}
			enter := func() {
				j := &job{tokens: estimate.Tokens{Prompt: 20, MaxOutput: 32}, rec: input.Record{API: "/chat/completions"}}
				s.push(now, j)
			}
			for range queue.LookAhead {
				enter()
			}
			b.ReportAllocs()
			for b.Loop() {
				j, wake := s.next(now)
				for ; j == nil; j, wake = s.next(now) { // calls are spread over a round trip
					now = wake
				}
				s.sent(now, j)
				now = now.Add(20 * time.Microsecond)
				resp.SentAt, resp.Done = now, now
				s.answered(now, j, resp)
				s.stored(j, verdict{status: checkpoint.Completed})
				enter()
			}
		})
	}
}

// BenchmarkRun is a whole run of 5,000 operations against a server in this
// process: pre-flight, rows, results and all.
func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		benchRun(b, 5000)
	}
	b.ReportMetric(5000*float64(b.N)/b.Elapsed().Seconds(), "op/s")
}

func benchRun(b *testing.B, n int) {
	dir := b.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("x.jsonl"), []byte(strings.Join(prompts(n), "\n")), 0o600); err != nil {
		b.Fatal(err)
	}
	client, err := NewClient(Endpoint{
		Profile: profile(), BaseURL: "http://127.0.0.1/v1",
		Transport: provider.TransportOptions{RoundTripper: &fake.Transport{Server: fake.New(fake.Config{})}},
	})
	if err != nil {
		b.Fatal(err)
	}
	f, err := input.Open(context.Background(), at("x.jsonl"), nil, dir)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	c := &Config{
		Input: f, Settings: &input.Settings{Model: "small"}, Counter: counter, Grace: time.Minute, Notice: func(string) {},
		Paths: Paths{
			Input: at("x.jsonl"), Output: at("x.results.jsonl"), Errors: at("x.errors.jsonl"),
			Superseded: at("x.superseded.jsonl"), Checkpoint: at("x.llmbatch.db"),
		},
		Targets: []Target{{Provider: "mock", BaseURL: "http://127.0.0.1/v1", Client: client}},
	}
	s, err := Run(context.Background(), c)
	if err != nil || s.Completed != int64(n) {
		b.Fatalf("got %+v, %v, want %d operations completed", s, err, n)
	}
}
