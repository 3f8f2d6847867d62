package result

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Repair is what Open did to the end of a file. The zero value means nothing.
type Repair struct {
	Cut     int64 // bytes of a torn line, and of blank lines after it, that were removed
	Newline bool  // the last line was whole but for its newline, which was added
}

// linePrefix is how each line of ours begins, torn or not.
const linePrefix = `{"id":"`

// linesToJudge is how many lines are looked at to see whose file it is: the first may be damaged.
const linesToJudge = 8

// checkOurs returns ErrNotOurs if a file has content and none of it is ours.
func checkOurs(f io.ReaderAt) error {
	r := newLineReader(f, ScanOptions{})
	foreign := false
	for range linesToJudge {
		sc, err := r.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		line := bytes.TrimSpace(sc.Raw)
		if len(line) == 0 && sc.Err == nil {
			continue
		}
		if sc.Err == nil {
			_, sc.Err = Decode(line)
		}
		if sc.Err == nil {
			return nil
		}
		if errors.Is(sc.Err, ErrNotOurs) || !hasCommonPrefix(line, linePrefix) {
			foreign = true
		}
	}
	if foreign {
		return ErrNotOurs
	}
	return nil
}

func hasCommonPrefix(line []byte, prefix string) bool {
	n := min(len(line), len(prefix))
	return string(line[:n]) == prefix[:n]
}

// repairTail makes the file end in a whole line and its newline, and returns its new size. Only the last line that is
// not blank is judged: a broken one before it is no torn tail, and Scan reports it. A line cut off in the middle of a
// UTF-8 character is broken JSON like any other, since a whole line ends in a brace.
func repairTail(f file, size int64) (Repair, int64, error) {
	last, start, err := lastLine(f, size)
	if err != nil || size == 0 {
		return Repair{}, size, err
	}
	var rep Repair
	end := start // where the file is to end
	if len(last) > 0 {
		if _, err := Decode(bytes.TrimPrefix(last, bom)); err == nil || errors.Is(err, ErrNotOurs) {
			end = start + int64(len(last)) + 1
		}
	}
	switch {
	case end == size:
		return Repair{}, size, nil
	case end > size:
		rep.Newline = true
		_, err = f.Write([]byte{'\n'})
	default:
		rep.Cut = size - end
		err = f.Truncate(end)
	}
	if err == nil {
		err = f.Sync()
	}
	return rep, end, err
}

// lastLine returns the last line that is not blank, without its newline, and its offset. A carriage return or blanks at
// its end are part of it. Without such a line it returns none at offset 0.
func lastLine(f io.ReaderAt, size int64) (line []byte, start int64, err error) {
	const chunk = 64 << 10
	var tail []byte // the file from start on
	start = size
	for start > 0 {
		if len(tail) > defaultMaxLine {
			return nil, 0, ErrTooLong
		}
		n := min(start, max(chunk, int64(len(tail)))) // doubling, so that a long line is not copied often
		more := make([]byte, n, n+int64(len(tail)))
		if _, err := f.ReadAt(more, start-n); err != nil {
			return nil, 0, err
		}
		tail = append(more, tail...)
		start -= n
		text := bytes.TrimRight(tail, " \t\r\n")
		if len(text) == 0 {
			continue
		}
		begin := bytes.LastIndexByte(text, '\n') + 1
		if begin == 0 && start > 0 {
			continue
		}
		line = tail[begin:]
		if i := bytes.IndexByte(tail[len(text):], '\n'); i >= 0 {
			line = tail[begin : len(text)+i]
		}
		return line, start + int64(begin), nil
	}
	return nil, 0, nil
}

// writtenAgain is how much of a file's end Tail writes again at most, bytes: more than one failed sync can have left.
const writtenAgain = 64 << 20

// Tail calls fn for each line from an offset on, as Scan does: the lines that are in the file and that no checkpoint
// knows of. Their bytes (64 MiB at most, from the end) are written and synced once more before. A sync that failed may
// have left them in the page cache alone, marked as clean, and neither a read nor another sync would show it. Call it
// before the first Append.
func (w *Writer) Tail(from int64, fn func(Scanned) error) error {
	w.mu.Lock()
	f, size := w.f, w.synced
	w.mu.Unlock()
	if err := w.writeAgain(f, max(from, size-writtenAgain), size); err != nil {
		return fmt.Errorf("write the end of %s again: %w", w.path, err)
	}
	return scanFile(f, ScanOptions{From: from}, fn)
}

func (w *Writer) writeAgain(from file, offset, end int64) error {
	if offset >= end {
		return nil
	}
	to, err := os.OpenFile(w.path, os.O_WRONLY, 0) // the Writer's own descriptor only appends
	if err != nil {
		return err
	}
	_, err = io.Copy(io.NewOffsetWriter(to, offset), io.NewSectionReader(from, offset, end-offset))
	if err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}
