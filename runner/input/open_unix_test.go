//go:build unix

package input

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestOpenFIFO(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(fifo, []byte(twoLines), 0o600) }()
	f, err := Open(fifo, nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := streamName(twoLines)
	checkSpool(t, f, want, filepath.Join(dir, want), twoLines)
}
