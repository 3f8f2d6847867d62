package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Paths are the files of a run.
type Paths struct {
	Input      string `json:"input"` // as the user named it
	Output     string `json:"output"`
	Errors     string `json:"errors"`
	Superseded string `json:"superseded"` // paid results that an edited line made stale
	Checkpoint string `json:"checkpoint"`
}

// Check refuses names under which two files would be written into one, also by
// way of links, and links to nothing: a file made through one is not where the
// next start looks for it.
func (p Paths) Check() error {
	files := []struct{ what, path string }{
		{"--output", p.Output}, {"--errors", p.Errors}, {"--checkpoint", p.Checkpoint}, {"the file of superseded results", p.Superseded},
	}
	for i, f := range files {
		if fi, err := os.Lstat(f.path); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
				return usage("name the file itself, or make what the link points to", "%s %s is a symbolic link to a file that does not exist", f.what, f.path)
			}
		}
		for _, other := range files[:i] {
			if sameFile(f.path, other.path) {
				return usage("give each a file of its own", "%s and %s are the same file, %s", other.what, f.what, f.path)
			}
		}
	}
	return nil
}

// FileOf is a file and what it is named by.
type FileOf struct{ What, Path string }

// CheckOthers refuses further files of a run under the name of one of these, of
// the input, or of each other. An empty path is no file.
func (p Paths) CheckOthers(others ...FileOf) error {
	taken := []FileOf{
		{"the input", p.Input}, {"--output", p.Output}, {"--errors", p.Errors}, {"--checkpoint", p.Checkpoint}, {"the file of superseded results", p.Superseded},
	}
	for _, f := range others {
		if f.Path == "" {
			continue
		}
		for _, t := range taken {
			if sameFile(f.Path, t.Path) {
				return usage("give each a file of its own", "%s and %s are the same file, %s", t.What, f.What, f.Path)
			}
		}
		taken = append(taken, f)
	}
	return nil
}

// CheckFolder refuses a file, named by its flag, in a folder that does not exist
// or cannot be written in.
func CheckFolder(f FileOf) error {
	dir := filepath.Dir(f.Path)
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return usage("make the folder, or choose another place with "+f.What, "folder %s does not exist", dir)
	}
	probe, err := os.CreateTemp(dir, ".llmbatch-*")
	if err != nil {
		return &Error{Fault: FaultUsage, Msg: "cannot write in " + dir, Hint: "choose another place with " + f.What, Err: errors.Unwrap(err)}
	}
	probe.Close()
	return os.Remove(probe.Name())
}

// sameFile compares files as the system does; of those that are still to be
// made, their folders.
func sameFile(a, b string) bool {
	fa, errA := os.Stat(a)
	fb, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(fa, fb)
	}
	return errA != nil && errB != nil && place(a) == place(b)
}

// place is a path without links on its way, as far as it exists.
func place(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(dir, filepath.Base(abs))
	}
	return abs
}
