package checkpoint

import (
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// fillPercent of a page before the next is begun. Rows come in key order, and grow a little as their status changes.
const fillPercent = 0.95

// batch is what one commit writes: all that came while the commit before it ran.
type batch struct {
	rows []row
	meta *Meta
	edit []func() error // run after the rows are stored

	samples map[uint64][]byte // see Note; nil = none
	done    chan struct{}     // closed when the outcome is known
	err     error             // valid after done
}

type row struct {
	key   [8]byte
	value []byte
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

func (b *batch) empty() bool {
	return len(b.rows) == 0 && b.meta == nil && len(b.edit) == 0 && b.samples == nil
}

// rowSize has room for a row of one attempt, with IDs of some length.
const rowSize = 384

// Put stores a row and returns when it is durable. An operation with Seq 0 is new and gets its number. After an error
// other than ErrClosed, ErrReadOnly and a wrong Seq it is not known whether the row is stored, and every later write fails with
// ErrFailed: stop, and open the file again to see. A full disk is errors.Is(err, syscall.ENOSPC).
func (s *Store) Put(op *Operation) error { return s.put(op, s.wake) }

// PutSoon is Put for a row that nobody waits for: it causes no commit of its own for some milliseconds, in which the rows
// of others take it along. Where operations are few, that saves most of them a commit.
func (s *Store) PutSoon(op *Operation) error { return s.put(op, s.soon) }

func (s *Store) put(op *Operation, tell chan<- struct{}) error {
	value := appendRow(make([]byte, 0, rowSize), op)
	seq := op.Seq
	err := s.submit(tell, func(b *batch) error {
		return s.add(b, &seq, value)
	})
	if err == nil {
		op.Seq = seq
	}
	return err
}

// PutAll stores rows in one transaction, and meta with them unless it is nil: all or nothing, also after a crash. Its
// rules are those of Put.
func (s *Store) PutAll(ops []*Operation, meta *Meta) error {
	values := make([][]byte, len(ops))
	seqs := make([]uint64, len(ops))
	for i, op := range ops {
		values[i] = appendRow(nil, op)
		seqs[i] = op.Seq
	}
	err := s.submit(s.wake, func(b *batch) error {
		for _, seq := range seqs {
			if seq > s.seq {
				return fmt.Errorf("row %d does not exist", seq)
			}
		}
		for i := range seqs {
			if err := s.add(b, &seqs[i], values[i]); err != nil {
				return err
			}
		}
		if meta != nil {
			b.meta = meta
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, op := range ops {
		op.Seq = seqs[i]
	}
	return nil
}

// SetMeta stores meta and returns when it is durable. Its rules are those of Put.
func (s *Store) SetMeta(meta Meta) error { return s.PutAll(nil, &meta) }

// add puts one row into the batch and gives it a number if *seq is 0. The caller holds s.mu, so that numbers enter the
// batches in order: a crash between two commits leaves no gap.
func (s *Store) add(b *batch, seq *uint64, value []byte) error {
	if *seq > s.seq {
		return fmt.Errorf("row %d does not exist", *seq)
	}
	if *seq == 0 {
		s.seq++
		*seq = s.seq
	}
	key := keyOf(*seq)
	b.rows = append(b.rows, row{key: key, value: seal(value, key)})
	return nil
}

// linger is how long a row of PutSoon may wait for others.
const linger = 20 * time.Millisecond

// submit lets fill add to the next batch, tells the writer, and waits until that is committed.
func (s *Store) submit(tell chan<- struct{}, fill func(*batch) error) error {
	s.mu.Lock()
	b := s.next
	err := s.refusal()
	waits := false
	if err == nil {
		err = fill(b)
		waits = err == nil && !b.empty()
	}
	s.mu.Unlock()
	if waits {
		select {
		case tell <- struct{}{}:
		default:
		}
		<-b.done
		err = b.err
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", s.path, err)
	}
	return nil
}

func (s *Store) refusal() error {
	switch {
	case s.readOnly:
		return ErrReadOnly
	case s.failed != nil:
		return fmt.Errorf("%w: %w", ErrFailed, s.failed)
	case s.closed:
		return ErrClosed
	}
	return nil
}

// commitLoop is the only writer. It ends after Close, when nothing waits.
func (s *Store) commitLoop() {
	defer close(s.done)
	late := time.NewTicker(samplesEvery) // for samples that no row took along
	defer late.Stop()
	for stopping := false; ; {
		select {
		case <-s.wake:
		case <-s.soon:
			s.pause(min(linger, 4*s.gap), s.wake)
		case <-late.C:
		case <-s.stop:
			stopping = true
		}
		s.commitNext()
		if stopping {
			return
		}
		s.pause(s.gap, nil)
	}
}

// pause lets rows gather until something wakes it or the store is being closed.
func (s *Store) pause(d time.Duration, wake <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-s.stop:
	}
}

func (s *Store) commitNext() {
	s.mu.Lock()
	b := s.next
	if b.empty() {
		s.mu.Unlock()
		return
	}
	s.next = newBatch()
	failed, seq := s.failed, s.seq
	s.mu.Unlock()
	if failed != nil {
		b.err = fmt.Errorf("%w: %w", ErrFailed, failed)
	} else if b.err = s.commit(b, seq); b.err != nil {
		s.mu.Lock()
		s.failed = b.err
		s.mu.Unlock()
	}
	close(b.done)
}

// commit writes a batch; seq is the highest number in it or before it.
func (s *Store) commit(b *batch, seq uint64) error {
	if len(b.rows) > 0 || b.meta != nil || b.samples != nil {
		if err := s.write(b, seq); err != nil {
			return err
		}
	}
	for _, edit := range b.edit {
		if err := edit(); err != nil {
			return err
		}
	}
	return nil
}

// write stores the batch's rows, samples and meta in one transaction.
func (s *Store) write(b *batch, seq uint64) error {
	err := withCause(guard(func() error {
		return s.db.Load().Update(func(tx *bolt.Tx) error {
			if err := putRows(tx, b.rows, seq); err != nil {
				return err
			}
			if b.samples != nil {
				if err := putSamples(tx, b.samples); err != nil {
					return err
				}
			}
			if b.meta != nil {
				return putMeta(tx, *b.meta)
			}
			return nil
		})
	}))
	s.thin()
	return err
}

// dropEvery is how many commits go by before mapped pages are given back.
const dropEvery = 128

// thin keeps the mapped part of the file small. That it fails is of no consequence.
func (s *Store) thin() {
	if s.commits++; s.commits%dropEvery == 0 {
		_ = s.db.Load().View(dropMapped)
	}
}

func putRows(tx *bolt.Tx, rows []row, seq uint64) error {
	ops := tx.Bucket([]byte(bucketOperations))
	ops.FillPercent = fillPercent
	for i := range rows {
		if err := ops.Put(rows[i].key[:], rows[i].value); err != nil {
			return err
		}
	}
	if ops.Sequence() == seq {
		return nil
	}
	return ops.SetSequence(seq)
}
