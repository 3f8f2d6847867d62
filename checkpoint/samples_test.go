package checkpoint

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

func samples(t *testing.T, s *Store) map[uint64]string {
	t.Helper()
	all := map[uint64]string{}
	last := uint64(0)
	err := s.Samples(func(key uint64, value []byte) error {
		if len(all) > 0 && key <= last {
			t.Errorf("got key %d after %d, want them in order", key, last)
		}
		last = key
		all[key] = string(value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSamples(t *testing.T) {
	s, path := create0(t, Options{CommitGap: -1})
	if got := samples(t, s); len(got) != 0 {
		t.Errorf("a new checkpoint has samples %v", got)
	}
	s.Note(map[uint64][]byte{1: []byte("one"), 2: []byte("two")})
	if got := samples(t, s); len(got) != 0 {
		t.Errorf("samples caused a commit of their own: %v", got)
	}
	s.Note(map[uint64][]byte{2: []byte("two again"), 1 << 40: []byte("far")})
	if err := s.Put(testOperation(1)); err != nil {
		t.Fatal(err)
	}
	want := map[uint64]string{1: "one", 2: "two again", 1 << 40: "far"}
	if got := samples(t, s); !maps.Equal(got, want) {
		t.Errorf("after the next row: got %v, want %v", got, want)
	}
	// A rewrite of the rows takes them along, and closing writes what waits.
	if err := s.Edit(nil, func(op *Operation) bool { op.Offset = 7; return true }); err != nil {
		t.Fatal(err)
	}
	s.Note(map[uint64][]byte{1: nil, 3: []byte("three")})
	s = reopen(t, s, path)
	want = map[uint64]string{2: "two again", 3: "three", 1 << 40: "far"}
	if got := samples(t, s); !maps.Equal(got, want) {
		t.Errorf("after a rewrite and reopening: got %v, want %v", got, want)
	}
	if n := len(rows(t, s)); n != 1 || s.Recovered() {
		t.Errorf("got %d rows, recovered %v; want 1 row of a whole file", n, s.Recovered())
	}
}

func TestDamagedSampleIsLeftOut(t *testing.T) {
	s, path := create0(t, Options{CommitGap: -1})
	s.Note(map[uint64][]byte{1: []byte("one"), 2: []byte("two")})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := keyOf(1)
	if err := db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(bucketSamples)).Put(key[:], []byte("a sample without its sum"))
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(path, Options{CommitGap: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, want := samples(t, s), map[uint64]string{2: "two"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v; want the checkpoint alone", entries, err)
	}
}
