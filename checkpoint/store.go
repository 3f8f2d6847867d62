package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// schemaVersion is raised by changes that an older version must not write to.
const schemaVersion = 1

const (
	bucketMeta       = "meta"
	bucketOperations = "operations"
	keySchema        = "schema"
	keyMeta          = "meta"
)

// Store is an open checkpoint. It is safe for concurrent use.
type Store struct {
	path      string
	db        atomic.Pointer[bolt.DB] // replaced by Edit
	readOnly  bool
	recovered bool
	gap       time.Duration
	commits   int           // of this process; commitLoop's own
	used      *batch        // committed, so that its memory is free; commitLoop's own
	gets      atomic.Uint32 // calls of Get

	mu     sync.Mutex
	seq    uint64 // last sequence number given out
	next   *batch // rows for the next commit
	failed error  // of the first commit that failed
	closed bool   // no more writes

	wake      chan struct{} // next holds something
	soon      chan struct{} // likewise, but there is time
	many      chan struct{} // next holds as many rows as are worth a commit
	stop      chan struct{} // closed by Close
	done      chan struct{} // closed when commitLoop has returned
	closeOnce func() error
}

// Recovered reports that one of the file's two meta pages was damaged when it was opened. The store is whole as of that
// page's twin, and the last commit before the damage may be missing.
func (s *Store) Recovered() bool { return s.recovered }

// Meta returns what SetMeta, PutAll or Create stored last.
func (s *Store) Meta() (m Meta, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		m, err = getMeta(tx)
		return err
	})
	return m, err
}

// Get returns the row of a sequence number, and false if there is none.
func (s *Store) Get(seq uint64) (op Operation, found bool, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		key := keyOf(seq)
		row := tx.Bucket([]byte(bucketOperations)).Get(key[:])
		if row == nil {
			return nil
		}
		found = true
		if s.gets.Add(1)%dropRows == 0 {
			defer func() { _ = dropMapped(tx) }() // a program that holds more memory is no failure
		}
		return newDecoder().row(&op, key, row)
	})
	return op, found && err == nil, err
}

// All calls fn for each row in the order of sequence numbers, in one pass, and stops at its first error. The Operation
// is used again for the next row: copy the struct to keep it (its fields are then the copy's own). fn must not write to the store.
func (s *Store) All(fn func(*Operation) error) error {
	var own error // fn's, which is none of the store's
	err := s.eachRow(func(op *Operation, _ [8]byte, _ []byte) error {
		own = callBack(fn, op)
		return own
	})
	if own != nil {
		err = nil
	}
	return s.unpack(err, own)
}

// eachRow calls fn for each row, decoded and as it is stored, in one read transaction. value is valid until eachRow
// returns.
func (s *Store) eachRow(fn func(op *Operation, key [8]byte, value []byte) error) error {
	return s.view(func(tx *bolt.Tx) error {
		d := newDecoder()
		var op Operation
		var expect uint64
		c := tx.Bucket([]byte(bucketOperations)).Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			expect++
			key, err := rowKey(k, expect)
			if err != nil {
				return err
			}
			if err := d.row(&op, key, v); err != nil {
				return err
			}
			if err := fn(&op, key, v); err != nil {
				return err
			}
			if expect%dropRows == 0 {
				_ = dropMapped(tx) // a pass that holds more memory is no failure
			}
		}
		_ = dropMapped(tx)
		return nil
	})
}

// dropRows is how many rows a pass reads, or are asked for one by one, before mapped pages are given back.
const dropRows = 1 << 13

// panicked carries a panic of a callback past guard.
type panicked struct{ value any }

func (panicked) Error() string { return "panic in a callback" }

func callBack(fn func(*Operation) error, op *Operation) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked{r}
		}
	}()
	return fn(op)
}

// unpack raises a callback's panic again, and prefers the store's error to a callback's.
func (s *Store) unpack(err, own error) error {
	var p panicked
	if errors.As(own, &p) {
		panic(p.value)
	}
	if err != nil {
		return err
	}
	return own
}

func rowKey(k []byte, expect uint64) (key [8]byte, err error) {
	if len(k) != 8 || binary.BigEndian.Uint64(k) != expect {
		return key, damaged("row %d is missing", expect)
	}
	copy(key[:], k)
	return key, nil
}

// view runs fn in a read transaction. If Edit closed the file just before it began, it begins with the new one.
func (s *Store) view(fn func(*bolt.Tx) error) error {
	var err error
	for db := (*bolt.DB)(nil); db != s.db.Load(); {
		db = s.db.Load()
		err = guard(func() error { return db.View(fn) })
		if !errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
			break
		}
		err = ErrClosed
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", s.path, err)
	}
	return nil
}

// Close writes what is waiting, closes the file and lets go of the lock. Further calls return the same.
func (s *Store) Close() error {
	if s.readOnly {
		return s.db.Load().Close()
	}
	return s.closeOnce()
}

func (s *Store) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	close(s.stop)
	<-s.done
	return s.db.Load().Close()
}
