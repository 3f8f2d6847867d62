package input

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"runtime"
	"sync"
)

const blockSize = 1 << 20

// A block is a run of whole lines, or one line that is too long.
type block struct {
	buf  *[]byte // to be given back
	data []byte
	off  int64          // of data in the file
	long bool           // data is the beginning of a line that is longer than the limit
	size int64          // of that line
	out  chan *findings // one answer
	done chan struct{}  // closed when it is collected; nil for an ordinary block
}

// splitter reads a file from its beginning in blocks.
type splitter struct {
	f     *File
	max   int // longest line
	sum   hash.Hash
	off   int64  // of what is read next
	carry []byte // read already, belongs to the next block
	pool  *sync.Pool
}

func newSplitter(f *File, maxLine int) *splitter {
	return &splitter{f: f, max: maxLine, sum: sha256.New(), pool: &sync.Pool{New: func() any {
		b := make([]byte, 0, min(f.size, blockSize+4096))
		return &b
	}}}
}

// fill appends up to n bytes of the file to buf. At the end it gives io.EOF; a file that became shorter is an error.
func (s *splitter) fill(buf []byte, n int) ([]byte, error) {
	n = int(min(int64(n), s.f.size-s.off))
	if n == 0 {
		return buf, io.EOF
	}
	start := len(buf)
	if cap(buf) < start+n {
		buf = append(make([]byte, 0, start+n+start/4), buf...)
	}
	buf = buf[:start+n]
	if got, err := s.f.f.ReadAt(buf[start:], s.off); got < n {
		if err == io.EOF {
			return nil, fmt.Errorf("%s became shorter while it was read: %w", s.f.path, ErrChanged)
		}
		return nil, fmt.Errorf("read %s: %w", s.f.path, err)
	}
	s.sum.Write(buf[start:])
	s.off += int64(n)
	return buf, nil
}

// next gives the next block, io.EOF after the last.
func (s *splitter) next() (*block, error) {
	p := s.pool.Get().(*[]byte)
	buf := append((*p)[:0], s.carry...)
	s.carry = nil
	b := &block{buf: p, off: s.off - int64(len(buf)), out: make(chan *findings, 1)}
	for {
		scanned := len(buf)
		var err error
		if buf, err = s.fill(buf, blockSize); err != nil && err != io.EOF {
			return nil, err
		}
		*p = buf
		switch end := bytes.LastIndexByte(buf[scanned:], '\n') + 1; {
		case end > 0:
			b.data, s.carry = buf[:scanned+end], buf[scanned+end:]
			return b, nil
		case err == io.EOF && len(buf) == 0:
			return nil, io.EOF
		case err == io.EOF:
			b.data = buf
			return b, nil
		case len(buf) > s.max+blockSize:
			return b, s.skip(b, buf)
		}
	}
}

// skip reads to the end of a line that is too long.
func (s *splitter) skip(b *block, buf []byte) error {
	b.long, b.data, b.size = true, buf[:s.max], int64(len(buf))
	for {
		rest, err := s.fill(nil, blockSize)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			b.size += int64(end)
			s.carry = rest[end+1:]
			return nil
		}
		b.size += int64(len(rest))
	}
}

// eachBlock has all blocks of the file examined on all cores and collects the findings in the order of the file.
func eachBlock(ctx context.Context, sp *splitter, s *Settings, collect func(*findings)) error {
	workers := runtime.GOMAXPROCS(0)
	work := make(chan *block)
	order := make(chan *block, workers)
	var readErr error
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			ex := &examiner{set: s, max: sp.max}
			for b := range work {
				b.out <- ex.examine(b)
			}
		})
	}
	wg.Go(func() {
		defer close(order)
		defer close(work)
		for {
			b, err := sp.next()
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				if err != io.EOF {
					readErr = err
				}
				return
			}
			if len(b.data) > 8*blockSize { // one at a time, for memory's sake
				b.done = make(chan struct{})
			}
			order <- b
			work <- b
			if b.done != nil {
				<-b.done
			}
		}
	})
	for b := range order {
		collect(<-b.out)
		sp.pool.Put(b.buf)
		if b.done != nil {
			close(b.done)
		}
	}
	wg.Wait()
	return readErr
}
