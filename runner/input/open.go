package input

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// ErrChanged says that the file's bytes are not those that the pre-flight read. Errors that wrap it name the line.
var ErrChanged = errors.New("the input changed since the pre-flight read it")

// File is an opened input with random access to its plain bytes. Record and Raw are safe for concurrent use.
type File struct {
	name string
	path string
	f    interface {
		io.ReaderAt
		io.Closer
	}
	size  int64
	info  fs.FileInfo // as it was opened; nil for a spool, which is ours
	spool bool
	sha   [32]byte  // zero until known
	idle  sync.Pool // of *examiner
}

// Open opens the input at path. A plain file is read where it lies. What gzip or zstd compressed, told by its content, is written
// decompressed to spoolDir as <name without .gz, .zst and .jsonl>.spool.jsonl; standard input ("-") and anything else that is no regular
// file, such as a FIFO, as stdin-<first 12 hex digits of its sha256>.jsonl, decompressed as well. Spools have mode 0600 and appear under
// their name when they are whole; a compressed stream that is cut or followed by something else is an error. UTF-16 is refused by name.
// When ctx ends first, its error is wrapped and nothing is left behind.
func Open(ctx context.Context, path string, stdin io.Reader, spoolDir string) (*File, error) {
	if path == "-" {
		return openStream("standard input", stoppable(ctx, stdin), spoolDir)
	}
	f, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() {
		defer f.Close()
		return openStream(path, stoppable(ctx, f), spoolDir)
	}
	head := make([]byte, 4)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, errors.Join(err, f.Close())
	}
	if compressed(head[:n]) {
		defer f.Close()
		out, err := spool(stoppable(ctx, f), path, spoolDir, func(string) string {
			base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".zst")
			return strings.TrimSuffix(base, ".jsonl") + ".spool.jsonl"
		})
		if err != nil {
			return nil, err
		}
		out.name = path
		return out, nil
	}
	if err := checkUTF16(path, head[:n]); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{name: path, path: path, f: f, size: info.Size(), info: info}, nil
}

// Changed tells that the file is no longer the one that was opened, or was written to since.
func (f *File) Changed() bool {
	if f.info == nil {
		return false
	}
	now, err := os.Stat(f.path)
	return err != nil || !os.SameFile(now, f.info) || now.Size() != f.info.Size() || !now.ModTime().Equal(f.info.ModTime())
}

func openStream(what string, r io.Reader, spoolDir string) (*File, error) {
	f, err := spool(r, what, spoolDir, func(sum string) string { return "stdin-" + sum[:12] + ".jsonl" })
	if err != nil {
		return nil, err
	}
	f.name = filepath.Base(f.path)
	return f, nil
}

func compressed(head []byte) bool {
	return bytes.HasPrefix(head, []byte{0x1F, 0x8B}) || bytes.HasPrefix(head, []byte{0x28, 0xB5, 0x2F, 0xFD})
}

// checkUTF16 knows UTF-16 by its byte order mark or by the zero byte beside the first character.
func checkUTF16(name string, head []byte) error {
	if len(head) < 2 {
		return nil
	}
	if bom := head[0]^head[1] == 1 && head[0] >= 0xFE; bom || head[0] == 0 && head[1] != 0 || head[0] != 0 && head[1] == 0 {
		return fmt.Errorf("%s is UTF-16, and JSON lines are UTF-8: iconv -f UTF-16 -t UTF-8 makes it so (PowerShell: Get-Content FILE | Set-Content -Encoding utf8 NEW)", name)
	}
	return nil
}

// spool writes r, decompressed, into a file of dir whose name may depend on the content's sum.
func spool(r io.Reader, what, dir string, name func(sum string) string) (*File, error) {
	tmp, err := os.CreateTemp(dir, ".spool-*.part")
	if err != nil {
		return nil, fmt.Errorf("spool %s: %w", what, err)
	}
	h := sha256.New()
	size, err := decompress(tmp, h, r, what)
	var path string
	if err == nil {
		head := make([]byte, min(size, 4))
		if _, err = tmp.ReadAt(head, 0); err == nil || err == io.EOF {
			err = checkUTF16(what, head)
		}
	}
	if err == nil {
		path = filepath.Join(dir, name(hex.EncodeToString(h.Sum(nil))))
		if old, e := os.Lstat(path); e == nil && !old.Mode().IsRegular() {
			err = fmt.Errorf("spool %s: %s is in the way", what, path)
		} else {
			err = os.Rename(tmp.Name(), path)
		}
	}
	if err != nil {
		return nil, errors.Join(err, tmp.Close(), os.Remove(tmp.Name()))
	}
	return &File{path: path, f: tmp, size: size, spool: true, sha: [32]byte(h.Sum(nil))}, nil
}

// decompress copies r to w and h, through what its first bytes call for.
func decompress(w io.Writer, h hash.Hash, r io.Reader, what string) (int64, error) {
	head := make([]byte, 4)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return 0, fmt.Errorf("read %s: %w", what, err)
	}
	whole := io.MultiReader(bytes.NewReader(head[:n]), r)
	format := ""
	switch {
	case head[0] == 0x1F && compressed(head[:n]):
		format = "gzip"
		zr, err := gzip.NewReader(whole)
		if err != nil {
			return 0, compressionError(what, format, 0, err)
		}
		whole = zr
	case compressed(head[:n]):
		format = "zstd"
		// 128 MiB is the window that the zstd tool itself accepts without a flag.
		zr, err := zstd.NewReader(whole, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return 0, compressionError(what, format, 0, err)
		}
		defer zr.Close()
		whole = zr
	}
	rd := &sourceReader{r: whole}
	size, err := io.CopyBuffer(io.MultiWriter(w, h), rd, make([]byte, 256<<10))
	switch {
	case rd.err != nil && format != "":
		err = compressionError(what, format, size, rd.err)
	case rd.err != nil:
		err = fmt.Errorf("read %s: %w", what, rd.err)
	case err != nil:
		err = fmt.Errorf("spool %s: %w", what, err)
	}
	return size, err
}

// sourceReader keeps a reader's error apart from its copy's.
type sourceReader struct {
	r   io.Reader
	err error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

func compressionError(what, format string, size int64, err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the %s data is cut off after %d decompressed bytes: get the file again", what, format, size)
	case size > 0 && (errors.Is(err, gzip.ErrHeader) || errors.Is(err, zstd.ErrMagicMismatch)):
		return fmt.Errorf("%s: after %d decompressed bytes something follows that is not %s: get the file again", what, size, format)
	}
	return fmt.Errorf("%s: the %s data is damaged after %d decompressed bytes: %w", what, format, size, err)
}

// Name is what files that belong to the input are named after: the path as given, or stdin-<12 hex>.jsonl for a stream.
func (f *File) Name() string { return f.name }

// Path is the file that is read: the input itself or its spool.
func (f *File) Path() string { return f.path }

// SHA is the sha256 of the plain bytes; zero before Preflight for a file that is read in place.
func (f *File) SHA() [32]byte { return f.sha }

// Spooled tells whether Path is a spool of this package.
func (f *File) Spooled() bool { return f.spool }

// Close closes the file. A spool stays.
func (f *File) Close() error { return f.f.Close() }

// RemoveSpool removes the spool; an input that is read in place is left alone. One that is gone already is no error.
func (f *File) RemoveSpool() error {
	if !f.spool {
		return nil
	}
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
