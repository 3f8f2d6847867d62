package runner

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/llmbatch/llmbatch/checkpoint"
)

// tiling tells whether lines, in any order, cover a file from its start to its
// end and each byte once, without keeping them. They do if and only if the places
// where lines begin, with the file's end, are those where lines end, with its
// start: a line leads forward, so that all of them make one way from start to end.
// Both sides are compared by the sums of their hashes. The zero value has no line.
type tiling struct {
	lines int
	sum   uint64 // of the beginnings' hashes, less those of the ends'
}

func (t *tiling) add(offset, length int64) {
	t.lines++
	t.sum += hashPlace(offset) - hashPlace(offset+length+1)
}

func (t *tiling) covers(size int64) bool { return t.sum == hashPlace(0)-hashPlace(size) }

func hashPlace(at int64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(at))
	return xxhash.Sum64(b[:])
}

// tilings are those of the output and the errors file, by the rows.
type tilings struct{ out, errs tiling }

func (t *tilings) add(op *checkpoint.Operation) {
	switch op.Status {
	case checkpoint.Completed:
		t.out.add(op.Offset, op.Length)
	case checkpoint.DeadLetter:
		t.errs.add(op.Offset, op.Length)
	}
}

// span is where the line of a finished operation stands, and its row.
type span struct {
	offset, length int64
	seq            uint64
}

// spans lists the lines of the operations with this status, n of them.
func (b *book) spans(status checkpoint.Status, n int) ([]span, error) {
	if n == 0 {
		return nil, nil
	}
	all := make([]span, 0, n)
	err := b.store.All(func(op *checkpoint.Operation) error {
		if op.Status == status {
			all = append(all, span{op.Offset, op.Length, op.Seq})
		}
		return nil
	})
	return all, err
}
