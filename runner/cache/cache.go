// Package cache keeps whole answers in a folder, so that a later run that asks
// a target for the same need not call it (run --cache).
//
// Each entry is a file of its own, named by its [Key], in one of 256 folders.
// It is written beside them and renamed, so that runs may share a folder, also
// at once: a reader sees a whole entry or none, and of two writers the later
// stands. Entries are not synced one by one, since the answers are safe in the
// output: what a power cut takes is asked again, and what it tears fails its
// checksum and is no entry. Nothing expires; deleting files is always safe.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Key names the answer of one target to one request.
type Key [32]byte

// KeyOf is the key of a request to a target. digest is that of the request as
// the target gets it, its API and model included (input.Digest); provider and
// baseURL are the target's. Another form of entries has other keys.
func KeyOf(provider, baseURL string, digest [32]byte) Key {
	h := sha256.New()
	h.Write([]byte(magic))
	for _, part := range []string{provider, baseURL} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	h.Write(digest[:])
	return Key(h.Sum(nil))
}

// Entry is an answer that is kept.
type Entry struct {
	Provider   string    `json:"provider"` // who answered
	Model      string    `json:"model"`    // asked for
	StatusCode int       `json:"status_code"`
	RequestID  string    `json:"request_id"` // of the call that was made for it
	Finish     string    `json:"finish"`
	Usage      Usage     `json:"usage"`
	Stored     time.Time `json:"stored"`
	Body       []byte    `json:"-"` // the answer, as the result line has it
	Native     []byte    `json:"-"` // the provider's own, where Body is a translation; else nil
}

// Usage is what the call that was made was billed, in tokens.
type Usage struct {
	Input     int64 `json:"input_tokens"`
	Output    int64 `json:"output_tokens"`
	Cached    int64 `json:"cached_tokens"`    // part of Input
	Reasoning int64 `json:"reasoning_tokens"` // part of Output
	Known     bool  `json:"known"`            // false = the answer did not say
}

// Size is how many bytes of answers the entry holds.
func (e *Entry) Size() int { return len(e.Body) + len(e.Native) }

// ErrDamaged is returned for a file that is no whole entry of its key.
var ErrDamaged = errors.New("damaged cache entry")

// Store is a folder of entries. It is safe for concurrent use.
type Store struct{ dir string }

// abandoned is the age of a file that a process left half written.
const abandoned = time.Hour

// Open makes the folder if need be, sees that it can be written to, and takes
// away what processes that died left in it.
func Open(dir string, now time.Time) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	probe, err := os.CreateTemp(dir, "*"+half)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), half) {
			continue
		}
		if fi, err := f.Info(); err == nil && now.Sub(fi.ModTime()) > abandoned {
			_ = os.Remove(filepath.Join(dir, f.Name())) // another run may have been faster
		}
	}
	return &Store{dir}, err
}

// ReadOnly is a store for those who only look. The folder need not exist.
func ReadOnly(dir string) *Store { return &Store{dir} }

// half ends the name of a file that is still being written.
const half = ".tmp"

func (s *Store) path(k Key) string {
	name := hex.EncodeToString(k[:])
	return filepath.Join(s.dir, name[:2], name[2:])
}

// Get reads an entry; nil without an error means that there is none. The error
// is an ErrDamaged, or says why the file cannot be read.
func (s *Store) Get(k Key) (*Entry, error) {
	raw, err := os.ReadFile(s.path(k))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e, err := decode(k, raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path(k), err)
	}
	return e, nil
}

// Put stores an entry in the place of one that is there. After an error, what
// was there still is.
func (s *Store) Put(k Key, e *Entry) error {
	f, err := os.CreateTemp(s.dir, "*"+half) // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(encode(k, e))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = s.rename(f.Name(), s.path(k))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // else the next Open does
	}
	return err
}

func (s *Store) rename(from, to string) error {
	err := os.Rename(from, to)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.Rename(from, to)
}
