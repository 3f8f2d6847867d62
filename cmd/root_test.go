package cmd

import (
	"bytes"
	"io"
	"strings"
	"syscall"
	"testing"
)

// brokenPipe has lost its reader.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestReaderThatLeaves: a command that only prints has nothing to go on with.
func TestReaderThatLeaves(t *testing.T) {
	for _, args := range []string{"version", "estimate ../testdata/tickets.jsonl", "run ../testdata/tickets.jsonl --dry-run --provider mock"} {
		var said bytes.Buffer
		env := docEnv(&said, strings.Fields(args))
		env.Stdout = brokenPipe{}
		if got := Main(env); got != exitInternal || !strings.Contains(said.String(), "reader of standard output has gone") || strings.Contains(said.String(), "to go on") {
			t.Errorf("%s: got status %d and %q, want %d and no word of going on", args, got, said.String(), exitInternal)
		}
	}
}

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
