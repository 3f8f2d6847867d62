package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Errors of opening.
var (
	// ErrLocked is returned when another process holds the checkpoint.
	ErrLocked = errors.New("in use by another run")

	// ErrDamaged is returned when a file is there but is no whole checkpoint: empty, cut, or overwritten. It is never
	// treated as a checkpoint without operations; move it aside and rebuild it from the results and errors files.
	ErrDamaged = errors.New("damaged")

	// ErrNotFile is returned for what cannot have been a checkpoint: a folder, a device, a FIFO, a text, another
	// program's database. Leave it alone.
	ErrNotFile = errors.New("not a checkpoint file")

	// ErrVersion is returned when a newer llmbatch wrote the file.
	ErrVersion = errors.New("written by a newer version of llmbatch")
)

// Errors of writing.
var (
	// ErrFailed is returned by every write after one that failed. Whether the rows of the failed write are stored is
	// not known before the file is opened again.
	ErrFailed = errors.New("an earlier write failed")

	// ErrClosed is returned by writes to a store that is closed.
	ErrClosed = errors.New("closed")

	// ErrReadOnly is returned by writes to a store from OpenReadOnly.
	ErrReadOnly = errors.New("open for reading only")
)

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// withCause gives errors.Is its system error back where bbolt kept only the words of one ("file resize error: %s").
func withCause(err error) error {
	if err == nil {
		return nil
	}
	for _, cause := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO} {
		if !errors.Is(err, cause) && strings.HasSuffix(err.Error(), cause.Error()) {
			return fmt.Errorf("%s%w", strings.TrimSuffix(err.Error(), cause.Error()), cause)
		}
	}
	return err
}
