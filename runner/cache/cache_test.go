package cache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"
)

var at = time.Date(2026, 11, 30, 10, 0, 0, 123456789, time.UTC)

func entry() *Entry {
	return &Entry{
		Provider: "openai", Model: "gpt-4o-mini", StatusCode: 200, RequestID: "req_1", Finish: "stop",
		Usage: Usage{Input: 12, Output: 34, Cached: 5, Reasoning: 6, Known: true}, Stored: at,
		Body: []byte("{\"a\": 1.0,\n\"b\":\"\u00e9\"}\n"), Native: []byte(`{"native":true}`),
	}
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPutGet(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "cache")
	s := open(t, dir)
	k := KeyOf("openai", "https://api.openai.com/v1", [32]byte{1})
	if e, err := s.Get(k); e != nil || err != nil {
		t.Fatalf("got %+v, %v of an empty folder; want nothing", e, err)
	}
	plain := entry()
	plain.Native = nil
	for _, want := range []*Entry{entry(), plain} {
		if err := s.Put(k, want); err != nil {
			t.Fatal(err)
		}
		for name, s := range map[string]*Store{"the writer": s, "another": open(t, dir), "a reader": ReadOnly(dir)} {
			if got, err := s.Get(k); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, %v; want %+v", name, got, err, want)
			}
		}
	}
	fi, err := os.Stat(s.path(k))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v of an entry; want 0600", fi.Mode(), err)
	}
	for _, d := range []string{dir, filepath.Dir(s.path(k))} {
		if fi, err := os.Stat(d); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("got mode %v, %v of %s; want 0700", fi.Mode(), err, d)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*"+half)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Any difference in the target or the request is another key.
func TestKeys(t *testing.T) {
	t.Parallel()
	seen := map[Key]string{}
	for _, c := range []struct {
		provider, url string
		digest        [32]byte
	}{
		{"openai", "https://a/v1", [32]byte{1}},
		{"openai", "https://a/v1", [32]byte{2}},
		{"openai", "https://b/v1", [32]byte{1}},
		{"house", "https://a/v1", [32]byte{1}},
		{"openaih", "ttps://a/v1", [32]byte{1}},
	} {
		k, what := KeyOf(c.provider, c.url, c.digest), fmt.Sprint(c)
		if was, twice := seen[k]; twice {
			t.Errorf("%s and %s have one key", was, what)
		}
		seen[k] = what
	}
}

// An entry that differs from what was written in any byte, is cut, or lies
// under another name is no entry, and can be written anew.
func TestDamage(t *testing.T) {
	t.Parallel()
	s, k := open(t, t.TempDir()), Key{7}
	raw := encode(k, entry())
	check := func(what string, bad []byte) {
		t.Helper()
		if e, err := decode(k, bad); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %+v, %v; want ErrDamaged", what, e, err)
		}
	}
	for i := range raw {
		bad := bytes.Clone(raw)
		bad[i] ^= 0x20
		check(fmt.Sprintf("byte %d flipped", i), bad)
		check(fmt.Sprintf("cut to %d bytes", i), raw[:i])
	}
	check("longer", append(bytes.Clone(raw), 'x'))
	check("another's", encode(Key{8}, entry()))
	if err := s.Put(k, entry()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path(k), raw[:len(raw)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(k); !errors.Is(err, ErrDamaged) {
		t.Fatalf("got %v, want ErrDamaged", err)
	}
	if err := s.Put(k, entry()); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Get(k); e == nil || err != nil {
		t.Errorf("got %v, %v after it was written anew", e, err)
	}
}

// What dead processes left goes; what another may still be writing stays.
func TestOpenTidies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"old" + half: 2 * abandoned, "new" + half: time.Second, "mine.txt": 2 * abandoned} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at.Add(-age), at.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 || files[0].Name() != "mine.txt" || files[1].Name() != "new"+half {
		t.Errorf("got %v, %v; want mine.txt and new%s", files, err, half)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if _, err := Open(dir, at); err == nil {
			t.Errorf("%s: got no error", dir)
		}
	}
}

// Readers see whole entries while writers replace them.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	s := open(t, dir)
	for n := range 8 {
		all.Go(func() {
			for i := range 200 {
				k, e := Key{byte(i % 10)}, entry()
				e.Body = bytes.Repeat([]byte{byte('a' + n)}, 100*n+i)
				if err := s.Put(k, e); err != nil {
					t.Error(err)
				}
				if got, err := s.Get(k); got == nil || err != nil {
					t.Errorf("got %v, %v", got, err)
				}
			}
		})
	}
	all.Wait()
}

func FuzzDecode(f *testing.F) {
	k := Key{7}
	f.Add(encode(k, entry()))
	f.Add(encode(k, &Entry{}))
	f.Add([]byte(magic + "\n{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decode(k, b)
		if err != nil {
			return
		}
		again, err := decode(k, encode(k, e))
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Errorf("got %+v, %v; want %+v", again, err, e)
		}
	})
}
