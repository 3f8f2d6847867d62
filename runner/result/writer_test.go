//go:build unix

package result

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// shortLine returns the encoded line of an operation.
func shortLine(op string) string { return string((&Line{ID: "r", LLM: Meta{Op: op}}).Encode()) }

func tempFile(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.results.jsonl")
	if content != "" {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func openWriter(t testing.TB, path string) *Writer {
	t.Helper()
	w, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func content(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAppendFromMany(t *testing.T) {
	path := tempFile(t, "")
	w := openWriter(t, path)
	var mu sync.Mutex
	spans := make(map[string]Span)
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() {
			for i := range 10 {
				op := fmt.Sprintf("%d-%d%s", n, i, strings.Repeat("x", n))
				span, err := w.Append([]byte(shortLine(op)))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				spans[op] = span
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	size := w.Size()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := w.Append([]byte("{}")); !errors.Is(err, ErrClosed) {
		t.Errorf("Append after Close = %v, want ErrClosed", err)
	}
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var buf []byte
	for op, span := range spans {
		if buf, err = r.Raw(span, buf); err != nil || string(buf) != shortLine(op) {
			t.Fatalf("at %+v: %q, %v; want operation %s", span, buf, err, op)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != size || len(spans) != 1000 || info.Mode().Perm() != 0o600 {
		t.Errorf("file %v with %d bytes (%v), Size %d, %d spans", info.Mode(), info.Size(), err, size, len(spans))
	}
}

func TestReaderRefusesWrongSpans(t *testing.T) {
	a, b := shortLine("a"), shortLine("b")
	r, err := OpenReader(tempFile(t, a+"\n"+b+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := int64(len(a))
	for _, s := range []Span{{0, n - 1}, {1, n - 1}, {n, n}, {n + 1, n + 1}, {0, 2*n + 1}, {-1, 3}, {1 << 50, 3}, {0, 0}, {0, -5}, {0, 1 << 60}} {
		if got, err := r.Raw(s, nil); err == nil {
			t.Errorf("Raw(%+v) = %q, want an error", s, got)
		}
	}
	if got, err := r.Raw(Span{n + 1, n}, nil); err != nil || string(got) != b {
		t.Errorf("got %q, %v; want %q", got, err, b)
	}
}

func TestAppendRefusesTwoLines(t *testing.T) {
	w := openWriter(t, tempFile(t, ""))
	for _, line := range []string{"", "\n", "{}\n", "{}\n{}"} {
		if _, err := w.Append([]byte(line)); err == nil {
			t.Errorf("%q was written", line)
		}
	}
	if _, err := w.Append([]byte(shortLine("a"))); err != nil {
		t.Errorf("after refused lines: %v", err)
	}
}

func TestRepair(t *testing.T) {
	a, b := shortLine("a"), shortLine("b€")
	euro := strings.Index(b, "€")
	foreign := `{"note":1}`
	for _, tt := range []struct {
		name, before, after string
		repair              Repair
	}{
		{"empty", "", "", Repair{}},
		{"whole", a + "\n" + b + "\n", a + "\n" + b + "\n", Repair{}},
		{"torn", a + "\n" + `{"custom_id":"7","resp`, a + "\n", Repair{Cut: 22}},
		{"torn after one byte", a + "\n{", a + "\n", Repair{Cut: 1}},
		{"torn in a character", a + "\n" + b[:euro+1], a + "\n", Repair{Cut: int64(euro + 1)}},
		{"all but the brace", a + "\n" + b[:len(b)-1], a + "\n", Repair{Cut: int64(len(b) - 1)}},
		{"no newline", a + "\n" + b, a + "\n" + b + "\n", Repair{Newline: true}},
		{"only line torn", a[:9], "", Repair{Cut: 9}},
		{"only line torn early", a[:3], "", Repair{Cut: 3}},
		{"only line without newline", a, a + "\n", Repair{Newline: true}},
		{"torn, then a blank line", a + "\n" + `{"cus` + "\n\n", a + "\n", Repair{Cut: 7}},
		{"torn with newline", a + "\n" + `{"cus` + "\n", a + "\n", Repair{Cut: 6}},
		{"blank lines at the end", a + "\n\n \n", a + "\n", Repair{Cut: 3}},
		{"blank lines alone", "\n\n", "", Repair{Cut: 2}},
		{"only line, behind a byte order mark", "\ufeff" + a, "\ufeff" + a + "\n", Repair{Newline: true}},
		{"carriage return", a + "\r\n", a + "\r\n", Repair{}},
		{"zeros", a + "\n\x00\x00\x00", a + "\n", Repair{Cut: 3}},
		{"garbage in the middle", a + "\ngarbage\n" + b + "\n", a + "\ngarbage\n" + b + "\n", Repair{}},
		{"foreign line at the end", a + "\n" + foreign + "\n", a + "\n" + foreign + "\n", Repair{}},
		{"long torn line", a + "\n" + `{"id":"` + strings.Repeat("x", 300_000), a + "\n", Repair{Cut: 300_007}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := tempFile(t, tt.before)
			w := openWriter(t, path)
			if got := content(t, path); got != tt.after || w.Size() != int64(len(tt.after)) {
				t.Errorf("got %q, Size %d; want %q", got, w.Size(), tt.after)
			}
			if w.Repaired() != tt.repair {
				t.Errorf("repair %+v, want %+v", w.Repaired(), tt.repair)
			}
			span, err := w.Append([]byte(b))
			if err != nil || span != (Span{int64(len(tt.after)), int64(len(b))}) {
				t.Errorf("Append = %+v, %v", span, err)
			}
			if got := content(t, path); got != tt.after+b+"\n" {
				t.Errorf("then %q, want %q", got, tt.after+b+"\n")
			}
		})
	}
}

// TestCuts opens a file cut at many a byte, and at each near its end: what is left is the lines that were whole.
func TestCuts(t *testing.T) {
	a, b := shortLine("a"), shortLine("ü")
	whole := a + "\n" + b + "\n"
	path := tempFile(t, "")
	for n := 0; n <= len(whole); n++ {
		if n%11 != 0 && n < len(whole)-20 && (n < len(a)-3 || n > len(a)+10) {
			continue
		}
		if err := os.WriteFile(path, []byte(whole[:n]), 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := Open(path)
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		want := ""
		if n >= len(a) {
			want = a + "\n"
		}
		if n >= len(whole)-1 {
			want = whole
		}
		if got := content(t, path); got != want {
			t.Errorf("cut at %d: got %q, want %q", n, got, want)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]error{
		dir: ErrNotFile, fifo: ErrNotFile, "/dev/full": ErrNotFile, "/dev/null": ErrNotFile,
		filepath.Join(dir, "no", "x"):                                          fs.ErrNotExist,
		file("input", `{"custom_id":"a","method":"POST"}`+"\n"):                ErrNotOurs,
		file("openai", `{"id":"batch_req_1","custom_id":"a","response":null}`): ErrNotOurs,
		file("text", "notes\n"):                                                ErrNotOurs,
		file("binary", "\x00\x01"):                                             ErrNotOurs,
	} {
		before := ""
		if want == ErrNotOurs {
			before = content(t, path)
		}
		if _, err := Open(path); !errors.Is(err, want) {
			t.Errorf("Open(%s) = %v, want %v", path, err, want)
		}
		if want == ErrNotOurs && content(t, path) != before {
			t.Errorf("%s was changed", path)
		}
	}
	first := file("damaged-first", "garbage\n"+shortLine("a")+"\n")
	openWriter(t, first)
	if info, _ := os.Stat(first); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
	if _, err := Open(first); !errors.Is(err, ErrInUse) {
		t.Errorf("second Open = %v, want ErrInUse", err)
	}
}

// failing is a file whose writes and syncs fail as told.
type failing struct {
	file
	room    int   // bytes that may still be written
	syncErr error // of the next sync
}

func (f *failing) Write(b []byte) (int, error) {
	if len(b) <= f.room {
		f.room -= len(b)
		return f.file.Write(b)
	}
	n, _ := f.file.Write(b[:f.room])
	f.room = 0
	return n, syscall.ENOSPC
}

func (f *failing) Sync() error {
	err := f.syncErr
	f.syncErr = nil
	return err
}

func TestFailedWriteIsCutBack(t *testing.T) {
	path := tempFile(t, "")
	w := openWriter(t, path)
	w.f = &failing{file: w.f, room: len(shortLine("a")) + 1 + 20}
	if _, err := w.Append([]byte(shortLine("a"))); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append([]byte(shortLine("b"))); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want ENOSPC", err)
	}
	if got := content(t, path); got != shortLine("a")+"\n" {
		t.Errorf("the file holds %q, want the first line alone", got)
	}
	if _, err := w.Append([]byte(shortLine("c"))); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("later Append = %v, want ErrFailed with its cause", err)
	}
	if err := w.Rewrite(func(Scanned) bool { return true }, nil, nil); !errors.Is(err, ErrFailed) {
		t.Errorf("Rewrite = %v, want ErrFailed", err)
	}
}

// TestFailedWriteKeepsWholeLines writes three lines at once, of which one and a half fit.
func TestFailedWriteKeepsWholeLines(t *testing.T) {
	path := tempFile(t, "")
	w := openWriter(t, path)
	a := shortLine("a")
	w.f = &failing{file: w.f, room: len(a) * 3 / 2}
	if _, err := w.append([]byte(a + "\n" + a + "\n" + a)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want ENOSPC", err)
	}
	if got := content(t, path); got != a+"\n" {
		t.Errorf("the file holds %q, want one line", got)
	}
}

func TestFailedSyncIsFinal(t *testing.T) {
	w := openWriter(t, tempFile(t, ""))
	w.f = &failing{file: w.f, room: 1 << 20, syncErr: syscall.EIO}
	if _, err := w.Append([]byte(shortLine("a"))); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want EIO", err)
	}
	// The next sync would succeed, and would say nothing of the first line.
	if _, err := w.Append([]byte(shortLine("b"))); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want ErrFailed with its cause", err)
	}
	if w.Size() != 0 {
		t.Errorf("Size %d counts lines that may be lost", w.Size())
	}
}

// TestFailureReachesAllWaiting fails the sync under many callers: each gets an error, none waits for ever.
func TestFailureReachesAllWaiting(t *testing.T) {
	w := openWriter(t, tempFile(t, ""))
	w.f = &failing{file: w.f, room: 1 << 20, syncErr: syscall.EIO}
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 200 {
		wg.Go(func() {
			if _, err := w.Append([]byte(shortLine("a"))); err != nil {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	if failed.Load() != 200 {
		t.Errorf("%d of 200 callers got an error", failed.Load())
	}
}

// TestAppendThen gives lines without waiting: each is told where it lies, when it is in the file.
func TestAppendThen(t *testing.T) {
	path := tempFile(t, "")
	w := openWriter(t, path)
	type place struct {
		n  int
		at Span
	}
	told := make(chan place, 100)
	line := make([]byte, 0, 100)
	var want strings.Builder
	for n := range 100 {
		line = append(line[:0], shortLine(fmt.Sprint(n))...)
		want.WriteString(string(line) + "\n")
		w.AppendThen(line, func(at Span, err error) {
			if err != nil {
				t.Error(err)
			}
			told <- place{n, at}
		})
	}
	lie := map[int]Span{}
	for range 100 {
		p := <-told
		lie[p.n] = p.at
	}
	end := int64(0)
	for n := range 100 {
		if got, want := lie[n], (Span{Offset: end, Length: int64(len(shortLine(fmt.Sprint(n))))}); got != want {
			t.Fatalf("line %d lies at %v, want %v", n, got, want)
		}
		end = lie[n].End()
	}
	if got := content(t, path); got != want.String() {
		t.Errorf("the file holds %.100q", got)
	}
	var got error
	w.AppendThen([]byte("a\nb"), func(_ Span, err error) { got = err })
	if got == nil {
		t.Error("two lines were taken for one")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.AppendThen([]byte("{}"), func(_ Span, err error) { got = err })
	if !errors.Is(got, ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", got)
	}
}

// Lines that come soon after a sync are in the file at once, or within 2 ms of the write before, where a program that is
// killed does not lose them; one sync serves them all.
func TestLinesAreWrittenAheadOfTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := tempFile(t, "")
		w := openWriter(t, path)
		time.Sleep(time.Second)
		began := time.Now()
		if _, err := w.Append([]byte(shortLine("a"))); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("a line alone took %v", took)
		}
		syncs := &counting{file: w.f}
		w.f = syncs
		told := make(chan time.Duration, 2)
		give := func(op string) {
			w.AppendThen([]byte(shortLine(op)), func(Span, error) { told <- time.Since(began) })
			synctest.Wait()
		}
		time.Sleep(2 * time.Millisecond)
		give("b")
		if got, want := content(t, path), shortLine("a")+"\n"+shortLine("b")+"\n"; got != want {
			t.Errorf("the file holds %q, want %q", got, want)
		}
		give("c")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got, want := content(t, path), shortLine("a")+"\n"+shortLine("b")+"\n"+shortLine("c")+"\n"; got != want {
			t.Errorf("2 ms later the file holds %q, want %q", got, want)
		}
		for range 2 {
			if at := <-told; at != 20*time.Millisecond {
				t.Errorf("told after %v, want 20ms", at)
			}
		}
		if syncs.n != 1 {
			t.Errorf("%d syncs, want 1", syncs.n)
		}
	})
}

// A disk that stalls keeps no line from the file.
func TestLinesAreWrittenDuringASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := tempFile(t, "")
		w := openWriter(t, path)
		stall := &stalling{file: w.f, may: make(chan struct{})}
		w.f = stall
		told := make(chan error, 2)
		for _, op := range []string{"a", "b"} {
			w.AppendThen([]byte(shortLine(op)), func(_ Span, err error) { told <- err })
			time.Sleep(time.Second)
		}
		if got, want := content(t, path), shortLine("a")+"\n"+shortLine("b")+"\n"; got != want {
			t.Errorf("during a sync the file holds %q, want %q", got, want)
		}
		if len(told) > 0 || w.Size() != 0 {
			t.Errorf("%d were told of %d bytes ahead of the sync", len(told), w.Size())
		}
		close(stall.may)
		for range 2 {
			if err := <-told; err != nil {
				t.Error(err)
			}
		}
	})
}

// stalling syncs when it may.
type stalling struct {
	file
	may chan struct{}
}

func (s *stalling) Sync() error {
	<-s.may
	return s.file.Sync()
}

// counting counts syncs.
type counting struct {
	file
	n int
}

func (c *counting) Sync() error {
	c.n++
	return c.file.Sync()
}

func BenchmarkAppend(b *testing.B) {
	l := testLine()
	l.Response.Body = []byte(`"` + strings.Repeat("word ", 100) + `"`)
	line := l.Encode()
	for _, callers := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			w := openWriter(b, tempFile(b, ""))
			var next atomic.Int64
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for next.Add(1) <= int64(b.N) {
						if _, err := w.Append(line); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.SetBytes(int64(len(line)))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
