package runner

import (
	"io/fs"
	"syscall"
)

// changedAt is when a file's bytes, times or mode were last changed, in ns since
// 1970. Unlike its time of modification nobody can set it back.
func changedAt(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return 0
}
