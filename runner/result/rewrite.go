package result

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// movedChunk is how many bytes of removed lines one write to the other file takes.
const movedChunk = 1 << 20

// Rewrite replaces the file by one that holds only the lines for which keep returns true, in their order; blank lines
// go. keep sees damaged lines too. The lines that go are first written to moved, unless it is nil, and synced there: a
// crash can leave them in both files, never in neither. placed, unless nil, is told where each kept line lies in the new
// file. The old file stays as it is until the new one is synced and takes its name; until then an error changes nothing.
// Append waits meanwhile.
func (w *Writer) Rewrite(keep func(Scanned) bool, moved *Writer, placed func(Scanned, Span)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle()
	if w.err != nil {
		return w.refusal()
	}
	temp := w.path + ".new"
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	// The new file is locked before it has its name, so that no other process finds it free.
	err = lock(f)
	var size int64
	if err == nil {
		size, err = copyKept(f, w.f, keep, moved, placed)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(temp, w.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("rewrite %s: %w", w.path, err), f.Close(), os.Remove(temp))
	}
	old := w.f
	w.f, w.synced, w.written, w.end = syncFile{f}, size, size, size
	if err := errors.Join(syncDir(filepath.Dir(w.path)), old.Close()); err != nil {
		w.err = fmt.Errorf("rewrite %s: %w", w.path, err)
		return w.err
	}
	return nil
}

// copyKept copies the lines to keep from one file to another and returns their size.
func copyKept(to io.Writer, from io.ReaderAt, keep func(Scanned) bool, moved *Writer, placed func(Scanned, Span)) (int64, error) {
	out := bufio.NewWriterSize(to, readBuffer)
	var size int64
	var gone []byte
	err := scanFile(from, ScanOptions{}, func(sc Scanned) error {
		switch {
		case keep(sc):
			if err := copyLine(out, from, sc); err != nil {
				return err
			}
			if placed != nil {
				placed(sc, Span{Offset: size, Length: sc.Length})
			}
			size += sc.Length + 1
			return nil
		case moved == nil || sc.Raw == nil || sc.Err != nil: // a damaged line holds no result
			return nil
		}
		gone = append(append(gone, sc.Raw...), '\n')
		if len(gone) < movedChunk {
			return nil
		}
		_, err := moved.append(gone[:len(gone)-1])
		gone = gone[:0]
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	if err == nil && len(gone) > 0 {
		_, err = moved.append(gone[:len(gone)-1])
	}
	return size, err
}

// copyLine copies a line and its newline. One too long for memory is read again.
func copyLine(out *bufio.Writer, from io.ReaderAt, sc Scanned) error {
	var err error
	if sc.Raw != nil {
		_, err = out.Write(sc.Raw)
	} else {
		_, err = io.Copy(out, io.NewSectionReader(from, sc.Offset, sc.Length))
	}
	if err != nil {
		return err
	}
	return out.WriteByte('\n')
}
