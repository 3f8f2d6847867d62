package checkpoint

import (
	"encoding/binary"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// How full a page is before the next is begun; rows come in the order of their keys. A row is stored before its call and
// grows by up to a half with the answer: a page that was full would be split then, and the file would take half as much again.
const fillNew, fillGrown = 0.65, 0.95

// batch is what one commit writes: all that came while the commit before it ran.
type batch struct {
	rows []row
	buf  []byte // their values
	meta *Meta
	edit []func() error // run after the rows are stored

	samples map[uint64][]byte // see Note; nil = none
	done    chan struct{}     // closed when the outcome is known
	err     error             // valid after done
	then    []func(error)     // who is told of it
}

type row struct {
	key   [8]byte
	value []byte
}

// newBatch makes a batch out of what one that is committed no longer needs; nil = nothing.
func newBatch(used *batch) *batch {
	b := &batch{done: make(chan struct{})}
	if used != nil && cap(used.buf) <= maxKeptBuffer {
		b.rows, b.buf = used.rows[:0], used.buf[:0]
	}
	return b
}

// maxKeptBuffer is the largest buffer that is used again, bytes.
const maxKeptBuffer = 1 << 20

func (b *batch) empty() bool {
	return len(b.rows) == 0 && b.meta == nil && len(b.edit) == 0 && b.samples == nil
}

// Put stores a row and returns when it is durable. An operation with Seq 0 is new and gets its number. After an error
// other than ErrClosed, ErrReadOnly and a wrong Seq it is not known whether the row is stored, and every later write fails with
// ErrFailed: stop, and open the file again to see. A full disk is errors.Is(err, syscall.ENOSPC).
func (s *Store) Put(op *Operation) error {
	seq := op.Seq
	err := s.submit(s.wake, func(b *batch) error { return s.add(b, &seq, op) })
	if err == nil {
		op.Seq = seq
	}
	return err
}

// PutThen is Put that does not wait: it calls then with what Put would return, on a goroutine that the rows of one commit
// share, or before it returns if nothing is stored any more. The operation has its number at once. It is not used after
// PutThen returns, so that then may change it.
func (s *Store) PutThen(op *Operation, then func(error)) { s.putThen(op, s.wake, then) }

// PutSoon is PutThen for a row that nobody waits for: it causes no commit of its own for some milliseconds, in which the
// rows of others take it along. Where operations are few, that saves most of them a commit.
func (s *Store) PutSoon(op *Operation, then func(error)) { s.putThen(op, s.soon, then) }

func (s *Store) putThen(op *Operation, tell chan<- struct{}, then func(error)) {
	s.mu.Lock()
	err := s.refusal()
	if err == nil {
		err = s.add(s.next, &op.Seq, op)
	}
	if err == nil {
		s.next.then = append(s.next.then, then)
	}
	s.mu.Unlock()
	if err != nil {
		then(s.failure(err))
		return
	}
	notify(tell)
}

// PutAll stores rows in one transaction, and meta with them unless it is nil: all or nothing, also after a crash. Its
// rules are those of Put.
func (s *Store) PutAll(ops []*Operation, meta *Meta) error {
	seqs := make([]uint64, len(ops))
	for i, op := range ops {
		seqs[i] = op.Seq
	}
	err := s.submit(s.wake, func(b *batch) error {
		for _, seq := range seqs {
			if seq > s.seq {
				return fmt.Errorf("row %d does not exist", seq)
			}
		}
		for i := range seqs {
			if err := s.add(b, &seqs[i], ops[i]); err != nil {
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
func (s *Store) add(b *batch, seq *uint64, op *Operation) error {
	if *seq > s.seq {
		return fmt.Errorf("row %d does not exist", *seq)
	}
	if *seq == 0 {
		s.seq++
		*seq = s.seq
	}
	key := keyOf(*seq)
	start := len(b.buf)
	b.buf = appendRow(b.buf, op)
	b.buf = binary.LittleEndian.AppendUint32(b.buf, checksum(b.buf[start:], key))
	b.rows = append(b.rows, row{key: key, value: b.buf[start:]})
	if len(b.rows) == many {
		notify(s.many)
	}
	return nil
}

// many is how many rows are worth a commit that does not wait for more. A larger commit would send calls in larger bursts.
const many = 64

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
		notify(tell)
		<-b.done
		err = b.err
	}
	return s.failure(err)
}

func notify(tell chan<- struct{}) {
	select {
	case tell <- struct{}{}:
	default:
	}
}

func (s *Store) failure(err error) error {
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
	var last time.Time // when the last commit ended
	for stopping := false; !stopping; {
		select {
		case <-s.wake:
			s.pause(s.gap-time.Since(last), s.many)
		case <-s.soon:
			s.pause(min(linger, 4*s.gap), s.wake)
			s.pause(s.gap-time.Since(last), s.many)
		case <-late.C:
		case <-s.stop:
			stopping = true
		}
		s.commitNext()
		last = time.Now()
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
	s.next, s.used = newBatch(s.used), nil
	select {
	case <-s.many: // told of this batch
	default:
	}
	failed, seq := s.failed, s.seq
	s.mu.Unlock()
	if failed != nil {
		b.err = fmt.Errorf("%w: %w", ErrFailed, failed)
	} else if b.err = s.commit(b, seq); b.err != nil {
		s.mu.Lock()
		s.failed = b.err
		s.mu.Unlock()
	}
	s.used = b
	close(b.done)
	if len(b.then) > 0 {
		go s.tell(b)
	}
}

// tell tells all who wait for a batch what became of it.
func (s *Store) tell(b *batch) {
	err := s.failure(b.err)
	for _, then := range b.then {
		then(err)
	}
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
			if err := putRows(tx, b.rows, seq, fillNew); err != nil {
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

func putRows(tx *bolt.Tx, rows []row, seq uint64, fill float64) error {
	ops := tx.Bucket([]byte(bucketOperations))
	ops.FillPercent = fill
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
