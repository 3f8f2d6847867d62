package result

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Errors of a Writer.
var (
	// ErrInUse is returned by Open when another process writes to the file.
	ErrInUse = errors.New("in use by another run")

	// ErrNotFile is returned by Open for a folder, a device, or a FIFO.
	ErrNotFile = errors.New("not a regular file")

	// ErrFailed is returned by every write after one that failed. Whether lines of the failed write are on disk is not
	// known before the file is opened again.
	ErrFailed = errors.New("an earlier write failed")

	// ErrClosed is returned by writes after Close.
	ErrClosed = errors.New("output is closed")
)

// file is what Writer needs of *os.File. Tests put failing ones in its place.
type file interface {
	io.Writer
	io.ReaderAt
	Sync() error
	Truncate(size int64) error
	Close() error
}

// Writer appends lines to one file, which it locks. It is safe for concurrent use.
type Writer struct {
	path   string
	repair Repair

	mu       sync.Mutex
	f        file
	synced   int64      // bytes of the file that are on disk, all of them whole lines
	written  int64      // bytes of the file, likewise
	end      int64      // offset of the next line: written, and what is on its way
	buf      []byte     // lines for the next write
	waiting  []appended // what they are
	unsynced []appended // lines that are written
	writing  bool       // writeAll goes on
	syncing  bool       // syncAll goes on
	idle     *sync.Cond
	err      error // sticky
	closed   bool

	// writeAll's own.
	spare []byte    // buffer for the write after it
	wrote time.Time // when the last write began

	last time.Time // when the last sync ended; syncAll's own
}

// appended is what one caller brought, and what it waits for.
type appended struct {
	span Span
	then func(Span, error)
}

// tell tells all who brought lines what became of them.
func tell(lines []appended, err error) {
	for _, l := range lines {
		if err != nil {
			l.span = Span{}
		}
		l.then(l.span, err)
	}
}

// syncGap is the least time between two syncs. Where answers come by the thousand a second, each sync would serve few lines
// only, and syncs of a file that grows would take more of the processor than lines do. Lines are written meanwhile, also
// while a sync goes on, at least writeGap apart, so that a program that is killed loses next to none. A line that comes
// alone waits for no other.
const syncGap, writeGap = 20 * time.Millisecond, 2 * time.Millisecond

// maxKeptBuffer is the largest buffer that is kept for the next batch, bytes.
const maxKeptBuffer = 4 << 20

// Open opens the file at path for appending, or creates it with mode 0600, locks it, and repairs its end (see Repaired).
// Errors: ErrInUse; ErrNotFile; ErrNotOurs if it has content that llmbatch did not write, and then it is left untouched; or
// one of the file system.
func Open(path string) (*Writer, error) {
	w, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

func open(path string) (*Writer, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, ErrNotFile // and opening a FIFO would wait
	}
	_, statErr := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	w := newWriter(path, syncFile{f})
	if err = w.prepare(f); err == nil && statErr != nil {
		err = syncDir(filepath.Dir(path)) // the new name must outlive a power cut as well as the lines
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

func newWriter(path string, f file) *Writer {
	w := &Writer{path: path, f: f}
	w.idle = sync.NewCond(&w.mu)
	return w
}

func (w *Writer) prepare(f *os.File) error {
	if err := lock(f); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// Between open and lock another process may have put a rewritten file in this one's place.
	if named, err := os.Stat(w.path); err != nil || !os.SameFile(info, named) {
		return ErrInUse
	}
	if !info.Mode().IsRegular() {
		return ErrNotFile
	}
	if err := checkOurs(f); err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		// Only a file system that keeps no modes, or another owner, refuses this.
		_ = f.Chmod(0o600)
	}
	w.repair, w.synced, err = repairTail(w.f, info.Size())
	w.written, w.end = w.synced, w.synced
	return err
}

// Repaired returns what Open did to the end of the file.
func (w *Writer) Repaired() Repair { return w.repair }

// Size returns the bytes that are on disk, all of them whole lines.
func (w *Writer) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.synced
}

// Append writes a line, given without its newline, and returns where it lies once it is on disk. One sync serves all
// lines that wait. After an error every later call fails with ErrFailed: a torn line is cut off again, but whether
// whole lines of the failed write stay is not known: stop, and let Open and Tail see. A full disk is
// errors.Is(err, syscall.ENOSPC).
func (w *Writer) Append(line []byte) (Span, error) {
	if err := w.check(line); err != nil {
		return Span{}, err
	}
	return w.append(line)
}

// AppendThen is Append that does not wait: it calls then with what Append would return, on a goroutine that the lines of
// one sync share, or before it returns if nothing is written any more. It does not keep line.
func (w *Writer) AppendThen(line []byte, then func(Span, error)) {
	if err := w.check(line); err != nil {
		then(Span{}, err)
		return
	}
	w.enter(line, then)
}

func (w *Writer) check(line []byte) error {
	if len(line) == 0 || bytes.IndexByte(line, '\n') >= 0 {
		return fmt.Errorf("%s: a result must be one line", w.path)
	}
	return nil
}

// append is Append for one or more lines, without the last one's newline.
func (w *Writer) append(lines []byte) (span Span, err error) {
	done := make(chan struct{})
	w.enter(lines, func(at Span, why error) {
		span, err = at, why
		close(done)
	})
	<-done
	return span, err
}

// enter adds lines to the next write.
func (w *Writer) enter(lines []byte, then func(Span, error)) {
	w.mu.Lock()
	if w.err != nil {
		err := w.refusal()
		w.mu.Unlock()
		then(Span{}, err)
		return
	}
	span := Span{Offset: w.end, Length: int64(len(lines))}
	w.end = span.End()
	w.buf = append(append(w.buf, lines...), '\n')
	w.waiting = append(w.waiting, appended{span: span, then: then})
	begin := !w.writing
	w.writing = true
	w.mu.Unlock()
	if begin {
		go w.writeAll()
	}
}

// refusal says why nothing is written any more. The caller holds w.mu.
func (w *Writer) refusal() error {
	if errors.Is(w.err, ErrClosed) {
		return fmt.Errorf("%s: %w", w.path, ErrClosed)
	}
	return fmt.Errorf("%w: %w", ErrFailed, w.err)
}

// failed says that nothing can be written any more. The caller holds w.mu.
func (w *Writer) failed() bool { return w.err != nil && !errors.Is(w.err, ErrClosed) }

// writeAll writes until no line waits.
func (w *Writer) writeAll() {
	for more := true; more; {
		time.Sleep(writeGap - time.Since(w.wrote))
		w.wrote = time.Now()
		more = w.write()
	}
}

// write puts the lines that wait at the end of the file, leaves them to be synced, and says whether more wait.
func (w *Writer) write() bool {
	w.mu.Lock()
	buf, lines := w.buf, w.waiting
	w.buf, w.waiting, w.spare = w.spare[:0], nil, nil
	var err error
	if w.failed() {
		err = w.refusal()
	}
	w.mu.Unlock()
	if err == nil {
		err = w.put(buf)
	}
	w.mu.Lock()
	if err == nil {
		w.written += int64(len(buf))
		w.unsynced = append(w.unsynced, lines...)
		if !w.syncing {
			w.syncing = true
			go w.syncAll()
		}
	} else if !w.failed() {
		w.err = err
	}
	if cap(buf) <= maxKeptBuffer {
		w.spare = buf
	}
	w.writing = len(w.waiting) > 0
	more := w.writing
	w.idle.Broadcast()
	w.mu.Unlock()
	if err != nil {
		go tell(lines, err)
	}
	return more
}

// put writes whole lines at the end. If not all of them get there, the file is cut back to the last that did: those are
// paid for, and Tail finds them at the next start.
func (w *Writer) put(lines []byte) error {
	n, err := w.f.Write(lines)
	if err == nil && n < len(lines) {
		err = io.ErrShortWrite
	}
	if err == nil {
		return nil
	}
	whole := int64(bytes.LastIndexByte(lines[:max(n, 0)], '\n') + 1)
	if cutErr := w.f.Truncate(w.written + whole); cutErr != nil {
		err = errors.Join(err, cutErr)
	}
	return fmt.Errorf("write %s: %w", w.path, err)
}

// syncAll syncs until every line that is written is on disk.
func (w *Writer) syncAll() {
	for more := true; more; {
		time.Sleep(syncGap - time.Since(w.last))
		more = w.sync()
	}
}

// sync syncs what is written, tells whose lines it is, and says whether more has been written since. After a failure
// nothing is: a later sync may well succeed without having written what an earlier one could not.
func (w *Writer) sync() bool {
	w.mu.Lock()
	lines, written := w.unsynced, w.written
	w.unsynced = nil
	var err error
	if w.failed() {
		err = w.refusal()
	}
	w.mu.Unlock()
	if err == nil {
		if err = w.f.Sync(); err != nil {
			err = fmt.Errorf("sync %s: %w", w.path, err)
		}
	}
	w.mu.Lock()
	switch {
	case err == nil:
		w.synced = written
	case !w.failed():
		w.err = err
	}
	w.last = time.Now()
	w.syncing = len(w.unsynced) > 0
	more := w.syncing
	w.idle.Broadcast()
	w.mu.Unlock()
	go tell(lines, err)
	return more
}

// settle waits until no line is on its way. The caller holds w.mu.
func (w *Writer) settle() {
	for w.writing || w.syncing {
		w.idle.Wait()
	}
}

// Close waits for the lines on their way, closes the file and lets go of the lock. Further calls do nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	if w.err == nil {
		w.err = ErrClosed
	}
	w.settle()
	return w.f.Close()
}
