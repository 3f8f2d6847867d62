package cmd

import (
	"testing"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/limit"
)

func TestFitFiles(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		provider              string
		files, calls, allowed int
		told                  string
	}{
		{"room for all", "openai", 20000, 10000, 10000, ""},
		{"no limit", "openai", 0, 10000, 10000, ""},
		{"not given, and room", "openai", 2048, 0, 0, ""},
		{"few", "openai", 64, 100, 32, "64 files may be open at once (ulimit -n): at most 32 calls on the wire, not 100; raise the limit for more"},
		{"not given", "openai", 256, 0, 224, "256 files may be open at once (ulimit -n): at most 224 calls on the wire, not 1,024; raise the limit for more"},
		{"next to none", "openai", 20, 8, 1, "20 files may be open at once (ulimit -n): at most 1 call on the wire, not 8; raise the limit for more"},
		{"inside this process", "mock", 64, 100, 100, ""},
	} {
		cfg := &runner.Config{Targets: []runner.Target{{Provider: tt.provider, Limits: limit.Limits{Concurrency: tt.calls}}}}
		told := ""
		fitFiles(cfg, tt.files, func(s string) { told = s })
		if got := cfg.Targets[0].Limits.Concurrency; got != tt.allowed || told != tt.told {
			t.Errorf("%s: got %d calls and %q, want %d and %q", tt.name, got, told, tt.allowed, tt.told)
		}
	}
}
