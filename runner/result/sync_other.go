//go:build !linux

package result

import "os"

type syncFile struct{ *os.File }
