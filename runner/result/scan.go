package result

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Span is where a line lies in its file, in bytes, without its newline.
type Span struct {
	Offset int64
	Length int64
}

// End returns the offset of the line that follows.
func (s Span) End() int64 { return s.Offset + s.Length + 1 }

// Scanned is one line of a file.
type Scanned struct {
	Span
	Number int    // from 1, counted from where the scan began
	Raw    []byte // without the newline; valid during the call; nil if Err is ErrTooLong
	Line   *Line  // nil if Err is set; its raw fields are parts of Raw
	Err    error  // ErrTorn, ErrTooLong, ErrNotOurs, or where the JSON breaks
}

// Errors of single lines.
var (
	// ErrTorn is the error of a last line that ends neither in a newline nor as whole JSON. A file that is being
	// written to may end so.
	ErrTorn = errors.New("torn line at the end")

	// ErrTooLong is the error of a line longer than ScanOptions.MaxLine.
	ErrTooLong = errors.New("line too long")
)

// defaultMaxLine is above the longest answer that the providers' clients accept.
const defaultMaxLine = 256 << 20

// readBuffer of a scan, bytes.
const readBuffer = 256 << 10

// ScanOptions of a scan. The zero value reads the whole file.
type ScanOptions struct {
	From    int64 // offset of the first line
	MaxLine int   // longest line that is held in memory, bytes; 0 = 256 MiB
}

// Scan calls fn for each line of the file, damaged ones included, and stops at fn's first error. Blank lines are
// skipped, and counted in Number. Memory is bounded by the longest line.
func Scan(path string, o ScanOptions, fn func(Scanned) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return scanFile(f, o, fn)
}

func scanFile(f io.ReaderAt, o ScanOptions, fn func(Scanned) error) error {
	r := newLineReader(f, o)
	for {
		sc, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(sc.Raw)) == 0 && sc.Err == nil {
			continue
		}
		if sc.Err == nil {
			sc.Line, sc.Err = decodeAliased(sc.Raw)
			if sc.Err != nil && !r.ended {
				sc.Err = ErrTorn
			}
		}
		if err := fn(sc); err != nil {
			return err
		}
	}
}

// lineReader splits a file into lines of any length.
type lineReader struct {
	r      *bufio.Reader
	offset int64
	number int
	max    int
	long   []byte // holds lines that do not fit r's buffer
	ended  bool   // the last line had its newline
}

func newLineReader(f io.ReaderAt, o ScanOptions) *lineReader {
	if o.MaxLine == 0 {
		o.MaxLine = defaultMaxLine
	}
	section := io.NewSectionReader(f, o.From, 1<<62-o.From)
	return &lineReader{r: bufio.NewReaderSize(section, readBuffer), offset: o.From, max: o.MaxLine}
}

// next returns the next line, not decoded, or io.EOF after the last.
func (l *lineReader) next() (Scanned, error) {
	line, err := l.r.ReadSlice('\n')
	length := int64(len(line))
	tooLong := false
	if err == bufio.ErrBufferFull {
		l.long = l.long[:0]
		for err == bufio.ErrBufferFull {
			if len(l.long)+len(line) <= l.max {
				l.long = append(l.long, line...)
			} else {
				tooLong = true
			}
			line, err = l.r.ReadSlice('\n')
			length += int64(len(line))
		}
		l.long = append(l.long, line...)
		line = l.long
	}
	if err != nil && err != io.EOF {
		return Scanned{}, err
	}
	if length == 0 {
		return Scanned{}, io.EOF
	}
	l.ended = err == nil
	l.number++
	sc := Scanned{Span: Span{Offset: l.offset, Length: length}, Number: l.number}
	l.offset += length
	if l.ended {
		sc.Length--
	}
	if tooLong || sc.Length > int64(l.max) {
		sc.Err = fmt.Errorf("%w: %d bytes", ErrTooLong, sc.Length)
		l.long = nil
		return sc, nil
	}
	sc.Raw = line[:sc.Length]
	if sc.Offset == 0 && bytes.HasPrefix(sc.Raw, bom) {
		sc.Raw, sc.Offset, sc.Length = sc.Raw[len(bom):], int64(len(bom)), sc.Length-int64(len(bom))
	}
	return sc, nil
}

// bom is what editors of one family put in front of a file that they save. The first line begins behind it.
var bom = []byte("\ufeff")

// Reader reads single lines of an output file by their spans, also while a run writes to it. It is safe for concurrent
// use.
type Reader struct {
	f *os.File
}

// OpenReader opens the file at path.
func OpenReader(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &Reader{f: f}, nil
}

// Raw reads the line at a span into buf, grown as needed. It fails if no whole line lies just there: the file was
// changed or replaced.
func (r *Reader) Raw(s Span, buf []byte) ([]byte, error) {
	before := min(s.Offset, 1) // the newline of the line before, except at the start; or the end of a byte order mark
	need := before + s.Length + 1
	if s.Offset < 0 || s.Length <= 0 || s.Length > 1<<40 {
		return nil, fmt.Errorf("%s: no line at offset %d with %d bytes", r.f.Name(), s.Offset, s.Length)
	}
	if info, err := r.f.Stat(); err != nil {
		return nil, err
	} else if s.End() > info.Size() { // before anything is allocated
		return nil, fmt.Errorf("%s: offset %d lies past its end", r.f.Name(), s.Offset)
	}
	if int64(cap(buf)) < need {
		buf = make([]byte, need)
	}
	buf = buf[:need]
	if _, err := r.f.ReadAt(buf, s.Offset-before); err != nil {
		return nil, err
	}
	line := buf[before : need-1]
	first := before == 0 || s.Offset == int64(len(bom)) && buf[0] == bom[len(bom)-1]
	if !first && buf[0] != '\n' || buf[need-1] != '\n' || bytes.IndexByte(line, '\n') >= 0 {
		return nil, fmt.Errorf("%s: no line begins at offset %d and has %d bytes", r.f.Name(), s.Offset, s.Length)
	}
	return line, nil
}

// Close closes the file.
func (r *Reader) Close() error { return r.f.Close() }
