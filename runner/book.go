package runner

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/result"
)

// book is the durable side of a run: the checkpoint, the output and the
// errors file, and what they say of each line of the input. The dispatcher's
// goroutine owns it after open; store, out and errs are safe for attempts.
type book struct {
	store *checkpoint.Store
	out   *result.Writer
	errs  *result.Writer
	meta  checkpoint.Meta

	index   *input.Index
	row     []uint32          // for each entry the sequence number of its row; 0 = none
	removed map[string]uint64 // rows whose line is no longer in the input
	lines   tilings           // of the rows as they stand since makePlan
	fresh   bool              // the checkpoint was made by this start
	before  map[string]string // the settings that it had
	made    []string          // files that this start made
}

// openBook takes the locks and opens, or rebuilds, the checkpoint.
func openBook(c *Config, index *input.Index, settings map[string]string) (*book, error) {
	if err := checkOutputs(c); err != nil {
		return nil, err
	}
	b := &book{index: index, row: make([]uint32, index.Len()), removed: map[string]uint64{}}
	err := b.openStore(c)
	if err == nil {
		err = b.openFiles(c)
	}
	// A new checkpoint is made last: a refusal leaves nothing behind.
	if err == nil && b.store == nil {
		err = b.createStore(c, settings)
	} else if err == nil {
		err = b.compare(c, settings)
	}
	if err != nil {
		b.fresh = b.fresh && b.store != nil
		return nil, errors.Join(err, b.discard(c))
	}
	return b, nil
}

// checkOutputs refuses file names that would destroy something.
func checkOutputs(c *Config) error {
	in, err := os.Stat(c.Input.Path())
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	for _, p := range []string{c.Paths.Output, c.Paths.Errors, c.Paths.Checkpoint} {
		if fi, err := os.Stat(p); err == nil && os.SameFile(in, fi) {
			return usage("name another file with --output", "%s is the input itself", p)
		}
	}
	dir := filepath.Dir(c.Paths.Output)
	if fi, err := os.Stat(dir); err == nil && fi.Mode().Perm()&0o002 != 0 && fi.Mode()&fs.ModeSticky == 0 {
		c.Notice(fmt.Sprintf("folder %s can be written by everyone on this machine: others can put files of theirs in the place of the results", dir))
	}
	for _, f := range []FileOf{{"--output", c.Paths.Output}, {"--errors", c.Paths.Errors}, {"--checkpoint", c.Paths.Checkpoint}} {
		if err := CheckFolder(f); err != nil {
			return err
		}
	}
	return nil
}

// openStore opens the checkpoint if there is one. A damaged one is kept aside.
func (b *book) openStore(c *Config) (err error) {
	path := c.Paths.Checkpoint
	b.store, err = checkpoint.Open(path, checkpoint.Options{})
	switch {
	case err == nil:
		if b.meta, err = b.store.Meta(); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		if b.store.Recovered() {
			c.Notice(fmt.Sprintf("checkpoint %s: one of its two header pages is damaged, and what was written last may be missing; going on from the other one, the output and the errors file", path))
		}
		return nil
	case errors.Is(err, checkpoint.ErrLocked):
		return inUse("checkpoint", path, path, "--checkpoint and --output")
	case errors.Is(err, checkpoint.ErrVersion):
		return &Error{Fault: FaultUsage, Msg: "cannot use the checkpoint", Err: err, Hint: "use the llmbatch that wrote it, or give this run its own --checkpoint"}
	case errors.Is(err, checkpoint.ErrNotFile):
		return &Error{Fault: FaultUsage, Msg: "cannot use the checkpoint", Err: err, Hint: "name another file with --checkpoint"}
	case errors.Is(err, checkpoint.ErrDamaged):
		if isEmpty(c.Paths.Output) && isEmpty(c.Paths.Errors) && !c.Restart {
			return &Error{
				Fault: FaultUsage, Msg: "nothing says what was finished: the output " + c.Paths.Output + " is gone or empty", Err: err,
				Hint: "put the output back, or start over with --restart (which pays for every call again)",
			}
		}
		aside := path + ".damaged-" + time.Now().UTC().Format("20060102-150405")
		if err := os.Rename(path, aside); err != nil {
			return fmt.Errorf("keep the damaged checkpoint: %w", err)
		}
		c.Notice(fmt.Sprintf("checkpoint %s is damaged (kept as %s); rebuilding it from the output and errors files", path, aside))
	case errors.Is(err, fs.ErrNotExist):
	case forbidden(err):
		return &Error{Fault: FaultUsage, Msg: "cannot use the checkpoint", Err: err, Hint: "let this user write to it, or choose another place with --checkpoint"}
	default:
		return err
	}
	b.store = nil
	return nil
}

// createStore makes a new checkpoint, to be filled from what the output and
// errors files hold.
func (b *book) createStore(c *Config, settings map[string]string) error {
	path := c.Paths.Checkpoint
	salt := make([]byte, 8)
	if _, err := rand.Read(salt); err != nil {
		return fmt.Errorf("random salt: %w", err)
	}
	b.fresh = true
	b.meta = checkpoint.Meta{
		InputName: filepath.Base(c.Paths.Input), InputSHA: inputSHA(c), Settings: settings,
		Salt: hex.EncodeToString(salt), Created: time.Now(),
	}
	var err error
	b.store, err = checkpoint.Create(path, b.meta, checkpoint.Options{})
	if errors.Is(err, checkpoint.ErrLocked) {
		return inUse("checkpoint", path, path, "--checkpoint and --output")
	}
	return err
}

func inUse(what, path, checkpointPath, flag string) error {
	holder := "another run"
	if snap, err := checkpoint.ReadSnapshot(checkpointPath); err == nil && snap.PID > 0 {
		holder = fmt.Sprintf("another run (process %d)", snap.PID)
	}
	return &Error{
		Fault: FaultInUse,
		Msg:   fmt.Sprintf("%s %s is in use by %s", what, path, holder),
		Hint:  "wait for it to end, or give this run its own " + flag,
	}
}

// isEmpty says that there is no file, or nothing in it.
func isEmpty(path string) bool {
	fi, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && fi.Size() == 0
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// setAside moves the files of earlier runs out of the way of a new one, unless
// one of those still goes on.
func setAside(c *Config) error {
	held := &book{}
	err := held.openStore(c)
	if err == nil {
		err = held.openFiles(c)
	}
	if err = errors.Join(err, held.close()); err != nil {
		return err
	}
	stamp := time.Now().UTC().Format("20060102-150405")
	for _, path := range []string{c.Paths.Output, c.Paths.Errors, c.Paths.Checkpoint, c.Paths.Superseded} {
		ext := filepath.Ext(path)
		aside := strings.TrimSuffix(path, ext) + "." + stamp + ext
		for n := 2; exists(aside); n++ {
			aside = fmt.Sprintf("%s.%s-%d%s", strings.TrimSuffix(path, ext), stamp, n, ext)
		}
		fi, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && fi.Size() == 0 {
			continue
		}
		if err == nil {
			err = os.Rename(path, aside)
		}
		if err != nil {
			return fmt.Errorf("move aside: %w", err)
		}
		c.Notice(fmt.Sprintf("%s is kept as %s", path, aside))
	}
	return nil
}

func (b *book) openFiles(c *Config) (err error) {
	for _, path := range []string{c.Paths.Output, c.Paths.Errors} {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			b.made = append(b.made, path)
		}
	}
	if b.out, err = openResult(c, c.Paths.Output); err != nil {
		return err
	}
	b.errs, err = openResult(c, c.Paths.Errors)
	return err
}

func openResult(c *Config, path string) (*result.Writer, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a rewrite replaces the file, not the link to it
	}
	w, err := result.Open(path)
	switch {
	case errors.Is(err, result.ErrInUse):
		return nil, inUse("output", path, c.Paths.Checkpoint, "--output")
	case errors.Is(err, result.ErrNotOurs), errors.Is(err, result.ErrNotFile):
		return nil, &Error{Fault: FaultUsage, Msg: "output " + path, Err: err, Hint: "choose another file with --output, or move this one away"}
	case forbidden(err):
		return nil, &Error{Fault: FaultUsage, Msg: "cannot use the output", Err: err, Hint: "let this user write to it, or choose another place with --output"}
	case err != nil:
		return nil, fmt.Errorf("output: %w", err)
	}
	return w, nil
}

// forbidden says that a file is not this user's to write to, which no rerun mends.
func forbidden(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// put stores a row and returns when it is durable.
func (b *book) put(op *checkpoint.Operation) error {
	if !records {
		return nil
	}
	return b.store.Put(op)
}

// putThen calls then once a row is durable, or cannot be.
func (b *book) putThen(op *checkpoint.Operation, then func(error)) {
	if !records {
		then(nil)
		return
	}
	b.store.PutThen(op, then)
}

// putSoon is putThen for the row of a line that is synced: a crash loses neither,
// so that the row may wait for others.
func (b *book) putSoon(op *checkpoint.Operation, then func(error)) {
	if !records {
		then(nil)
		return
	}
	b.store.PutSoon(op, then)
}

// add appends a line to the output or the errors file, and calls then once it is
// durable, or cannot be.
func (b *book) add(w *result.Writer, line []byte, then func(result.Span, error)) {
	if !results {
		then(result.Span{}, nil)
		return
	}
	w.AppendThen(line, then)
}

// compare refuses a checkpoint that was made for another input, or for other
// settings unless the user says what that means.
func (b *book) compare(c *Config, settings map[string]string) error {
	if b.meta.InputName != filepath.Base(c.Paths.Input) && b.meta.InputSHA != inputSHA(c) {
		return usage("give this input its own --checkpoint and --output, or --restart to move the old files aside",
			"checkpoint %s belongs to another input, %s", c.Paths.Checkpoint, b.meta.InputName)
	}
	diff := settingsDiff(b.meta.Settings, settings)
	if len(diff) > 0 && c.Changed == Refuse {
		came, err := b.cameToSomething()
		if err != nil || !came {
			return err
		}
		return usage("--on-changed rerun sends the finished operations whose request changed again; --on-changed keep leaves them; --restart moves the old files aside",
			"settings that change requests differ from the earlier run's, which checkpoint %s is of:\n  %s", c.Paths.Checkpoint, strings.Join(diff, "\n  "))
	}
	return nil
}

// cameToSomething says that an operation of the earlier runs has ended, or may
// have been paid for. A first try with a wrong address or model leaves nothing that
// other settings could take for theirs.
func (b *book) cameToSomething() (bool, error) {
	enough := errors.New("one is enough")
	err := b.store.All(func(op *checkpoint.Operation) error {
		for _, a := range op.Attempts {
			if a.Sent && (a.StatusCode == 0 || a.StatusCode/100 == 2) {
				return enough
			}
		}
		if op.Status != checkpoint.Pending && op.Status != checkpoint.Delayed {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		return true, nil
	}
	return false, err
}

// stamp tells one state of a file from another without reading it.
func stamp(path string) string {
	fi, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d bytes, %d, %d", fi.Size(), fi.ModTime().UnixNano(), changedAt(fi))
}

// intact finds that another process took a file away or cut it. While lines
// are being added, a file may be longer than what is synced; at the end it is not.
func (b *book) intact(c *Config, atEnd bool) error {
	for path, w := range map[string]*result.Writer{c.Paths.Output: b.out, c.Paths.Errors: b.errs} {
		synced := w.Size()
		fi, err := os.Stat(path)
		if err == nil && (fi.Size() < synced || atEnd && fi.Size() != synced) {
			err = errors.New("another process changed it")
		}
		if err != nil {
			return &Error{
				Msg: "output " + path + " is not what this run wrote", Err: err,
				Hint: "put it back and run the same command again, or start over with --restart",
			}
		}
	}
	return nil
}

// seal notes how the files stand at the end of a run, so that the next start
// need not read them; first it makes sure that they are what was written.
func (b *book) seal(c *Config) error {
	if err := b.intact(c, true); err != nil {
		return err
	}
	b.meta.OutputStamp, b.meta.ErrorsStamp = stamp(c.Paths.Output), stamp(c.Paths.Errors)
	return b.store.SetMeta(b.meta)
}

func inputSHA(c *Config) string {
	sha := c.Input.SHA()
	return hex.EncodeToString(sha[:])
}

// undo closes the book of a run that came to nothing. The settings that it was
// given are not those that the results in it were made under.
func (b *book) undo(c *Config) error {
	if b.fresh {
		return b.discard(c)
	}
	b.meta.Settings = b.before
	return errors.Join(b.store.SetMeta(b.meta), b.discard(c))
}

// discard closes the book after a refusal and leaves nothing behind: empty
// files that this start made go, and so does its checkpoint, since all that it
// could hold is in the files it was made from.
func (b *book) discard(c *Config) error {
	err := b.close()
	if b.fresh {
		err = errors.Join(err, os.Remove(c.Paths.Checkpoint))
	}
	for _, path := range b.made {
		if fi, statErr := os.Stat(path); statErr == nil && fi.Size() == 0 {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

func (b *book) close() error {
	var errs []error
	if b.out != nil {
		errs = append(errs, b.out.Close())
	}
	if b.errs != nil {
		errs = append(errs, b.errs.Close())
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	return errors.Join(errs...)
}
