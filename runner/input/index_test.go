package input

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

func TestEntrySize(t *testing.T) {
	if size := unsafe.Sizeof(Entry{}); size != 48 {
		t.Errorf("an entry has %d bytes, want 48", size)
	}
}

// show lists a report's problems, one a line.
func show(rep *Report) string {
	var b strings.Builder
	for _, p := range rep.Problems {
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

func TestPhysicalLines(t *testing.T) {
	bom := "\xEF\xBB\xBF"
	a, b := `{"id":"a","prompt":"x"}`, `{"id":"b","prompt":"x"}`
	for _, c := range []struct {
		name, text string
		lines      []int // of the operations
	}{
		{"empty", "", nil},
		{"blank", "\n \t\r\n\n", nil},
		{"BOM alone", bom, nil},
		{"two", a + "\n" + b + "\n", []int{1, 2}},
		{"no last newline", a + "\n" + b, []int{1, 2}},
		{"CRLF", a + "\r\n" + b + "\r\n", []int{1, 2}},
		{"blank between", a + "\n\n  \t\n" + b + "\n", []int{1, 4}},
		{"BOM", bom + a + "\n" + bom + b + "\n", []int{1, 2}},
		{"blanks around", "  " + a + " \t\n\t" + b + "  ", []int{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := &Settings{Model: "m"}
			f := open(t, c.text)
			ix, rep := preflight(t, f, set)
			var got []int
			for i := range ix.Operations() {
				r, err := f.Record(ix, i, set)
				if err != nil {
					t.Fatal(err)
				}
				if want := `"` + string('a'+rune(len(got))) + `"`; string(r.CustomID) != want || `"`+r.Op+`"` != want {
					t.Errorf("got id %s and op %s, want %s", r.CustomID, r.Op, want)
				}
				got = append(got, r.Line)
			}
			if !reflect.DeepEqual(got, c.lines) || rep.Invalid != 0 || rep.Lines != rep.Blank+rep.Operations {
				t.Errorf("got lines %v and %+v, want lines %v", got, rep, c.lines)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	text := `{"custom_id":"a","prompt":"x"}
{"custom_id":12,"prompt":"x"}
{"id":"b","prompt":"x"}
{"prompt":"x", "n":1.0}
{"n":1.0,"prompt":"\u0078"}
{"prompt":"x","n":1}
{"task":"t","prompt":"x"}
{"prompt":"\ud835"}
{"prompt":"\ud836"}
{"id":"\ud835\u0041\n","prompt":"x"}
{"id":-0,"prompt":"x"}
`
	set := &Settings{Model: "m"}
	f := open(t, text)
	ix, rep := preflight(t, f, set)
	if len(rep.Problems) > 0 {
		t.Fatal(show(rep))
	}
	var ops []string
	for i := range ix.Operations() {
		r, err := f.Record(ix, i, set)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, r.Op)
		if at, ok := ix.Find(r.Op); !ok || at != i {
			t.Errorf("Find(%q) = %d, %v, want %d", r.Op, at, ok, i)
		}
	}
	near := ix.Cursor()
	for i, op := range ops { // in the order of the file, and out of it
		for _, from := range []int{0, i, len(ops)} {
			near.next = from
			if at, ok := near.Find(op); !ok || at != i || near.next != i+1 {
				t.Errorf("from %d: Find(%q) = %d, %v, want %d", from, op, at, ok, i)
			}
		}
	}
	want := []string{"a", "12", "b", "default:c9", "default:c9", "default:", "t:", "default:", "default:", "\\ud835A\n", "-0"}
	for i, w := range want {
		if i >= 3 && i <= 8 {
			if !strings.HasPrefix(ops[i], w[:strings.Index(w, ":")+1]) {
				t.Errorf("line %d: got %s", i+1, ops[i])
			}
			continue
		}
		if ops[i] != w {
			t.Errorf("line %d: got %q, want %q", i+1, ops[i], w)
		}
	}
	if base := strings.TrimSuffix(ops[3], ":0"); ops[4] != base+":1" || strings.HasPrefix(ops[5], base) {
		t.Errorf("identical lines: got %s, %s, %s", ops[3], ops[4], ops[5])
	}
	for _, op := range []string{"", "none", "c", ops[3] + "0", strings.TrimSuffix(ops[3], "0") + "2", ":0", "line:1:000000000000", strings.TrimSuffix(ops[3], "0") + "-1"} {
		if at, ok := ix.Find(op); ok {
			t.Errorf("Find(%q) = %d", op, at)
		}
		if at, ok := ix.Cursor().Find(op); ok {
			t.Errorf("Cursor: Find(%q) = %d", op, at)
		}
	}
}

func TestDuplicates(t *testing.T) {
	text := `{"custom_id":"a","prompt":"x"}
{"custom_id":"b","prompt":"x"}
{"custom_id":"a","prompt":"y"}
{"custom_id":12,"prompt":"y"}
{"id":"12","prompt":"y"}
{"id":"\u0061","prompt":NaN}
{"id":"d","prompt":3}
{"id":"d","prompt":4}
{"custom_id":"b","method":"POST","url":"/v1/responses","body":{"model":"m"}}
broken
`
	set := &Settings{Model: "m"}
	f := open(t, text)
	ix, rep := preflight(t, f, set)
	want := `line 3: custom_id "a" is used before, on line 1: each line needs its own
line 5: id "12" is used before, on line 4: each line needs its own
line 6, column 25: NaN is not JSON: write null, true, false or a number, or leave the field out
line 7, column 20: prompt must be a string, not 3
line 8, column 20: prompt must be a string, not 4
line 9: custom_id "b" is used before, on line 2: each line needs its own
line 10, column 1: a line must be a JSON object, not 'b'
`
	if got := show(rep); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if rep.Operations != 3 || rep.Invalid != 7 || rep.More != 0 || ix.Len() != 10 {
		t.Errorf("got %+v", rep)
	}
	var ops []string
	for l, err := range f.Invalid(ix, set) {
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := ix.Find(l.Op); !ok || at != l.Index {
			t.Errorf("Find(%q) = %d, %v, want %d", l.Op, at, ok, l.Index)
		}
		if raw, err := f.Raw(ix, l.Index); err != nil || strings.Split(text, "\n")[l.Line-1] != string(raw) || !strings.Contains(want, l.String()) {
			t.Errorf("line %d: got %s with %s, %v", l.Line, l, raw, err)
		}
		if i := strings.LastIndexByte(l.Op, ':'); i > 0 {
			l.Op = l.Op[:i]
		}
		ops = append(ops, l.Op+" "+string(l.CustomID))
	}
	wantOps := []string{`line:3 "a"`, `line:5 "12"`, `line:6 "\u0061"`, `d "d"`, `line:8 "d"`, `line:9 "b"`, `line:10 `}
	if !reflect.DeepEqual(ops, wantOps) {
		t.Errorf("got  %q\nwant %q", ops, wantOps)
	}
	if _, err := f.Record(ix, 9, set); err == nil {
		t.Error("a broken line gives a record")
	}
}

func TestDerivedAsID(t *testing.T) {
	set := &Settings{Model: "m"}
	f := open(t, `{"prompt":"x"}`)
	ix, _ := preflight(t, f, set)
	r, err := f.Record(ix, 0, set)
	if err != nil {
		t.Fatal(err)
	}
	taken := fmt.Sprintf("{\"id\":%q,\"prompt\":\"y\"}\n", r.Op)
	if _, rep := preflight(t, open(t, taken), set); len(rep.Problems) > 0 {
		t.Errorf("alone: got %s", show(rep))
	}
	ix, rep := preflight(t, open(t, taken+`{"prompt":"x"}`), set)
	if at, ok := ix.Find(r.Op); !ok || at != 1 {
		t.Errorf("Find(%q) = %d, %v, want the line without an ID", r.Op, at, ok)
	}
	if at, ok := ix.Cursor().Find(r.Op); !ok || at != 1 {
		t.Errorf("Cursor: Find(%q) = %d, %v, want the line without an ID", r.Op, at, ok)
	}
	if want := fmt.Sprintf("line 1: id %q is what line 2, which has no ID, is called by\n", r.Op); show(rep) != want {
		t.Errorf("got  %swant %s", show(rep), want)
	}
}

// TestFindUnderOtherSettings: results are looked up without the flags of the run that made them.
func TestFindUnderOtherSettings(t *testing.T) {
	f := open(t, `{"prompt":"x"}`+"\n"+`{"params":{"model":"m"}}`)
	run := &Settings{Model: "m"}
	ix, _ := preflight(t, f, run)
	r, err := f.Record(ix, 0, run)
	if err != nil {
		t.Fatal(err)
	}
	ops := []string{r.Op}
	for l := range f.Invalid(ix, run) {
		ops = append(ops, l.Op)
	}
	ix, _ = preflight(t, f, &Settings{Anthropic: true})
	for i, op := range ops {
		if at, ok := ix.Find(op); !ok || at != i {
			t.Errorf("Find(%q) = %d, %v, want %d", op, at, ok, i)
		}
		if at, ok := ix.Cursor().Find(op); !ok || at != i {
			t.Errorf("Cursor: Find(%q) = %d, %v, want %d", op, at, ok, i)
		}
	}
}

func TestProblemsAreCapped(t *testing.T) {
	var b strings.Builder
	for i := range 250 {
		fmt.Fprintf(&b, "{\"id\":\"a\",\"prompt\":\"x\"}\n%s\n", []string{"broken", ""}[i%2])
	}
	_, rep := preflight(t, open(t, b.String()), &Settings{Model: "m"})
	if len(rep.Problems) != 100 || rep.More != 274 || rep.Invalid != 374 || rep.Operations != 1 || rep.Blank != 125 {
		t.Errorf("got %d problems, %d more, %+v", len(rep.Problems), rep.More, rep)
	}
	for i, p := range rep.Problems[1:] {
		if p.Line <= rep.Problems[i].Line {
			t.Errorf("line %d after line %d", p.Line, rep.Problems[i].Line)
		}
	}
	if first := rep.Problems[0].String(); first != "line 2, column 1: a line must be a JSON object, not 'b'" {
		t.Errorf("got %s", first)
	}
}

func TestLongLines(t *testing.T) {
	line := func(id string, size int) string {
		s := `{"id":"` + id + `","prompt":""}`
		return strings.Replace(s, `""}`, `"`+strings.Repeat("x", size-len(s))+`"}`, 1)
	}
	t.Run("at the limits", func(t *testing.T) {
		var b strings.Builder
		sizes := []int{65535, 65536, 65537, blockSize - 1, blockSize, blockSize + 1, 16 << 20}
		for i, size := range sizes {
			b.WriteString(line(fmt.Sprint(i), size) + "\n")
		}
		if got := records(t, b.String(), &Settings{Model: "m"}); len(got) != len(sizes) {
			t.Errorf("got %d operations, want %d", len(got), len(sizes))
		}
	})
	for _, size := range []int{2001, 1 << 20, 3<<20 + 17} {
		for _, end := range []string{"\n", "\n\n" + line("c", 90)} {
			text := line("a", 2000) + "\r\n" + line("b", size) + end
			set := &Settings{Model: "m", MaxLineBytes: 2000}
			f := open(t, text)
			ix, rep := preflight(t, f, set)
			if want := fmt.Sprintf("line 2: the line has %d bytes, more than --max-line-bytes 2000\n", size); show(rep) != want {
				t.Errorf("got  %swant %s", show(rep), want)
			}
			if rep.Operations != 1+strings.Count(end, "c") || rep.Invalid != 1 || rep.Lines != 2+strings.Count(end, "\n\n")*2 {
				t.Errorf("size %d: got %+v", size, rep)
			}
			for l, err := range f.Invalid(ix, set) {
				raw, rawErr := f.Raw(ix, l.Index)
				if err != nil || rawErr != nil || l.Line != 2 || string(raw) != line("b", size)[:2000] || l.Msg != "the line is longer than --max-line-bytes 2000" {
					t.Errorf("got %v, %v", l, err)
				}
			}
		}
	}
}

func TestChanged(t *testing.T) {
	set := &Settings{Model: "m"}
	f := open(t, twoLines)
	ix, _ := preflight(t, f, set)
	if err := os.WriteFile(f.Path(), []byte(strings.Replace(twoLines, "b", "c", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Record(ix, 0, set); err != nil {
		t.Errorf("untouched line: %v", err)
	}
	want := "line 2 of " + f.Path() + ": the input changed since the pre-flight read it"
	if _, err := f.Record(ix, 1, set); !errors.Is(err, ErrChanged) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := os.Truncate(f.Path(), 20); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Record(ix, 1, set); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v", err)
	}
	if err := f.Peek(ix, 1, set, func(*Record) { t.Error("looked at a line that changed") }); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v", err)
	}
	if _, _, err := Preflight(context.Background(), f, set); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v", err)
	}
}

// What is forgotten is no longer held, and what follows still is.
func TestForget(t *testing.T) {
	const n = 3*chunkSize + 5
	ix := &Index{}
	for i := range n {
		ix.add(Entry{Line: uint32(i + 1)})
	}
	for _, before := range []int{0, 1, chunkSize, 2*chunkSize + 7, n - 1} {
		ix.Forget(before)
		if e := ix.Entry(before); e.Line != uint32(before+1) {
			t.Errorf("entry %d is that of line %d", before, e.Line)
		}
	}
	for c, held := range []bool{false, false, false, true} {
		if (ix.chunks[c] != nil) != held {
			t.Errorf("chunk %d: held %t, want %t", c, !held, held)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := Preflight(ctx, open(t, twoLines), &Settings{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestManyBlocks checks order and line numbers over many blocks against the text itself.
func TestManyBlocks(t *testing.T) {
	var b strings.Builder
	const n = 40000
	for i := range n {
		fmt.Fprintf(&b, "{\"id\":%d,\"prompt\":%q}\n", i, strings.Repeat("x", i%300))
		if i%1000 == 0 {
			b.WriteString("\nbroken\n")
		}
	}
	set := &Settings{Model: "m"}
	f := open(t, b.String())
	ix, rep := preflight(t, f, set)
	if rep.Operations != n || rep.Invalid != n/1000 || rep.Lines != n+2*n/1000 {
		t.Fatalf("got %+v", rep)
	}
	texts := strings.Split(b.String(), "\n")
	last := 0
	for i := range ix.Operations() {
		if i%97 != 0 {
			continue
		}
		r, err := f.Record(ix, i, set)
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := ix.Find(r.Op); !ok || at != i {
			t.Fatalf("Find(%q) = %d, %v, want %d", r.Op, at, ok, i)
		}
		if !strings.HasPrefix(texts[r.Line-1], `{"id":`+r.Op+`,`) || r.Line <= last {
			t.Fatalf("line %d is not %s", r.Line, r.Op)
		}
		last = r.Line
	}
}
