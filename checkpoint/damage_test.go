package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// sample makes a checkpoint with branch pages, free pages and rows stored twice, and returns its bytes, its rows, and
// its rows before the last commit.
func sample(t testing.TB) (file []byte, last, before []Operation) {
	t.Helper()
	s, path := create0(t, Options{CommitGap: -1})
	var ops []*Operation
	for n := range 150 {
		ops = append(ops, testOperation(n))
		ops[n].Attempts = ops[n].Attempts[:n%3]
	}
	if err := s.PutAll(ops, nil); err != nil {
		t.Fatal(err)
	}
	for n := 10; n < 100; n += 30 {
		ops[n].RequestID = "again"
		if err := s.Put(ops[n]); err != nil {
			t.Fatal(err)
		}
	}
	before = rows(t, s)
	ops[140].Status = DeadLetter
	if err := s.Put(ops[140]); err != nil {
		t.Fatal(err)
	}
	last = rows(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file, last, before
}

// judge opens a damaged file: it must give a typed error or right rows, and then take a new row.
func judge(t *testing.T, what string, file []byte, last, before []Operation) (opened bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	typed := func(err error) bool { return errors.Is(err, ErrDamaged) || errors.Is(err, ErrVersion) }
	s, err := Open(path, Options{CommitGap: -1})
	if err != nil {
		if !typed(err) {
			t.Errorf("%s: %v, want ErrDamaged", what, err)
		}
		// The lock is free again: the file can be moved aside.
		if _, err := Open(path, Options{}); errors.Is(err, ErrLocked) {
			t.Errorf("%s: still locked after a failed Open", what)
		}
		return false
	}
	defer s.Close()
	var got []Operation
	if err := s.All(func(op *Operation) error { got = append(got, *op); return nil }); err != nil {
		if !typed(err) {
			t.Errorf("%s: All = %v, want ErrDamaged", what, err)
		}
		return false
	}
	want := last
	if s.Recovered() && reflect.DeepEqual(got, before) {
		want = before
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: opened with wrong rows (%d of %d)", what, len(got), len(want))
		return true
	}
	if err := s.Put(&Operation{ID: "new"}); err != nil {
		t.Errorf("%s: it opens, and then does not take a row: %v", what, err)
	}
	s = reopen(t, s, path)
	if got := rows(t, s); len(got) != len(want)+1 || !reflect.DeepEqual(got[:len(want)], want) {
		t.Errorf("%s: rows changed after a write: %d of %d", what, len(got), len(want)+1)
	}
	if s.Recovered() {
		t.Errorf("%s: the meta page is still damaged after a write", what)
	}
	return true
}

func TestDamagedPages(t *testing.T) {
	file, last, before := sample(t)
	page := os.Getpagesize()
	random := rand.NewChaCha8([32]byte{7})
	opened := 0
	for at := 0; at < len(file); at += page {
		for name, damage := range map[string]func(b []byte){
			"zeroed":      func(b []byte) { clear(b) },
			"random":      func(b []byte) { _, _ = random.Read(b) },
			"flipped":     func(b []byte) { b[random.Uint64()%uint64(len(b))] ^= 1 << (random.Uint64() % 8) },
			"half zeroed": func(b []byte) { clear(b[len(b)/2:]) },
			"as another":  func(b []byte) { copy(b, file[2*page:3*page]) },
		} {
			bad := bytes.Clone(file)
			damage(bad[at : at+page])
			if judge(t, fmt.Sprintf("page %d %s", at/page, name), bad, last, before) {
				opened++
			}
		}
	}
	if opened < 5 {
		t.Errorf("only %d damaged files opened; a bad meta page and free pages must not matter", opened)
	}
}

// TestDamagedHeaders flips bits in what bbolt trusts: page headers and the first elements.
func TestDamagedHeaders(t *testing.T) {
	file, last, before := sample(t)
	page := os.Getpagesize()
	for at := 0; at < len(file); at += page {
		for i := at / page % 3; i < 48; i += 3 {
			bad := bytes.Clone(file)
			bad[at+i] ^= 1 << (i % 8)
			judge(t, fmt.Sprintf("page %d byte %d", at/page, i), bad, last, before)
		}
	}
}

func TestOneBadMetaPage(t *testing.T) {
	file, last, before := sample(t)
	for page := range 2 {
		bad := bytes.Clone(file)
		clear(bad[page*os.Getpagesize() : (page+1)*os.Getpagesize()])
		if !judge(t, fmt.Sprintf("meta page %d", page), bad, last, before) {
			t.Errorf("meta page %d: not recovered", page)
		}
	}
}

func TestCutFiles(t *testing.T) {
	file, last, before := sample(t)
	page := os.Getpagesize()
	for size := 0; size < len(file); size += page / 2 {
		if judge(t, fmt.Sprintf("cut to %d bytes", size), file[:size], last, before) && size < len(file)/2 {
			t.Errorf("%d of %d bytes opened", size, len(file))
		}
	}
	for name, bad := range map[string][]byte{
		"nothing": {}, "one byte": {0}, "stump": make([]byte, 4096), "four zero pages": make([]byte, 4*page),
	} {
		if judge(t, name, bad, last, before) {
			t.Errorf("%s opened as a checkpoint", name)
		}
	}
}

func TestForeignAndNewerFiles(t *testing.T) {
	s, path := create0(t, Options{CommitGap: -1})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	change := func(fn func(tx *bolt.Tx) error) error {
		t.Helper()
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Update(fn); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path, Options{})
		if err == nil {
			_ = s.Close()
		}
		return err
	}
	for _, text := range []string{"a", `{"custom_id":"ü"}`, "\ufeff" + strings.Repeat("über ", 3000)} {
		other := filepath.Join(t.TempDir(), "input.jsonl")
		if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(other, Options{}); !errors.Is(err, ErrNotFile) {
			t.Errorf("Open of a text = %v, want ErrNotFile", err)
		}
	}
	for _, tt := range []struct {
		name string
		want error
		fn   func(tx *bolt.Tx) error
	}{
		{"a row without number", ErrDamaged, func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(bucketOperations)).Put([]byte("key"), []byte("value"))
		}},
		{"newer schema", ErrVersion, func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(bucketMeta)).Put([]byte(keySchema), []byte{schemaVersion + 1})
		}},
		{"no meta", ErrNotFile, func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(bucketMeta)) }},
		{"empty database", ErrNotFile, func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(bucketOperations)) }},
	} {
		if err := change(tt.fn); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestVerifyAcceptsGrownTree compares verify with what bbolt itself says of a larger file with a deep tree, free pages
// and values that take several pages.
func TestVerifyAcceptsGrownTree(t *testing.T) {
	s, path := create0(t, Options{CommitGap: -1})
	for range 30 {
		ops := make([]*Operation, 1000)
		for i := range ops {
			ops[i] = testOperation(i)
		}
		ops[7].ID = string(bytes.Repeat([]byte("long "), 5000))
		if err := s.PutAll(ops, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Edit(nil, func(op *Operation) bool { op.RequestID += "a longer one than before"; return op.Seq%5 == 0 }); err != nil {
		t.Fatal(err)
	}
	err := s.db.Load().View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s, path)
	if got := len(rows(t, s)); got != 30_000 || s.Recovered() {
		t.Errorf("got %d rows, recovered %v; want 30000 and false", got, s.Recovered())
	}
}
