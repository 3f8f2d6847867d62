package checkpoint

import (
	"errors"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// editChunk is how many rows of the new file are written in one transaction: what bounds the memory of Edit.
const editChunk = 10_000

// Edit goes through all rows in order, changes those for which fn returns true, and stores meta with them unless it is
// nil: all or nothing, also after a crash. It writes a new file and puts it in the old one's place, because one bbolt
// transaction over a million rows would take a gigabyte of memory. fn runs on another goroutine, must not use the store,
// and must not change Seq; the Operation is used again for the next row. An error of the new file leaves the old one as it was, but
// counts as a failed write: see Put.
func (s *Store) Edit(meta *Meta, fn func(*Operation) bool) error {
	var own error // a panic of fn
	err := s.submit(s.wake, func(b *batch) error {
		b.edit = append(b.edit, func() error {
			return withCause(s.replace(meta, func(op *Operation) (changed bool) {
				if own == nil {
					own = callBack(func(op *Operation) error { changed = fn(op); return nil }, op)
				}
				return changed && own == nil
			}, &own))
		})
		return nil
	})
	return s.unpack(err, own)
}

// replace writes the new file, gives it the old one's name, and goes on with it. If *stop is set by fn, the old file
// stays.
func (s *Store) replace(meta *Meta, fn func(*Operation) bool, stop *error) error {
	m, err := s.Meta()
	if err != nil {
		return err
	}
	if meta != nil {
		m = *meta
	}
	temp := s.path + ".new"
	db, err := create(temp, m)
	if err != nil {
		return err
	}
	db.NoSync = true // until all is written
	if err = s.copyRows(db, fn); err == nil {
		err = s.copySamples(db)
	}
	if err == nil && *stop == nil {
		err = db.Sync()
	}
	db.NoSync = false
	if err != nil || *stop != nil {
		return errors.Join(err, db.Close(), os.Remove(temp))
	}
	if err := os.Rename(temp, s.path); err != nil {
		return errors.Join(err, db.Close(), os.Remove(temp))
	}
	old := s.db.Swap(db)
	return errors.Join(syncDir(filepath.Dir(s.path)), old.Close())
}

// copyRows copies all rows to another file, changed or not.
func (s *Store) copyRows(to *bolt.DB, fn func(*Operation) bool) error {
	chunk := make([]row, 0, editChunk)
	flush := func() error {
		if len(chunk) == 0 {
			return nil
		}
		seq := seqOf(chunk[len(chunk)-1].key)
		err := to.Update(func(tx *bolt.Tx) error { return putRows(tx, chunk, seq, fillGrown) })
		chunk = chunk[:0]
		return err
	}
	err := s.eachRow(func(op *Operation, key [8]byte, value []byte) error {
		if fn(op) {
			value = seal(appendRow(make([]byte, 0, len(value)+16), op), key)
		}
		chunk = append(chunk, row{key: key, value: value})
		if len(chunk) < editChunk {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}
