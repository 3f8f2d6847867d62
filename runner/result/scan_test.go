package result

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// outcome names what a scan made of a line.
func outcome(sc Scanned) string {
	what := "bad"
	switch {
	case sc.Err == nil:
		what = sc.Line.LLM.Op
	case errors.Is(sc.Err, ErrTorn):
		what = "torn"
	case errors.Is(sc.Err, ErrTooLong):
		what = "long"
	case errors.Is(sc.Err, ErrNotOurs):
		what = "foreign"
	}
	return fmt.Sprintf("%d@%d+%d %s", sc.Number, sc.Offset, sc.Length, what)
}

func TestScan(t *testing.T) {
	a, b := shortLine("a"), shortLine("b")
	n := len(a)
	long := shortLine(strings.Repeat("y", 600_000))
	for _, tt := range []struct {
		name, content string
		options       ScanOptions
		want          []string
	}{
		{"empty", "", ScanOptions{}, nil},
		{"two", a + "\n" + b + "\n", ScanOptions{}, []string{fmt.Sprintf("1@0+%d a", n), fmt.Sprintf("2@%d+%d b", n+1, n)}},
		{"from the second", a + "\n" + b + "\n", ScanOptions{From: int64(n + 1)}, []string{fmt.Sprintf("1@%d+%d b", n+1, n)}},
		{"from the end", a + "\n", ScanOptions{From: int64(n + 1)}, nil},
		{"garbage, blank and foreign lines", "garbage\n\n{}\n" + a + "\n", ScanOptions{}, []string{"1@0+7 bad", "3@9+2 foreign", fmt.Sprintf("4@12+%d a", n)}},
		{"byte order mark", "\ufeff" + a + "\n" + b + "\n", ScanOptions{}, []string{fmt.Sprintf("1@3+%d a", n), fmt.Sprintf("2@%d+%d b", n+4, n)}},
		{"torn", a + "\n" + b[:9], ScanOptions{}, []string{fmt.Sprintf("1@0+%d a", n), fmt.Sprintf("2@%d+9 torn", n+1)}},
		{"no newline", a, ScanOptions{}, []string{fmt.Sprintf("1@0+%d a", n)}},
		{"long", long + "\n" + a + "\n", ScanOptions{MaxLine: 300_000}, []string{fmt.Sprintf("1@0+%d long", len(long)), fmt.Sprintf("2@%d+%d a", len(long)+1, n)}},
		{"just over", a + "\n" + a + "x\n", ScanOptions{MaxLine: n}, []string{fmt.Sprintf("1@0+%d a", n), fmt.Sprintf("2@%d+%d long", n+1, n+1)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			err := Scan(tempFile(t, tt.content), tt.options, func(sc Scanned) error {
				got = append(got, outcome(sc))
				return nil
			})
			if tt.content == "" && errors.Is(err, os.ErrNotExist) {
				return // tempFile makes no empty file
			}
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
	stop := errors.New("stop")
	if err := Scan(tempFile(t, a+"\n"+b+"\n"), ScanOptions{}, func(Scanned) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the callback's error", err)
	}
	got := ""
	if err := Scan(tempFile(t, long+"\n"), ScanOptions{}, func(sc Scanned) error { got = string(sc.Raw); return nil }); err != nil || got != long {
		t.Errorf("a line of %d bytes came back with %d, %v", len(long), len(got), err)
	}
}

func TestTailGivesWhatIsToAdopt(t *testing.T) {
	a, b := shortLine("a"), shortLine("b")
	w := openWriter(t, tempFile(t, a+"\n"+b+"\n"+b[:5]))
	var got []string
	if err := w.Tail(int64(len(a)+1), func(sc Scanned) error { got = append(got, outcome(sc)); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []string{fmt.Sprintf("1@%d+%d b", len(a)+1, len(b))}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRewrite(t *testing.T) {
	var before strings.Builder
	for i := range 9 {
		before.WriteString(shortLine(fmt.Sprint(i)) + "\n")
		if i == 4 {
			before.WriteString("garbage\n\n")
		}
	}
	path := tempFile(t, before.String())
	w := openWriter(t, path)
	moved := openWriter(t, filepath.Join(filepath.Dir(path), "x.superseded.jsonl"))
	placed := make(map[string]Span)
	keep := func(sc Scanned) bool { return sc.Line != nil && sc.Line.LLM.Line == 0 && sc.Line.LLM.Op > "2" }
	if err := w.Rewrite(keep, moved, func(sc Scanned, s Span) { placed[sc.Line.LLM.Op] = s }); err != nil {
		t.Fatal(err)
	}
	want := ""
	for i := 3; i < 9; i++ {
		want += shortLine(fmt.Sprint(i)) + "\n"
	}
	if got := content(t, path); got != want || w.Size() != int64(len(want)) {
		t.Errorf("got %q, Size %d; want %q", got, w.Size(), want)
	}
	if got, want := content(t, moved.path), shortLine("0")+"\n"+shortLine("1")+"\n"+shortLine("2")+"\n"; got != want {
		t.Errorf("moved %q, want %q", got, want)
	}
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for op, span := range placed {
		if got, err := r.Raw(span, nil); err != nil || string(got) != shortLine(op) {
			t.Errorf("%s at %+v: %q, %v", op, span, got, err)
		}
	}
	if len(placed) != 6 {
		t.Errorf("told of %d lines, want 6", len(placed))
	}
	if _, err := Open(path); !errors.Is(err, ErrInUse) {
		t.Errorf("the new file is not locked: %v", err)
	}
	if span, err := w.Append([]byte(shortLine("z"))); err != nil || span.Offset != int64(len(want)) {
		t.Errorf("Append after Rewrite = %+v, %v", span, err)
	}
	if got := content(t, path); got != want+shortLine("z")+"\n" {
		t.Errorf("then %q", got)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 2 {
		t.Errorf("the folder holds %v", entries)
	}
}

func TestRewriteWithoutOther(t *testing.T) {
	path := tempFile(t, shortLine("a")+"\n"+shortLine("b")+"\n")
	w := openWriter(t, path)
	if err := w.Rewrite(func(Scanned) bool { return false }, nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := content(t, path); got != "" || w.Size() != 0 {
		t.Errorf("got %q, Size %d; want nothing", got, w.Size())
	}
}

func BenchmarkScan(b *testing.B) {
	l := testLine()
	l.Response.Body = []byte(`{"choices":[{"message":{"role":"assistant","content":"` + strings.Repeat("word ", 200) + `"}}]}`)
	const lines = 10_000
	content := strings.Repeat(string(l.Encode())+"\n", lines)
	path := tempFile(b, content)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		n := 0
		if err := Scan(path, ScanOptions{}, func(Scanned) error { n++; return nil }); err != nil || n != lines {
			b.Fatal(n, err)
		}
	}
}
