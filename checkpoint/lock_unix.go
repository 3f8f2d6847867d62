//go:build unix

package checkpoint

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// lockPoll is the pause between two tries for the lock.
const lockPoll = 20 * time.Millisecond

// lock takes the lock that bbolt takes (a second time, on the same descriptor, which is granted).
func lock(f *os.File, exclusive bool, timeout time.Duration) error {
	how := syscall.LOCK_SH | syscall.LOCK_NB
	if exclusive {
		how = syscall.LOCK_EX | syscall.LOCK_NB
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(lockPoll) {
		err := syscall.Flock(int(f.Fd()), how)
		switch {
		case errors.Is(err, syscall.EINTR):
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return err
		case time.Now().After(deadline):
			return ErrLocked
		}
	}
}
