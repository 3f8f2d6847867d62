package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockTimeout is how long opening waits for another process to let go of the file.
const lockTimeout = 500 * time.Millisecond

// defaultCommitGap is the least time between two commits; see Options.
const defaultCommitGap = 5 * time.Millisecond

// Options of opening. The zero value is right for a run.
type Options struct {
	// CommitGap is the least time from the end of a commit to the start of the next. Rows gather in it: a commit costs
	// two syncs whatever its size. 0 = 5 ms, negative = none.
	CommitGap time.Duration
}

// Create makes a new checkpoint with mode 0600. It fails with fs.ErrExist if path exists, and with ErrLocked if another
// process is creating it. The file appears under its name when it is whole: a failure or a crash leaves none.
func Create(path string, m Meta, o Options) (*Store, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, fs.ErrExist)
	}
	temp := path + ".new"
	db, err := create(temp, m)
	if err == nil {
		err = publish(temp, path)
	}
	if err != nil {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
		if !errors.Is(err, ErrLocked) {
			_ = os.Remove(temp) // err says more
		}
		return nil, fmt.Errorf("checkpoint %s: %w", path, err)
	}
	s := &Store{path: path}
	s.db.Store(db)
	s.start(o)
	return s, nil
}

// create makes a file without rows. It replaces one of that name which nobody holds.
func create(temp string, m Meta) (*bolt.DB, error) {
	db, err := openBolt(temp, false, func(f *os.File) error { return f.Truncate(0) }, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucket([]byte(bucketMeta))
		if err != nil {
			return err
		}
		if err := meta.Put([]byte(keySchema), []byte{schemaVersion}); err != nil {
			return err
		}
		if _, err := tx.CreateBucket([]byte(bucketOperations)); err != nil {
			return err
		}
		return putMeta(tx, m)
	})
	if err != nil {
		return nil, errors.Join(withCause(err), db.Close())
	}
	return db, nil
}

// publish gives the file its name without replacing one that came up meanwhile. File systems without hard links get
// a rename.
func publish(temp, path string) error {
	err := os.Link(temp, path)
	switch {
	case err == nil:
		err = os.Remove(temp)
	case !errors.Is(err, fs.ErrExist):
		err = os.Rename(temp, path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Open opens the checkpoint at path for reading and writing and locks it. Errors: fs.ErrNotExist, ErrLocked,
// ErrDamaged, ErrVersion, or one of the file system. The whole file is read once and checked; see Recovered.
func Open(path string, o Options) (*Store, error) {
	s, err := open(path, false)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, err)
	}
	_ = os.Remove(path + ".new") // of an Edit that a crash cut off, or there is none
	s.start(o)
	return s, nil
}

// OpenReadOnly opens the checkpoint at path for reading. Several readers share it; while a run holds it the error is
// ErrLocked, and the snapshot beside it says how far the run is. Other errors are those of Open.
func OpenReadOnly(path string) (*Store, error) {
	s, err := open(path, true)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, err)
	}
	s.closed = true
	return s, nil
}

func open(path string, readOnly bool) (*Store, error) {
	var found contents
	db, err := openBolt(path, readOnly, func(f *os.File) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if !readOnly && info.Mode().Perm()&0o077 != 0 {
			// Only a file system that keeps no modes, or another owner, refuses this.
			_ = f.Chmod(0o600)
		}
		found, err = verify(f, info.Size())
		return err
	}, 0)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, readOnly: readOnly, recovered: found.badMeta}
	s.db.Store(db)
	if err := s.check(found); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// openBolt opens path through bbolt, with the lock taken and prepare done before bbolt reads a byte. flags may add
// os.O_CREATE.
func openBolt(path string, readOnly bool, prepare func(*os.File) error, flags int) (db *bolt.DB, err error) {
	var file *os.File
	options := &bolt.Options{
		Timeout:  lockTimeout,
		ReadOnly: readOnly,
		OpenFile: func(path string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(path, flag&^os.O_CREATE|flags, mode)
			if err != nil {
				return nil, err
			}
			if err = lock(f, !readOnly, lockTimeout); err == nil {
				err = sameFile(f, path)
			}
			if err == nil {
				err = prepare(f)
			}
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
			file = f
			return f, nil
		},
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, ErrNotFile // and opening a FIFO would wait
	}
	err = guard(func() error {
		db, err = bolt.Open(path, 0o600, options)
		return err
	})
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, ErrDamaged) && file != nil:
		_ = file.Close() // bbolt panicked and left it open, with its lock
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrLocked
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, damaged("%v", err)
	}
	return nil, withCause(err)
}

// sameFile reports ErrLocked if path no longer names f: while this process waited for the lock, its holder published or
// moved the file.
func sameFile(f *os.File, path string) error {
	ours, err := f.Stat()
	if err != nil {
		return err
	}
	theirs, err := os.Stat(path)
	if err != nil || !os.SameFile(ours, theirs) {
		return ErrLocked
	}
	return nil
}

// guard turns a panic of bbolt, or a fault of its mapped memory, into ErrDamaged. verify leaves little that could
// cause one: a file changed by someone else while it is open, or a disk that fails to read a page.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged("%v", r)
		}
	}()
	return fn()
}

// check reads the schema version and compares the keys that verify found with the number of rows that were given out.
func (s *Store) check(found contents) error {
	return s.view(func(tx *bolt.Tx) error {
		meta, ops := tx.Bucket([]byte(bucketMeta)), tx.Bucket([]byte(bucketOperations))
		if meta == nil || ops == nil { // whole, as verify found, but nothing of ours
			return fmt.Errorf("%w: a database without buckets %q and %q", ErrNotFile, bucketMeta, bucketOperations)
		}
		version := meta.Get([]byte(keySchema))
		if len(version) != 1 || version[0] == 0 {
			return damaged("it has no schema version")
		}
		if version[0] > schemaVersion {
			return fmt.Errorf("%w: schema %d, this one reads up to %d", ErrVersion, version[0], schemaVersion)
		}
		if _, err := getMeta(tx); err != nil {
			return err
		}
		s.seq = ops.Sequence()
		keys := found.buckets[bucketOperations]
		first, last := keyOf(1), keyOf(s.seq)
		if uint64(keys.count) != s.seq || keys.count > 0 && (string(keys.first) != string(first[:]) || string(keys.last) != string(last[:])) {
			return damaged("it holds %d of %d rows", keys.count, s.seq)
		}
		return nil
	})
}

func getMeta(tx *bolt.Tx) (m Meta, err error) {
	b, err := unseal(tx.Bucket([]byte(bucketMeta)).Get([]byte(keyMeta)), keyOf(0))
	if err != nil {
		return Meta{}, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return Meta{}, damaged("meta: %v", err)
	}
	return m, nil
}

func putMeta(tx *bolt.Tx, m Meta) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return tx.Bucket([]byte(bucketMeta)).Put([]byte(keyMeta), seal(b, keyOf(0)))
}

// start begins the one goroutine that commits.
func (s *Store) start(o Options) {
	s.gap = o.CommitGap
	if s.gap == 0 {
		s.gap = defaultCommitGap
	}
	s.next = newBatch(nil)
	s.wake, s.soon, s.many = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	s.stop = make(chan struct{})
	s.done = make(chan struct{})
	s.closeOnce = sync.OnceValue(s.close)
	go s.commitLoop()
}
