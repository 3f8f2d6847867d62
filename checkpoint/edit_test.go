package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"
)

func TestPutAllAndEdit(t *testing.T) {
	s, path := create0(t, Options{CommitGap: -1})
	if err := s.PutAll(nil, nil); err != nil {
		t.Fatal(err)
	}
	const n = 3000
	ops := make([]*Operation, n)
	for i := range ops {
		ops[i] = &Operation{ID: fmt.Sprint(i), Status: InFlight}
	}
	if err := s.PutAll(ops, nil); err != nil {
		t.Fatal(err)
	}
	err := s.PutAll([]*Operation{{ID: "new"}, {Seq: n + 9}}, nil)
	if got := len(rows(t, s)); err == nil || got != n {
		t.Fatalf("a wrong number: %v, %d rows; want %d", err, got, n)
	}
	m := testMeta()
	m.Generation++
	err = s.Edit(&m, func(op *Operation) bool {
		op.Status, op.Offset = Unknown, int64(op.Seq)*1000
		return op.Seq%2 == 0
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("the new file is not locked: %v", err)
	}
	if err := s.Put(&Operation{ID: "after"}); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("the folder holds %v", entries)
	}
	s = reopen(t, s, path)
	all := rows(t, s)
	if len(all) != n+1 || all[n].ID != "after" {
		t.Fatalf("%d rows, want %d", len(all), n+1)
	}
	for i, op := range all[:n] {
		want := Operation{Seq: uint64(i + 1), ID: fmt.Sprint(i), Status: InFlight}
		if op.Seq%2 == 0 {
			want.Status, want.Offset = Unknown, int64(op.Seq)*1000
		}
		if !reflect.DeepEqual(op, want) {
			t.Fatalf("got %+v, want %+v", op, want)
		}
	}
	if got, err := s.Meta(); err != nil || got.Generation != m.Generation {
		t.Errorf("generation %d, %v; want %d", got.Generation, err, m.Generation)
	}
}

// TestCrashInEdit: what a crash left of the new file does not stay on the disk.
func TestCrashInEdit(t *testing.T) {
	s, path := create0(t, Options{CommitGap: -1})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + ".new"); !os.IsNotExist(err) {
		t.Errorf("the new file is still there: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReadersDuringEdit reads while the file is replaced: no reader may see a closed file or a mixture.
func TestReadersDuringEdit(t *testing.T) {
	s, _ := create0(t, Options{CommitGap: -1})
	defer s.Close()
	ops := make([]*Operation, 500)
	for i := range ops {
		ops[i] = &Operation{ID: "a"}
	}
	if err := s.PutAll(ops, nil); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				first, n := int64(-1), 0
				err := s.All(func(op *Operation) error {
					if n++; first < 0 {
						first = op.Offset
					}
					if op.Offset != first {
						return fmt.Errorf("row %d is of another edit", op.Seq)
					}
					return nil
				})
				if err != nil || n != len(ops) {
					t.Errorf("%d rows, %v", n, err)
					return
				}
			}
		})
	}
	for range 20 {
		if err := s.Edit(nil, func(op *Operation) bool { op.Offset++; return true }); err != nil {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
}

// million makes a checkpoint of a million rows.
func million(b *testing.B) (s *Store, path string) {
	s, path = create0(b, Options{CommitGap: -1})
	ops := make([]*Operation, 10_000)
	for i := range ops {
		ops[i] = testOperation(i)
		ops[i].Attempts = ops[i].Attempts[:1]
	}
	for range 100 {
		for i := range ops {
			ops[i].Seq = 0
		}
		if err := s.PutAll(ops, nil); err != nil {
			b.Fatal(err)
		}
	}
	return s, path
}

func BenchmarkEditMillion(b *testing.B) {
	s, _ := million(b)
	defer s.Close()
	for b.Loop() {
		if err := s.Edit(nil, func(op *Operation) bool { op.Offset++; return true }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenAndReadMillion(b *testing.B) {
	s, path := million(b)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	var opening, reading time.Duration
	for b.Loop() {
		began := time.Now()
		s, err := Open(path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		opening += time.Since(began)
		began = time.Now()
		n := 0
		if err := s.All(func(*Operation) error { n++; return nil }); err != nil || n != 1_000_000 {
			b.Fatal(n, err)
		}
		reading += time.Since(began)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(info.Size())/1e6, "file-B/row")
	b.ReportMetric(opening.Seconds()/float64(b.N), "s-open")
	b.ReportMetric(reading.Seconds()/float64(b.N), "s-read")
}
