package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func testMeta() Meta {
	return Meta{
		InputName: "x.jsonl", InputSHA: "ab12", Salt: "5a17", Generation: 3,
		Settings: map[string]string{"model": "small"}, Created: time.Unix(1700000000, 5).UTC(),
	}
}

// testOperation returns an operation with every field set.
func testOperation(n int) *Operation {
	at := time.Unix(1700000000, int64(n))
	return &Operation{
		ID: fmt.Sprintf("request-%d", n), Status: Completed, Digest: [32]byte{1, 31: byte(n)}, Sum: 1 << 63, Line: n + 1,
		Key: "llmbatch-0123456789abcdef0123456789abcdef", Incarnation: 2, Provider: "openai", Model: "gpt-5-mini",
		Attempts: []Attempt{
			{At: at, Provider: "openai", Model: "gpt-5-mini", StatusCode: 429, Class: "rate_limited", RequestID: "req_1", Charge: Charge{1, 5000, 1000}, Sent: true},
			{At: at.Add(time.Second), Provider: "house", Sent: true},
		},
		NotBefore: at.Add(time.Minute), RequestID: "req_2", Usage: Usage{Input: 400, Output: 100, Cached: 20, Reasoning: 10, Known: true},
		Class: "server", Finish: "stop", Offset: 1 << 33, Length: 1064, CopyOf: "request-0", FromCache: true, Created: at, Finished: at.Add(time.Hour), LatencyMS: 812, Degraded: []string{"max_tokens:256", "trim:context:8000"},
	}
}

func create0(t testing.TB, o Options) (*Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.llmbatch.db")
	s, err := Create(path, testMeta(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s, path
}

func reopen(t testing.TB, s *Store, path string) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, Options{CommitGap: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func rows(t testing.TB, s *Store) []Operation {
	t.Helper()
	var all []Operation
	if err := s.All(func(op *Operation) error { all = append(all, *op); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRowsSurviveReopen(t *testing.T) {
	s, path := create0(t, Options{CommitGap: -1})
	var want []Operation
	for n := range 3 {
		op := testOperation(n)
		if err := s.Put(op); err != nil {
			t.Fatal(err)
		}
		if op.Seq != uint64(n+1) {
			t.Fatalf("got number %d, want %d", op.Seq, n+1)
		}
		want = append(want, *op)
	}
	bare := &Operation{ID: "bare"}
	if err := s.Put(bare); err != nil {
		t.Fatal(err)
	}
	want[1].Status = DeadLetter
	if err := s.Put(&want[1]); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s, path)
	if got := rows(t, s); !reflect.DeepEqual(got, append(want, *bare)) {
		t.Errorf("got  %+v\nwant %+v", got, append(want, *bare))
	}
	if got, ok, err := s.Get(2); err != nil || !ok || !reflect.DeepEqual(got, want[1]) {
		t.Errorf("Get(2) = %+v, %v, %v; want %+v", got, ok, err, want[1])
	}
	if _, ok, err := s.Get(99); ok || err != nil {
		t.Errorf("Get(99) = %v, %v; want none", ok, err)
	}
	if got, err := s.Meta(); err != nil || !reflect.DeepEqual(got, testMeta()) {
		t.Errorf("Meta = %+v, %v; want %+v", got, err, testMeta())
	}
	if err := s.Put(&Operation{Seq: 5}); err == nil {
		t.Error("a row under a number never given out was stored")
	}
	err := s.Put(&Operation{ID: "after"})
	if n := len(rows(t, s)); err != nil || n != 5 {
		t.Errorf("after a refused row: %v, %d rows; want 5", err, n)
	}
}

func TestCallbacks(t *testing.T) {
	s, path := create0(t, Options{CommitGap: -1})
	for range 2 {
		if err := s.Put(&Operation{ID: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	s = reopen(t, s, path)
	stop, calls := errors.New("stop"), 0
	if err := s.All(func(*Operation) error { calls++; return stop }); !errors.Is(err, stop) || calls != 1 {
		t.Errorf("All = %v after %d calls; want %v after 1", err, calls, stop)
	}
	panics := func(name string, fn func()) {
		t.Helper()
		defer func() {
			if r := recover(); r != "mine" {
				t.Errorf("%s: recovered %v; want the callback's own panic", name, r)
			}
		}()
		fn()
	}
	panics("All", func() { _ = s.All(func(*Operation) error { panic("mine") }) })
	panics("Edit", func() { _ = s.Edit(nil, func(*Operation) bool { panic("mine") }) })
	if got := rows(t, s); len(got) != 2 {
		t.Errorf("a panic in Edit's callback left %d rows, want 2", len(got))
	}
	if err := s.Put(&Operation{ID: "b"}); err != nil {
		t.Errorf("after panics in callbacks: %v", err)
	}
}

func TestConcurrentPut(t *testing.T) {
	s, path := create0(t, Options{CommitGap: time.Millisecond})
	var wg sync.WaitGroup
	for w := range 50 {
		wg.Go(func() {
			for i := range 20 {
				op := &Operation{ID: fmt.Sprintf("%d-%d", w, i), Status: InFlight}
				if err := s.Put(op); err != nil {
					t.Error(err)
					return
				}
				op.Status = Completed
				if err := s.Put(op); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s = reopen(t, s, path)
	ids := make(map[string]bool)
	for _, op := range rows(t, s) {
		ids[op.ID] = op.Status == Completed
	}
	for id, completed := range ids {
		if !completed {
			t.Errorf("%s lost its second row", id)
		}
	}
	if len(ids) != 1000 {
		t.Errorf("got %d operations, want 1000", len(ids))
	}
}

func TestExclusion(t *testing.T) {
	s, path := create0(t, Options{CommitGap: -1})
	began := time.Now()
	if _, err := Open(path, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("second Open = %v, want ErrLocked", err)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("it took %v, want at most 1 s", d)
	}
	if _, err := OpenReadOnly(path); !errors.Is(err, ErrLocked) {
		t.Errorf("OpenReadOnly = %v, want ErrLocked", err)
	}
	if _, err := Create(path, testMeta(), Options{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create = %v, want ErrExist", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close = %v", err)
	}
	if err := s.Put(&Operation{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Put after Close = %v, want ErrClosed", err)
	}
	if err := s.All(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("All after Close = %v, want ErrClosed", err)
	}
	for range 2 { // readers share
		r, err := OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := r.Put(&Operation{}); !errors.Is(err, ErrReadOnly) {
			t.Errorf("Put = %v, want ErrReadOnly", err)
		}
		if err := r.Edit(nil, nil); !errors.Is(err, ErrReadOnly) {
			t.Errorf("Edit = %v, want ErrReadOnly", err)
		}
	}
}

func TestFileMode(t *testing.T) {
	s, path := create0(t, Options{CommitGap: -1})
	mode := func() fs.FileMode {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if got := mode(); got != 0o600 {
		t.Errorf("created with %v, want 0600", got)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	reopen(t, s, path)
	if got := mode(); got != 0o600 {
		t.Errorf("after opening %v, want 0600", got)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("the folder holds %v, want the checkpoint alone", entries)
	}
}

func TestMissingAndNotAFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "none"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of nothing = %v, want ErrNotExist", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("it left %v", entries)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrNotFile) {
		t.Errorf("Open of a folder = %v, want ErrNotFile", err)
	}
	if _, err := Create(filepath.Join(dir, "no", "x.db"), testMeta(), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Create in a missing folder = %v, want ErrNotExist", err)
	}
}

func TestSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.llmbatch.db")
	if _, err := ReadSnapshot(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	want := &Snapshot{PID: 7, Updated: time.Unix(5, 0).UTC(), Counts: map[string]int{"completed": 3}, OutputBytes: 9}
	for range 2 {
		if err := WriteSnapshot(path, want); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := ReadSnapshot(path); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if got := SnapshotPath("a/x.llmbatch.db"); got != "a/x.llmbatch.status.json" {
		t.Errorf("path %q", got)
	}
	for range 2 {
		if err := RemoveSnapshot(path); err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	for _, callers := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s, _ := create0(b, Options{})
			defer s.Close()
			var next atomic.Int64
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					op := testOperation(1)
					for next.Add(1) <= int64(b.N) {
						op.Seq = 0
						if err := s.Put(op); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
