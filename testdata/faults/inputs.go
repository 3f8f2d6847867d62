package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

var inputRows = []row{
	{"F50", "odd input: marks, line ends, ids, numbers, encodings", "as each says: run unharmed, or exit 2 with the line, nothing sent", odd},
	{"F51", "input grows, shrinks, is replaced, during a run and between runs", "changed bytes stop the run: exit 2; between runs: new and edited lines run, removed ones are told", moving},
	{"F52", "standard input, FIFO, gzip of several members, cut, with garbage", "read whole, or exit 2 and nothing sent", piped},
}

func odd(c *trial) {
	a, b := line("a", "One."), line("b", "Two.")
	long := func(n int) string { // a line of exactly n bytes
		l := line("a", "")
		return line("a", strings.Repeat("x", n-len(l)+1))
	}
	cases := []struct {
		name, text string
		status     int
		done       int // completed, also if others are not
		word       string
	}{
		{"a BOM", "\ufeff" + a + b, 0, 2, ""},
		{"files with a BOM, joined", a + "\ufeff" + b, -1, 2, "line 2"},
		{"CRLF", strings.ReplaceAll(a+b, "\n", "\r\n"), 0, 2, ""},
		{"blank lines", a + "\n  \t\n" + b + "\n", 0, 2, ""},
		{"no last newline", a + strings.TrimSpace(b), 0, 2, ""},
		{"empty", "", 0, 0, ""},
		{"65535 bytes", long(65535) + b, 0, 2, ""},
		{"65536 bytes", long(65536) + b, 0, 2, ""},
		{"65537 bytes", long(65537) + b, 0, 2, ""},
		{"16 MiB", long(16<<20) + b, 0, 2, ""},
		{"UTF-16", "\xff\xfe" + strings.Join(strings.Split(a, ""), "\x00") + "\x00", 2, 0, "UTF-16"},
		{"an id twice", a + b + a, 2, 0, "line 3"},
		{"an id as number and string", strings.ReplaceAll(a, `"a"`, "12") + strings.ReplaceAll(a, `"a"`, `"12"`), 2, 0, "12"},
		{"an id that is null", strings.ReplaceAll(a, `"a"`, "null") + b, -1, 2, ""},
		{"an id that is true", strings.ReplaceAll(a, `"a"`, "true") + b, 2, 0, "line 1"},
		{"an id that is an object", strings.ReplaceAll(a, `"a"`, `{"a":1}`) + b, 2, 0, "line 1"},
		{"a key twice", strings.ReplaceAll(a, `"id":"a"`, `"id":"a","id":"c"`) + b, 2, 0, "line 1"},
		{"a key in capitals beside its own", strings.ReplaceAll(a, `"id":"a"`, `"id":"a","ID":"c"`) + b, 0, 2, ""},
		{"NaN", strings.ReplaceAll(a, "40", "NaN") + b, 2, 0, "line 1"},
		{"1e400", strings.ReplaceAll(a, `"max_tokens":40`, `"temperature":1e400`) + b, 2, 0, "line 1"},
		{"a lone surrogate", strings.ReplaceAll(a, "One.", `x\ud835y`) + strings.ReplaceAll(b, "Two.", "xy"), 0, 2, ""},
		{"a byte that is no UTF-8", strings.ReplaceAll(a, "One.", "x\xffy") + b, -1, 2, "line 1"},
		{"a NUL", strings.ReplaceAll(a, "One.", `x\u0000y`) + b, 0, 2, ""},
		{"broken JSON", a + `{"id":"b"` + "\n", 2, 0, "line 2"},
		{"an array", a + "[1]\n", 2, 0, "line 2"},
		{"ids like paths", strings.ReplaceAll(a, `"a"`, `"../../x"`) + strings.ReplaceAll(b, `"b"`, `"C:\\x\u0000"`), 0, 2, ""},
	}
	side(4, len(cases), func(i int) {
		in := cases[i]
		c.sub(in.name, 0, func(t *trial) {
			t.write("x.jsonl", in.text)
			t.mock()
			p := t.start(how{})
			status := p.Wait()
			t.want(status == in.status || in.status < 0 && (status == 0 || status == 2), "exit status %d, want %d: %s", status, in.status, p.Tail())
			t.want(!strings.Contains(p.Errs.String(), "goroutine "), "a trace: %s", p.Tail())
			if status == 2 {
				t.says(p, in.word)
				t.want(t.stats().Asked == 0, "%d calls, want none", t.stats().Asked)
				return
			}
			t.check(p.result())
			t.want(p.report.Completed == in.done, "%d completed, want %d", p.report.Completed, in.done)
			raw, err := os.ReadFile(t.results())
			t.check(err)
			t.want(bytes.Count(raw, []byte("\n")) == in.done && strings.ToValidUTF8(string(raw), "") == string(raw), "the output has %d lines or is no UTF-8", bytes.Count(raw, []byte("\n")))
			again := t.start(how{})
			t.want(again.Wait() == 0, "run again: exit status %d: %s", again.Wait(), again.Tail())
			t.check(again.result())
			t.want(again.report.Calls == 0, "run again: %d calls", again.report.Calls)
		})
	})
	c.say("%d inputs", len(cases))
}

func moving(c *trial) {
	replaced := func(name string, edit func([]byte) []byte, status int) {
		c.sub(name, 120, func(t *trial) {
			t.mock("--latency", "200ms", "--honour-keys")
			t.args = []string{"--concurrency", "4"}
			t.lax.calls = true
			kept := t.read("x.jsonl")
			p := t.start(how{})
			t.until("calls", func() bool { return t.stats().Asked > 8 })
			t.change("x.jsonl", edit)
			got := p.Wait()
			t.want(got == status || got == 0, "exit status %d, want %d: %s", got, status, p.Tail())
			t.check(p.result())
			if got == 2 {
				t.says(p, "x.jsonl", "changed")
				t.want(p.report.Completed+p.report.Pending == 120, "%+v, want the rest pending", p.report)
			} else {
				t.says(p, "x.jsonl", "while the run went on")
			}
			t.write("x.jsonl", string(kept))
			t.run(0)
			t.want(t.stats().Twice.Extra == 0, "%d billed twice", t.stats().Twice.Extra)
		})
	}
	replaced("cut during the run", func(b []byte) []byte { return b[:len(b)/2] }, 2)
	replaced("edited during the run", func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("hello"), []byte("howdy")) }, 2)
	replaced("lines added during the run", func(b []byte) []byte { return append(b, line("new", "New.")...) }, 0)
	c.sub("between runs", 10, func(t *trial) {
		t.mock("--honour-keys")
		t.lax.same = true
		t.run(0)
		t.change("x.jsonl", func(b []byte) []byte {
			all := bytes.SplitAfter(b, []byte("\n"))
			all[2] = bytes.Replace(all[2], []byte("hello"), []byte("howdy"), 1) // edited
			all[4] = nil                                                        // removed
			return append(bytes.Join(all, nil), line("new", "New.")...)         // added
		})
		p := t.run(0)
		t.says(p, "1 finished operation changed since", "1 operation of earlier runs no longer in the input")
		t.want(p.report.Calls == 2, "%d calls, want 2", p.report.Calls)
		results := t.tell(0, "results", "x.jsonl")
		t.want(strings.Count(results.Out.String(), "\n") == 10 && !strings.Contains(results.Out.String(), "op-00004"), "results has %d lines, want 10", strings.Count(results.Out.String(), "\n"))
		again := t.run(0)
		t.want(again.report.Calls == 0, "%d calls, want none", again.report.Calls)
		t.ids, t.lax.lines = nil, true // the removed line's result stays in the file
	})
	c.say("4 changes")
}

func piped(c *trial) {
	c.sub("standard input", 0, func(t *trial) {
		t.mock()
		text := line("a", "One.") + line("b", "Two.")
		for i := range 2 {
			p := t.spawn(how{stdin: strings.NewReader(text)}, "run", "-", "--base-url", t.server.URL(), "--json")
			t.want(p.Wait() == 0, "exit status %d: %s", p.Wait(), p.Tail())
			t.check(p.result())
			t.want(p.report.Completed == 2 && p.report.Calls == 2*(1-i), "%+v in run %d", p.report, i+1)
		}
		files, err := filepath.Glob(t.dir + "/stdin-*.results.jsonl")
		t.check(err)
		t.want(len(files) == 1, "%d files of results, want one", len(files))
	})
	c.sub("standard input, killed, and the command that it named", 0, killedPipe)
	c.sub("FIFO", 0, fifo)
	zippedInputs(c)
}

// killedPipe goes on, after a kill, with the command that the run named.
func killedPipe(t *trial) {
	t.mock("--latency", "300ms", "--honour-keys")
	var text strings.Builder
	for i := range 40 {
		text.WriteString(line(fmt.Sprint("n", i), fmt.Sprintf("Number %d.", i)))
	}
	p := t.spawn(how{stdin: strings.NewReader(text.String())}, "run", "-", "--base-url", t.server.URL(), "--concurrency", "4")
	t.until("calls", func() bool { return t.stats().Asked > 6 })
	p.Signal(syscall.SIGKILL)
	p.Wait()
	_, rest, ok := strings.Cut(p.Errs.String(), "llmbatch run ")
	t.want(ok, "no command to go on: %s", p.Tail())
	spool := strings.Fields(rest)[0]
	p = t.spawn(how{}, "run", spool, "--base-url", t.server.URL(), "--concurrency", "4", "--json")
	t.want(p.Wait() == 0, "exit status %d: %s", p.Wait(), p.Tail())
	t.check(p.result())
	t.want(p.report.Completed == 40 && t.stats().Twice.Extra == 0, "%+v; %d billed twice", p.report, t.stats().Twice.Extra)
}

func fifo(t *trial) {
	t.mock()
	t.check(syscall.Mkfifo(t.dir+"/x.jsonl", 0o600))
	go func() {
		f, err := os.OpenFile(t.dir+"/x.jsonl", os.O_WRONLY, 0)
		if err == nil {
			_, _ = f.WriteString(line("a", "One.")) // its reader decides
			_ = f.Close()
		}
	}()
	p := t.start(how{})
	t.want(p.Wait() == 0 || p.Wait() == 2, "exit status %d: %s", p.Wait(), p.Tail())
	t.quick(p.took() < 20*time.Second, "took %s", p.took())
	t.say("FIFO: exit %d", p.Wait())
}

func zippedInputs(c *trial) {
	one, two := zipped(line("a", "One.")), zipped(line("b", "Two."))
	cases := []struct {
		name, data string
		status     int
		word       string
	}{
		{"two members", one + two, 0, ""},
		{"cut", one + two[:len(two)-5], 2, "x.jsonl.gz"},
		{"garbage behind", one + two + "garbage", 2, "x.jsonl.gz"},
		{"empty member", one + zipped("") + two, 0, ""},
	}
	for _, z := range cases {
		c.sub("gzip: "+z.name, 0, func(t *trial) {
			t.mock()
			t.write("x.jsonl.gz", z.data)
			p := t.spawn(how{}, "run", "x.jsonl.gz", "--base-url", t.server.URL(), "--json")
			t.want(p.Wait() == z.status, "exit status %d, want %d: %s", p.Wait(), z.status, p.Tail())
			if z.status == 2 {
				t.says(p, z.word)
				t.want(t.stats().Asked == 0, "%d calls, want none", t.stats().Asked)
				return
			}
			t.check(p.result())
			t.want(p.report.Completed == 2, "%+v, want 2 completed", p.report)
		})
	}
}
