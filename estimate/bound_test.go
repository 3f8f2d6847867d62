package estimate

import (
	"testing"
	"time"
)

func TestBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		batch          Batch
		window, bucket Lower
	}{
		{"nothing to do", Batch{RPM: 1, Latency: time.Second}, Lower{0, "none"}, Lower{0, "none"}},
		{"no limits", Batch{Ops: 1000, Tokens: 5, Latency: time.Second}, Lower{time.Second, "none"}, Lower{time.Second, "none"}},
		{
			"ten windows of requests",
			Batch{Ops: 6000, Tokens: 6000, RPM: 600, TPM: 300000, Latency: 2 * time.Second},
			Lower{542 * time.Second, "rpm"},
			Lower{542 * time.Second, "rpm"},
		},
		{
			"tokens, eleven windows and a bit",
			Batch{Ops: 600, Tokens: 3301200, RPM: 600, TPM: 300000},
			Lower{660 * time.Second, "tpm"},
			Lower{600*time.Second + 240*time.Millisecond, "tpm"},
		},
		{
			"24 calls a minute",
			Batch{Ops: 48, Tokens: 48 * 5000, RPM: 600, TPM: 120000},
			Lower{60 * time.Second, "tpm"},
			Lower{60 * time.Second, "tpm"},
		},
		{
			"equal windows",
			Batch{Ops: 250, Tokens: 29000, RPM: 100, TPM: 10000},
			Lower{120 * time.Second, "tpm"},
			Lower{114 * time.Second, "tpm"},
		},
		{"within one window", Batch{Ops: 60, RPM: 60, Latency: time.Second}, Lower{time.Second, "none"}, Lower{time.Second, "none"}},
		{
			"a day's requests",
			Batch{Ops: 201, RPM: 20, RPD: 100},
			Lower{48 * time.Hour, "rpd"},
			Lower{24 * time.Hour * 101 / 100, "rpd"},
		},
		{
			"a day's tokens",
			Batch{Ops: 3, Tokens: 300, TPD: 100, RPD: 100},
			Lower{48 * time.Hour, "tpd"},
			Lower{48 * time.Hour, "tpd"},
		},
		{
			"concurrency",
			Batch{Ops: 101, RPM: 100, Concurrency: 10, Latency: 10 * time.Second},
			Lower{110 * time.Second, "concurrency"},
			Lower{110 * time.Second, "concurrency"},
		},
		{
			"beyond what a duration holds",
			Batch{Ops: 1 << 62, RPD: 1, Latency: time.Second},
			Lower{1<<62 - 1, "rpd"},
			Lower{1<<62 - 1, "rpd"},
		},
	} {
		if got := WindowBound(c.batch); !near(got, c.window) {
			t.Errorf("%s: window: got %v, want %v", c.name, got, c.window)
		}
		if got := BucketBound(c.batch); !near(got, c.bucket) {
			t.Errorf("%s: bucket: got %v, want %v", c.name, got, c.bucket)
		}
	}
}

func near(a, b Lower) bool {
	d := a.Duration - b.Duration
	return a.Limit == b.Limit && d <= time.Microsecond && d >= -time.Microsecond
}
