//go:build !unix

package result

import (
	"errors"
	"os"
)

// lock refuses: this system can neither lock as flock does nor rename over an open file.
func lock(*os.File) error { return errors.ErrUnsupported }

func syncDir(string) error { return errors.ErrUnsupported }
