package result

import (
	"errors"
	"os"
	"syscall"
)

// syncFile syncs the bytes and the length of a file, without its times: half the cost of a full sync.
type syncFile struct{ *os.File }

// Sync waits until all that was written is on disk.
func (f syncFile) Sync() error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
