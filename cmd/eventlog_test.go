package cmd

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmbatch/llmbatch/runner"
)

// TestLogThatFailsStopsTheRun: what cannot be logged any more is not lost in
// silence.
func TestLogThatFailsStopsTheRun(t *testing.T) {
	o := &observeOptions{logFile: filepath.Join(t.TempDir(), "run.log"), logFormat: "text", logLevel: "info"}
	var stopped []error
	l, err := o.openLog(func(err error) { stopped = append(stopped, err) })
	if err != nil {
		t.Fatal(err)
	}
	l.started(runner.Paths{})
	if len(stopped) != 0 {
		t.Fatalf("stopped by a log that works: %v", stopped)
	}
	if err := l.file.Close(); err != nil { // as a disk that is full from now on
		t.Fatal(err)
	}
	l.observe(runner.Event{What: runner.Completed, Op: "a"})
	l.observe(runner.Event{What: runner.Completed, Op: "b"})
	if len(stopped) != 1 || !strings.Contains(stopped[0].Error(), "run.log") {
		t.Errorf("stopped by %v, want once, with the file's name", stopped)
	}
	if err := l.close(); err == nil || err != stopped[0] {
		t.Errorf("close gave %v, want the first error", err)
	}
}
