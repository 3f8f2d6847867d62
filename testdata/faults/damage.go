package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
)

var damageRows = []row{
	{"F16", "checkpoint empty, stump, cut, random, pages zeroed, a bad meta page", "said; rebuilt from the output; nothing paid again; no panic", badCheckpoint},
	{"F17", "checkpoint of another input, other settings, a newer version", "refused with the difference and the ways on", foreignCheckpoint},
	{"F18", "checkpoint deleted; output deleted", "rebuilt from the output; refused with the ways on", deleted},
	{"F19", "torn last line of the output", "cut or completed; the next line not fused", tornOutput},
	{"F20", "garbage, edits and copies in the output", "told with the line; later lines count", editedOutput},
}

const (
	before = 5 // operations done before the damage
	whole  = 8
	page   = 4096
)

// ruined is a run of some operations, damage, and the run that goes on: it must
// make calls for no operation that is done but lost ones, and end well.
func (c *trial) ruined(lost int, damage func(), words ...string) *process {
	c.ready()
	damage()
	c.lax.calls = true
	p := c.run(0)
	c.says(p, words...)
	l := c.stats()
	c.want(p.report.Calls == whole-before+lost, "%d calls, want %d", p.report.Calls, whole-before+lost)
	c.want(l.Twice.Extra == 0, "%d billed twice", l.Twice.Extra)
	return p
}

// ready leaves five of eight operations done.
func (c *trial) ready() {
	c.mock("--honour-keys", "--echo")
	c.args = []string{"--concurrency", "2"}
	c.lax.same = true // it echoes
	c.run(0, "--limit", fmt.Sprint(before))
}

const (
	db      = "x.llmbatch.db"
	output  = "x.results.jsonl"
	rebuilt = "rebuilding it from the output"
)

func badCheckpoint(c *trial) {
	cases := damages(c.pick(14, 5))
	side(3, len(cases), func(i int) {
		d := cases[i]
		c.sub(d.name, whole, func(t *trial) {
			t.ready()
			t.change(db, d.edit)
			// Reading tells, or manages; it never fails without a word or changes a thing.
			p := t.spawn(how{}, "status", "x.jsonl", "--json")
			t.want(p.Wait() <= 2, "status: exit status %d: %s", p.Wait(), p.Tail())
			t.want(!strings.Contains(p.Errs.String(), "panic"), "status: a panic: %s", p.Tail())
			t.lax.calls = true
			run := t.start(how{})
			if run.Wait() == 2 { // what cannot have been a checkpoint is left alone: move it away
				t.says(run, "not a checkpoint", "hint:")
				t.want(d.name == "text" || d.name == "random bytes", "refused: %s", run.Tail())
				t.remove(db)
				run = t.start(how{})
			}
			t.want(run.Wait() == 0, "exit status %d: %s", run.Wait(), run.Tail())
			t.check(run.result())
			t.says(run, d.words...)
			l := t.stats()
			t.want(l.Asked == whole && l.Twice.Extra == 0, "%d calls, want %d; %d billed twice", l.Asked, whole, l.Twice.Extra)
		})
	})
	lostCheckpoint(c)
	c.say("%d kinds of damage", len(cases)+2)
}

// damage is what was done to a checkpoint, and what a run must say of it.
type damage struct {
	name  string
	edit  func([]byte) []byte
	words []string
}

// damages are the kinds of it; pages bounds those that are damaged one by one.
func damages(pages int) []damage {
	random := rand.New(rand.NewPCG(1, 2))
	zero := func(b []byte, from, to int) []byte {
		clear(b[min(from, len(b)):min(to, len(b))])
		return b
	}
	cases := []damage{
		{"empty", func([]byte) []byte { return nil }, []string{"damaged", rebuilt}},
		{"stump", func(b []byte) []byte { return b[:page] }, []string{"damaged", rebuilt}},
		{"half", func(b []byte) []byte { return b[:len(b)/2] }, nil}, // it may be that nothing was in the other half
		{"random bytes", func(b []byte) []byte {
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			return b
		}, nil},
		{"all zeroes", func(b []byte) []byte { return zero(b, 0, len(b)) }, []string{"damaged", rebuilt}},
		{"both meta pages", func(b []byte) []byte { return zero(b, 0, 2*page) }, []string{"damaged", rebuilt}},
		{"text", func([]byte) []byte { return []byte("hello\n") }, nil},
	}
	for n := range 2 {
		cases = append(cases, damage{fmt.Sprintf("meta page %d", n), func(b []byte) []byte { return zero(b, n*page+16, n*page+80) }, []string{"header pages is damaged"}})
	}
	for n := 2; n < pages; n++ {
		cases = append(cases, damage{fmt.Sprintf("page %d zeroed", n), func(b []byte) []byte { return zero(b, n*page, (n+1)*page) }, nil})
		cases = append(cases, damage{fmt.Sprintf("cut after page %d", n), func(b []byte) []byte { return b[:min(len(b), n*page)] }, nil})
	}
	return cases
}

// lostCheckpoint: nothing is left that says what was done. That is not "nothing
// done".
func lostCheckpoint(c *trial) {
	for name, edit := range map[string]func([]byte) []byte{"empty": func([]byte) []byte { return nil }, "cut": func(b []byte) []byte { return b[:page] }} {
		c.sub(name+", and no output", whole, func(t *trial) {
			t.ready()
			t.change(db, edit)
			t.remove(output)
			for range 2 { // it must not be forgotten by the refusal
				p := t.runAs(how{}, 2)
				t.says(p, "damaged", "--restart", "hint:")
			}
			t.want(t.stats().Asked == before, "%d calls, want %d", t.stats().Asked, before)
			t.lax.twice, t.lax.rekeys, t.lax.calls = true, true, true // as the user asks
			t.run(0, "--restart")
			t.lax.rerun = true // --restart starts over each time
		})
	}
}

func foreignCheckpoint(c *trial) {
	c.sub("another input", whole, func(t *trial) {
		t.ready()
		t.write("y.jsonl", line("other", "Another input."))
		p := t.spawn(how{}, "run", "y.jsonl", "--base-url", t.server.URL(), "--output", output, "--checkpoint", db)
		t.want(p.Wait() == 2, "exit status %d, want 2: %s", p.Wait(), p.Tail())
		t.says(p, "another input", "x.jsonl", "--checkpoint", "--restart", "hint:")
		t.run(0)
	})
	c.sub("other settings", whole, func(t *trial) {
		t.ready()
		p := t.runAs(how{}, 2, "--system", "Be brief.")
		t.says(p, "system", "--on-changed rerun", "keep", "--restart", "hint:")
		t.run(0)
	})
	c.sub("newer version", whole, func(t *trial) {
		t.ready()
		t.change(db, func(b []byte) []byte {
			patched := bytes.ReplaceAll(b, []byte("schema\x01"), []byte("schema\x63"))
			t.want(!bytes.Equal(patched, b), "the schema is not where this case looks for it")
			return patched
		})
		p := t.runAs(how{}, 2)
		t.says(p, "newer version", "hint:")
		t.want(t.stats().Asked == before, "%d calls, want %d", t.stats().Asked, before)
		t.runs = t.runs[:1]
		t.lax.lines, t.lax.rerun = true, true // status and another run cannot read it either
	})
	c.say("3 refused")
}

func deleted(c *trial) {
	c.sub("checkpoint", whole, func(t *trial) {
		t.ruined(0, func() { t.remove(db) }, "adopted 5 lines")
	})
	c.sub("checkpoint and errors", whole, func(t *trial) {
		t.ruined(0, func() { t.remove(db); t.remove("x.errors.jsonl") }, "adopted 5 lines")
	})
	c.sub("output", whole, func(t *trial) {
		t.ready()
		t.remove(output)
		for range 2 {
			p := t.runAs(how{}, 2)
			t.says(p, "gone or empty", "--restart", "--checkpoint", "hint:")
		}
		t.want(t.stats().Asked == before, "%d calls, want %d", t.stats().Asked, before)
		t.lax.twice, t.lax.rekeys, t.lax.calls = true, true, true // as the user asks
		t.run(0, "--restart")
		t.lax.rerun = true
	})
	c.sub("output emptied", whole, func(t *trial) {
		t.ready()
		kept := t.read(output)
		t.write(output, "")
		p := t.runAs(how{}, 2)
		t.says(p, "gone or empty", "put the file back", "hint:")
		t.write(output, string(kept))
		t.run(0)
	})
	c.say("4 losses")
}

// edit is what was done to the output, what it costs, and what a run says of it.
type edit struct {
	name string
	lost int // results
	do   func([]byte) []byte
	word string
}

// edited plays each edit.
func (c *trial) edited(all []edit) {
	side(3, len(all), func(i int) {
		e := all[i]
		c.sub(e.name, whole, func(t *trial) {
			t.ruined(e.lost, func() { t.change(output, e.do) }, e.word)
		})
	})
}

func tornOutput(c *trial) {
	cut := func(n func(last []byte) int) func([]byte) []byte {
		return func(b []byte) []byte {
			from := bytes.LastIndexByte(b[:len(b)-1], '\n') + 1
			return b[:from+n(b[from:])]
		}
	}
	cases := []edit{
		{"one byte", 1, cut(func([]byte) int { return 1 }), "cut a torn line"},
		{"in the middle of the JSON", 1, cut(func(last []byte) int { return len(last) / 2 }), "cut a torn line"},
		{"in the middle of a character", 1, cut(func(last []byte) int { return bytes.Index(last, []byte("ë")) + 1 }), "cut a torn line"},
		{"without its last brace", 1, cut(func(last []byte) int { return len(last) - 2 }), "cut a torn line"},
		{"without its newline", 0, cut(func(last []byte) int { return len(last) - 1 }), ""},
		{"blank lines behind it", 0, func(b []byte) []byte { return append(b, "\n\n"...) }, ""},
		{"a beginning behind it", 0, func(b []byte) []byte { return append(b, `{"cus`...) }, "cut a torn line"},
		{"a beginning and blank lines", 0, func(b []byte) []byte { return append(b, "{\"cus\n\n"...) }, "cut a torn line"},
		{"zeroes behind it, as after a power cut", 0, func(b []byte) []byte { return append(b, make([]byte, 300)...) }, "cut a torn line"},
	}
	c.edited(cases)
	c.say("%d ends", len(cases))
}

func editedOutput(c *trial) {
	lines := func(edit func([][]byte) [][]byte) func([]byte) []byte {
		return func(b []byte) []byte {
			all := bytes.SplitAfter(b, []byte("\n"))
			return bytes.Join(edit(all[:len(all)-1]), nil)
		}
	}
	cases := []edit{
		{"garbage for the third line", 1, lines(func(l [][]byte) [][]byte { l[2] = []byte("garbage\n"); return l }), "the first is line 3"},
		{"binary garbage", 1, lines(func(l [][]byte) [][]byte { l[2] = []byte("\xff\xfe\x00\x01\n"); return l }), "the first is line 3"},
		{"garbage for the first line", 1, lines(func(l [][]byte) [][]byte { l[0] = []byte("garbage\n"); return l }), "the first is line 1"},
		{"half of the third line", 1, lines(func(l [][]byte) [][]byte { l[2] = append(l[2][:len(l[2])/2:len(l[2])/2], '\n'); return l }), "the first is line 3"},
		{"the third line deleted", 1, lines(func(l [][]byte) [][]byte { return slices.Delete(l, 2, 3) }), "missing 1 line"},
		{"a line twice", 0, lines(func(l [][]byte) [][]byte { return append(l, l[1]) }), ""},
		{"sorted", 0, lines(func(l [][]byte) [][]byte { slices.SortFunc(l, bytes.Compare); return l }), ""},
		{"reversed", 0, lines(func(l [][]byte) [][]byte { slices.Reverse(l); return l }), ""},
		{"saved with CRLF", 0, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) }, ""},
		{"saved with a BOM", 0, func(b []byte) []byte { return append([]byte("\ufeff"), b...) }, ""},
		{"saved with a BOM and CRLF", 0, func(b []byte) []byte {
			return append([]byte("\ufeff"), bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))...)
		}, ""},
		{"blank lines between", 0, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\n\n")) }, ""},
		{"indented", 0, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n{"), []byte("\n  {")) }, ""},
	}
	c.edited(cases)
	c.sub("one line with a BOM, and no checkpoint", 3, func(t *trial) {
		t.mock("--honour-keys")
		t.run(0, "--limit", "1")
		t.change(output, func(b []byte) []byte { return append([]byte("\ufeff"), b...) })
		t.remove(db)
		t.lax.calls = true
		t.run(0)
		t.want(t.stats().Asked == 3, "%d calls, want 3", t.stats().Asked)
	})
	for name, text := range map[string]string{
		"a stranger's file": "{\"a\":1}\n{\"b\":2}\n",
		"a text":            "Dear diary,\ntoday nothing happened.\n",
		"UTF-16":            "\xff\xfe{\x00\"\x00i\x00d\x00\"\x00",
	} {
		c.sub("replaced by "+name, whole, func(t *trial) {
			t.ready()
			kept := t.read(output)
			t.write(output, text)
			p := t.runAs(how{}, 2)
			t.says(p, output, "--output", "hint:")
			now, err := os.ReadFile(t.results())
			t.check(err)
			t.want(string(now) == text, "a file that is not ours was changed")
			t.write(output, string(kept))
			t.run(0)
		})
	}
	c.say("%d edits", len(cases)+4)
}
