//go:build unix

package cmd

import (
	"math"
	"syscall"
)

// openFiles is how many files this process may have open; 0 = no limit is
// known. Go itself raises the soft limit to the hard one at start.
func openFiles() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil || l.Cur > math.MaxInt32 {
		return 0
	}
	return int(l.Cur)
}
