//go:build linux

package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// crashEnv names the checkpoint that the test binary, started again, is to write to until it is killed.
const crashEnv = "LLMBATCH_TEST_CHECKPOINT"

func TestKilledWhileWriting(t *testing.T) {
	if path := os.Getenv(crashEnv); path != "" {
		writeUntilKilled(path)
		return
	}
	s, path := create0(t, Options{CommitGap: -1})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	acked := make(map[string]string) // operation ID to the status that was acknowledged last
	for round := range 10 {
		writeAndKill(t, path, 200+97*round, acked)
		s, err := Open(path, Options{CommitGap: -1})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		stored := make(map[string]Status)
		for _, op := range rows(t, s) {
			stored[op.ID] = op.Status
		}
		if s.Recovered() {
			t.Errorf("round %d: a damaged meta page", round)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for id, status := range acked {
			got, ok := stored[id]
			if !ok || status == Completed.String() && got != Completed {
				t.Errorf("round %d: %s was acknowledged as %s and is stored as %v, %v", round, id, status, got, ok)
			}
		}
	}
	if len(acked) < 1000 {
		t.Errorf("only %d operations were acknowledged", len(acked))
	}
}

// writeAndKill starts a writer and kills it after so many acknowledgements.
func writeAndKill(t *testing.T, path string, after int, acked map[string]string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileWriting$")
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
		id, status, ok := strings.Cut(lines.Text(), " ")
		if !ok {
			t.Fatalf("the writer said %q", lines.Text())
		}
		acked[id] = status
		if n == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed
}

func writeUntilKilled(path string) {
	s, err := Open(path, Options{CommitGap: -1})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var wg sync.WaitGroup
	for w := range 20 {
		wg.Go(func() {
			for i := 0; ; i++ {
				op := testOperation(i)
				op.ID = fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)
				for _, status := range []Status{InFlight, Completed} {
					op.Status = status
					if err := s.Put(op); err != nil {
						fmt.Println(err)
						os.Exit(1)
					}
					fmt.Println(op.ID, status)
				}
			}
		})
	}
	wg.Wait()
}

// fill puts rows until one fails, and returns how many were stored and the failure.
func fill(s *Store) (stored int, err error) {
	for stored < 100_000 {
		ops := []*Operation{testOperation(1), testOperation(2), testOperation(3), testOperation(4)}
		if err := s.PutAll(ops, nil); err != nil {
			return stored, err
		}
		stored += len(ops)
	}
	return stored, nil
}

// checkFull fills the disk below s and then makes room again.
func checkFull(t *testing.T, s *Store, path string, want error, makeRoom func()) {
	t.Helper()
	stored, err := fill(s)
	if !errors.Is(err, want) {
		t.Fatalf("after %d rows: %v, want %v", stored, err, want)
	}
	if err := s.Put(testOperation(1)); !errors.Is(err, ErrFailed) || !errors.Is(err, want) {
		t.Errorf("next Put = %v, want ErrFailed with its cause", err)
	}
	makeRoom()
	if err := s.Put(testOperation(1)); !errors.Is(err, ErrFailed) {
		t.Errorf("Put with room again = %v, want ErrFailed", err)
	}
	s = reopen(t, s, path)
	if got := len(rows(t, s)); got < stored || got > stored+4 {
		t.Errorf("%d rows after reopening, want the %d acknowledged and at most those of one write more", got, stored)
	}
	if err := s.Put(testOperation(1)); err != nil {
		t.Errorf("after reopening: %v", err)
	}
}

// limitFiles returns what sets the size that no file can grow beyond, which to a writer is as a full disk (the error is
// EFBIG, not ENOSPC), and what lifts it. It holds for the whole process, until the test ends.
func limitFiles(t *testing.T) (set func(bytes uint64), lift func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	t.Cleanup(func() { signal.Reset(syscall.SIGXFSZ) })
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	set = func(bytes uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: old.Max}); err != nil {
			t.Fatal(err)
		}
	}
	lift = func() { set(old.Cur) }
	t.Cleanup(lift)
	return set, lift
}

func TestDiskFull(t *testing.T) {
	s, path := create0(t, Options{CommitGap: -1})
	limit, lift := limitFiles(t)
	limit(200_000)
	checkFull(t, s, path, syscall.EFBIG, lift)
}

func TestCreateOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	limit, _ := limitFiles(t)
	limit(4096)
	if _, err := Create(filepath.Join(dir, "x.db"), testMeta(), Options{}); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("got %v, want EFBIG", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("it left %v", entries)
	}
}

func TestEditOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	s, err := Create(path, testMeta(), Options{CommitGap: -1})
	if err != nil {
		t.Fatal(err)
	}
	ops := make([]*Operation, 900)
	for i := range ops {
		ops[i] = testOperation(i)
	}
	if err := s.PutAll(ops, nil); err != nil {
		t.Fatal(err)
	}
	before := rows(t, s)
	limit, lift := limitFiles(t)
	limit(100_000) // the file is larger, and so is the one that Edit makes
	if err := s.Edit(nil, func(op *Operation) bool { op.Offset = 1; return true }); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("got %v, want EFBIG", err)
	}
	lift()
	s = reopen(t, s, path)
	if !reflect.DeepEqual(rows(t, s), before) {
		t.Error("a failed Edit changed rows")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("it left %v", entries)
	}
}

func TestFailedCommitIsFinal(t *testing.T) {
	s, _ := create0(t, Options{CommitGap: -1})
	if err := s.db.Load().Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Put(testOperation(1)); err == nil {
			t.Error("a row was stored in a closed file")
		}
	}
	if err := s.Put(testOperation(1)); !errors.Is(err, ErrFailed) {
		t.Errorf("got %v, want ErrFailed", err)
	}
	_ = s.Close()
}
