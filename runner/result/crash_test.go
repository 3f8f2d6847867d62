//go:build linux

package result

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// crashEnv names the file that the test binary, started again, is to append to until it is killed.
const crashEnv = "LLMBATCH_TEST_RESULTS"

func TestKilledWhileAppending(t *testing.T) {
	if path := os.Getenv(crashEnv); path != "" {
		appendUntilKilled(path)
		return
	}
	path := tempFile(t, "")
	acked := make(map[string]Span)
	for round := range 10 {
		appendAndKill(t, path, 200+61*round, acked)
		if round%2 == 1 { // a kill rarely tears a write of this size: tear the last line ourselves
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(shortLine("torn")[:1+info.Size()%50]); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		}
		w := openWriter(t, path)
		err := w.Tail(0, func(sc Scanned) error {
			if sc.Err != nil {
				t.Errorf("round %d: line %d: %v", round, sc.Number, sc.Err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		checkAcked(t, path, acked)
	}
	if len(acked) < 2000 {
		t.Errorf("only %d lines were acknowledged", len(acked))
	}
}

func checkAcked(t *testing.T, path string, acked map[string]Span) {
	t.Helper()
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var buf []byte
	for op, span := range acked {
		if buf, err = r.Raw(span, buf); err != nil || string(buf) != shortLine(op) {
			t.Errorf("operation %s is not at %+v: %q, %v", op, span, buf, err)
		}
	}
}

// appendAndKill starts a writer and kills it after so many acknowledgements.
func appendAndKill(t *testing.T, path string, after int, acked map[string]Span) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileAppending$")
	cmd.Env = append(os.Environ(), crashEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		var op string
		var span Span
		if _, err := fmt.Sscan(lines.Text(), &op, &span.Offset, &span.Length); err != nil {
			t.Fatalf("the writer said %q", lines.Text())
		}
		acked[op] = span
		if n == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed
}

func appendUntilKilled(path string) {
	w, err := Open(path)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			for i := 0; ; i++ {
				op := fmt.Sprintf("%d-%d-%d-%s", os.Getpid(), n, i, strings.Repeat("x", 50*n))
				span, err := w.Append([]byte(shortLine(op)))
				if err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
				fmt.Println(op, span.Offset, span.Length)
			}
		})
	}
	wg.Wait()
}

// checkFull appends until the disk is full, makes room, and opens the file again.
func checkFull(t *testing.T, path string, want error, makeRoom func()) {
	t.Helper()
	w := openWriter(t, path)
	acked := make(map[string]Span)
	var err error
	for n := 0; err == nil; n++ {
		var span Span
		op := fmt.Sprint(n)
		if span, err = w.Append([]byte(shortLine(op))); err == nil {
			acked[op] = span
		}
	}
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	if got := content(t, path); !strings.HasSuffix(got, "}\n") {
		t.Errorf("the full file ends in %q", got[len(got)-20:])
	}
	makeRoom()
	if _, err := w.Append([]byte(shortLine("x"))); !errors.Is(err, ErrFailed) {
		t.Errorf("with room again: %v, want ErrFailed", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = openWriter(t, path)
	if w.Repaired() != (Repair{}) {
		t.Errorf("a torn line was left: %+v", w.Repaired())
	}
	if _, err := w.Append([]byte(shortLine("x"))); err != nil {
		t.Errorf("after opening again: %v", err)
	}
	checkAcked(t, path, acked)
}

// TestDiskFull has a size that no file can grow beyond in place of a full disk: to a writer it is as one, but that
// the error is EFBIG.
func TestDiskFull(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	t.Cleanup(func() { signal.Reset(syscall.SIGXFSZ) })
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limit := func(n uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: old.Max}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { limit(old.Cur) })
	limit(50_000)
	checkFull(t, tempFile(t, ""), syscall.EFBIG, func() { limit(old.Cur) })
}
