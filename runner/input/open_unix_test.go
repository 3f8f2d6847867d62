//go:build unix

package input

import (
	"context"
	"errors"
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
	f, err := Open(t.Context(), fifo, nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := streamName(twoLines)
	checkSpool(t, f, want, filepath.Join(dir, want), twoLines)
}

// TestOpenStops ends a wait for a writer, and one for more of what it writes.
func TestOpenStops(t *testing.T) {
	for _, writes := range []bool{false, true} {
		dir := t.TempDir()
		fifo := filepath.Join(dir, "pipe")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := Open(ctx, fifo, nil, dir)
			failed <- err
		}()
		if writes {
			w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits for the reader
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if _, err := w.WriteString("{"); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("writes %t: got %v, want cancelled", writes, err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("writes %t: got %v, want the pipe alone", writes, left)
		}
		if !writes {
			// Lets the open that was left behind go.
			if w, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				_ = w.Close()
			}
		}
	}
}
