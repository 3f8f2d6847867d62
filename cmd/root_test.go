package cmd

import (
	"io"
	"strings"
	"syscall"
	"testing"
)

// fullDevice takes nothing.
type fullDevice struct{}

func (fullDevice) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestOutputThatCannotBeWritten: no command ends with 0 when nobody got what it
// printed.
func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, args := range []string{"version", "version --json", "--help", "run --help", "completion bash", "config show ../testdata/routes/support.yaml", "estimate ../testdata/tickets.jsonl"} {
		var said strings.Builder
		env := Env{
			Args: strings.Fields(args), Stdin: strings.NewReader(""), Stdout: fullDevice{}, Stderr: &said,
			Getenv: func(string) string { return "" }, IsTTY: func() bool { return false }, StdoutIsTTY: func() bool { return false },
			Width: func() int { return 0 }, StdoutSize: func() (int, int) { return 0, 0 },
		}
		if got := Main(env); got != exitInternal || !strings.Contains(said.String(), "no space left") {
			t.Errorf("%s: got status %d and %q, want %d and the reason", args, got, said.String(), exitInternal)
		}
		env.Stdout = io.Discard
		if got := Main(env); got != exitOK {
			t.Errorf("%s: got status %d, want 0", args, got)
		}
	}
}
