package input

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/klauspost/compress/zstd"
)

func gz(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zst(t *testing.T, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(text), nil))
}

const twoLines = `{"prompt":"a"}` + "\n" + `{"prompt":"b"}` + "\n"

func TestOpenCompressed(t *testing.T) {
	a, b := twoLines[:15], twoLines[15:]
	for _, c := range []struct{ name, file, content, spool, wantErr string }{
		{"gzip", "x.jsonl.gz", gz(t, twoLines), "x.spool.jsonl", ""},
		{"gzip by content", "x.jsonl", gz(t, twoLines), "x.spool.jsonl", ""},
		{"gzip members", "x.jsonl.gz", gz(t, a) + gz(t, b), "x.spool.jsonl", ""},
		{"gzip cut", "x.jsonl.gz", (gz(t, a) + gz(t, b))[:len(gz(t, a)+gz(t, b))-5], "", "x.jsonl.gz: the gzip data is cut off after 30 decompressed bytes: get the file again"},
		{"gzip cut in its head", "x.jsonl.gz", gz(t, a)[:5], "", "x.jsonl.gz: the gzip data is cut off after 0 decompressed bytes: get the file again"},
		{"gzip and garbage", "x.jsonl.gz", gz(t, a) + "garbage, more of it than a header", "", "x.jsonl.gz: after 15 decompressed bytes something follows that is not gzip: get the file again"},
		{"gzip damaged", "x.jsonl.gz", gz(t, a)[:len(gz(t, a))-8] + "12345678", "", "x.jsonl.gz: the gzip data is damaged after 15 decompressed bytes: gzip: invalid checksum"},
		{"zstd", "x.jsonl.zst", zst(t, twoLines), "x.spool.jsonl", ""},
		{"zstd frames", "y.zst", zst(t, a) + zst(t, b), "y.spool.jsonl", ""},
		{"zstd cut", "x.jsonl.zst", zst(t, twoLines)[:len(zst(t, twoLines))-3], "", "x.jsonl.zst: the zstd data is cut off after 0 decompressed bytes: get the file again"},
		{"zstd and garbage", "x.zst", zst(t, twoLines) + "garbage!", "", "x.zst: after 30 decompressed bytes something follows that is not zstd: get the file again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, spoolDir := t.TempDir(), t.TempDir()
			path := filepath.Join(dir, c.file)
			if err := os.WriteFile(path, []byte(c.content), 0o644); err != nil {
				t.Fatal(err)
			}
			f, err := Open(t.Context(), path, nil, spoolDir)
			if c.wantErr != "" {
				if err == nil || !strings.HasSuffix(err.Error(), "/"+c.wantErr) {
					t.Fatalf("got  %v\nwant %s", err, c.wantErr)
				}
				if left, _ := os.ReadDir(spoolDir); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			checkSpool(t, f, path, filepath.Join(spoolDir, c.spool), twoLines)
		})
	}
}

// checkSpool checks name, path, mode and content of a spool, and that it goes.
func checkSpool(t *testing.T, f *File, name, path, content string) {
	t.Helper()
	if f.Name() != name || f.Path() != path || !f.Spooled() || f.SHA() != sha256.Sum256([]byte(content)) {
		t.Errorf("got name %s, path %s, spooled %v, sha %x", f.Name(), f.Path(), f.Spooled(), f.SHA())
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, want 0600", info.Mode())
	}
	if got, _ := os.ReadFile(path); string(got) != content {
		t.Errorf("got %q", got)
	}
	if _, rep := preflight(t, f, &Settings{Model: "m"}); rep.Operations != 2 {
		t.Errorf("got %+v", rep)
	}
	for range 2 {
		if err := f.RemoveSpool(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("spool still there: %v", err)
	}
}

func streamName(content string) string {
	sum := sha256.Sum256([]byte(content))
	return fmt.Sprintf("stdin-%x.jsonl", sum[:6])
}

func TestOpenStreams(t *testing.T) {
	want := streamName(twoLines)
	for name, content := range map[string]string{"plain": twoLines, "gzip": gz(t, twoLines), "zstd": zst(t, twoLines)} {
		t.Run("stdin "+name, func(t *testing.T) {
			dir := t.TempDir()
			f, err := Open(t.Context(), "-", strings.NewReader(content), dir)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			checkSpool(t, f, want, filepath.Join(dir, want), twoLines)
		})
	}
	t.Run("empty", func(t *testing.T) {
		f, err := Open(t.Context(), "-", strings.NewReader(""), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, rep := preflight(t, f, &Settings{}); rep.Operations != 0 || rep.Lines != 0 {
			t.Errorf("got %+v", rep)
		}
	})
	t.Run("broken", func(t *testing.T) {
		_, err := Open(t.Context(), "-", failing{}, t.TempDir())
		if err == nil || err.Error() != "read standard input: broken" {
			t.Errorf("got %v", err)
		}
	})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestOpenUTF16(t *testing.T) {
	units := utf16.Encode([]rune(`{"prompt":"ä"}`))
	var little, big []byte
	for _, u := range units {
		little = append(little, byte(u), byte(u>>8))
		big = append(big, byte(u>>8), byte(u))
	}
	for name, content := range map[string]string{
		"LE with BOM": "\xff\xfe" + string(little), "BE with BOM": "\xfe\xff" + string(big), "LE": string(little), "BE": string(big),
	} {
		path := filepath.Join(t.TempDir(), "x.jsonl")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		want := " is UTF-16, and JSON lines are UTF-8: iconv -f UTF-16 -t UTF-8 makes it so (PowerShell: Get-Content FILE | Set-Content -Encoding utf8 NEW)"
		if _, err := Open(t.Context(), path, nil, t.TempDir()); err == nil || err.Error() != path+want {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := Open(t.Context(), "-", strings.NewReader(content), t.TempDir()); err == nil || err.Error() != "standard input"+want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(t.Context(), dir, nil, dir); err == nil || err.Error() != dir+" is a folder" {
		t.Errorf("got %v", err)
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "none"), nil, dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := Open(t.Context(), "-", strings.NewReader(twoLines), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestStoppableGivesAll(t *testing.T) {
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "end with the data": iotest.DataErrReader,
	} {
		if err := iotest.TestReader(stoppable(t.Context(), wrap(strings.NewReader(twoLines))), []byte(twoLines)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
