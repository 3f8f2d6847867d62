package input

import (
	"context"
	"io"
	"os"
)

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// stoppable reads from r until ctx ends, also while a read waits for a writer that never comes or a person who types: that read is left
// behind, and its bytes with it. Once ctx has ended its error is all that is read.
func stoppable(ctx context.Context, r io.Reader) io.Reader {
	type result struct {
		n   int
		err error
	}
	buf, done := make([]byte, 256<<10), make(chan result, 1)
	var left []byte // read, not yet taken
	var after error // that followed it
	return readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if len(left) == 0 && after == nil {
			go func() {
				n, err := r.Read(buf)
				done <- result{n, err}
			}()
			select {
			case got := <-done:
				left, after = buf[:got.n], got.err
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		n := copy(p, left)
		if left = left[n:]; len(left) == 0 {
			return n, after
		}
		return n, nil
	})
}

// openFile opens a file. Opening a FIFO waits for its writer, and no longer than ctx.
func openFile(ctx context.Context, path string) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.Open(path)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.f, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
