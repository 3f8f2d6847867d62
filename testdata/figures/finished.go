package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// story is a case of several steps against one mock; the first fault ends it.
type story struct {
	*scene
	point string
	err   error
}

// tell runs one story in a folder with an input of n lines.
func (b *bench) tell(ctx context.Context, point, name string, n int, flags []string, steps func(*story)) {
	s := &story{point: point}
	s.scene, s.err = b.scene(ctx, name, same(n, 10), 40, flags...)
	if s.err == nil {
		defer s.mock.Kill()
		steps(s)
	}
	if s.err != nil {
		b.fail(point, name, s.err)
	}
}

// run runs llmbatch against the mock and wants an exit status.
func (s *story) run(ctx context.Context, status int, args ...string) *harness.Process {
	if s.err != nil {
		return nil
	}
	p, err := s.bench.run(ctx, s.dir, s.command(args...)...)
	if err == nil && p.Wait() != status {
		err = fmt.Errorf("%v: exit status %d, want %d: %s", args, p.Wait(), status, p.Tail())
	}
	s.err = err
	return p
}

// asked wants the mock to have seen so many calls in all, none billed twice.
func (s *story) asked(ctx context.Context, name string, want int) {
	if s.err != nil {
		return
	}
	l, err := s.mock.Ledger(ctx)
	if err != nil {
		s.err = err
		return
	}
	s.bench.equal(s.point, name, fmt.Sprintf("%d calls, %d billed twice", l.Asked, l.Twice.Extra), fmt.Sprintf("%d calls, 0 billed twice", want))
}

// output is the results file; want, if given, is what it must be.
func (s *story) output(want []byte) []byte {
	if s.err != nil {
		return nil
	}
	raw, err := os.ReadFile(s.dir + "/x.results.jsonl")
	if err == nil && want != nil && !bytes.Equal(raw, want) {
		err = errors.New("the output changed")
	}
	s.err = err
	return raw
}

// whole wants one line for each operation.
func (s *story) whole() {
	if s.err != nil {
		return
	}
	lines, err := harness.ReadLines(s.dir + "/x.results.jsonl")
	if err == nil && len(lines) != len(s.ids) {
		err = fmt.Errorf("%d lines for %d operations", len(lines), len(s.ids))
	}
	s.err = err
}

// change edits a file of the case.
func (s *story) change(name string, edit func([]byte) []byte) {
	if s.err != nil {
		return
	}
	raw, err := os.ReadFile(s.dir + "/" + name)
	if err == nil {
		err = os.WriteFile(s.dir+"/"+name, edit(raw), 0o600)
	}
	s.err = err
}

func (s *story) remove(name string) {
	if s.err == nil {
		s.err = os.Remove(s.dir + "/" + name)
	}
}

// finished is point 5.
func finished(ctx context.Context, b *bench) {
	const n = 200
	b.tell(ctx, "5", "finished", n, nil, func(s *story) {
		s.change("x.jsonl", func(raw []byte) []byte { return bytes.ReplaceAll(raw, []byte(`"model":"gpt-4o-mini",`), nil) })
		s.run(ctx, 0, "--model", "gpt-4o-mini")
		before := s.output(nil)
		s.run(ctx, 0, "--model", "gpt-4o-mini")
		s.output(before)
		s.asked(ctx, "finished, run again: nothing sent, output as it was", n)
		s.run(ctx, 2, "--model", "gpt-4o")
		s.output(before)
		s.asked(ctx, "finished, another model: exit 2, nothing sent", n)
		s.change("x.jsonl", func(raw []byte) []byte { return bytes.Replace(raw, []byte("Case 0000007"), []byte("Fall 0000007"), 1) })
		s.run(ctx, 0, "--model", "gpt-4o-mini")
		s.whole()
		s.asked(ctx, "one line edited: one call, one line each", n+1)
	})
	b.tell(ctx, "5", "limited", n, nil, func(s *story) {
		s.run(ctx, 0, "--limit", "20")
		s.asked(ctx, "--limit 20", 20)
		s.run(ctx, 0)
		s.whole()
		s.asked(ctx, "--limit 20, then the whole: no call twice", n)
	})
	const db = "x.llmbatch.db"
	damages := []struct {
		name  string
		calls int // more than the first run's
		do    func(*story)
	}{
		{"checkpoint deleted", 0, func(s *story) { s.remove(db) }},
		{"checkpoint emptied", 0, func(s *story) { s.change(db, func([]byte) []byte { return nil }) }},
		{"checkpoint a 4096-byte stump", 0, func(s *story) { s.change(db, func(raw []byte) []byte { return raw[:4096] }) }},
		{"checkpoint cut in half", 0, func(s *story) { s.change(db, func(raw []byte) []byte { return raw[:len(raw)/2] }) }},
		{"checkpoint with a page zeroed", 0, func(s *story) {
			s.change(db, func(raw []byte) []byte { clear(raw[3*4096 : 4*4096]); return raw })
		}},
		{"output torn in its last line", 1, func(s *story) {
			s.change("x.results.jsonl", func(raw []byte) []byte { return raw[:len(raw)-9] })
		}},
		{"output without its last newline", 0, func(s *story) {
			s.change("x.results.jsonl", func(raw []byte) []byte { return raw[:len(raw)-1] })
		}},
		{"output torn and checkpoint deleted", 1, func(s *story) {
			s.change("x.results.jsonl", func(raw []byte) []byte { return raw[:len(raw)-9] })
			s.remove(db)
		}},
	}
	for _, d := range damages {
		b.tell(ctx, "5", d.name, n, nil, func(s *story) {
			s.run(ctx, 0)
			d.do(s)
			s.run(ctx, 0)
			s.whole()
			if s.err != nil {
				return
			}
			// The torn line's answer is lost from the disk: that one operation is
			// sent again, under its old key.
			l, err := s.mock.Ledger(ctx)
			s.err = err
			b.equal("5", d.name+": calls made again", l.Asked-n, d.calls)
		})
	}
}

// badInput is point 6: one fault of each kind, each with the line it is in.
func badInput(ctx context.Context, b *bench) {
	const good = `{"id":"good","prompt":"fine","model":"gpt-4o-mini"}`
	faults := []struct{ name, line string }{
		{"broken JSON", `{"id":"a","prompt":"cut`},
		{"no object", `["a"]`},
		{"wrong type", `{"id":"a","prompt":17,"model":"m"}`},
		{"NaN", `{"id":"a","prompt":"p","model":"m","temperature":NaN}`},
		{"duplicate id", good},
		{"duplicate key", `{"id":"a","prompt":"p","prompt":"q","model":"m"}`},
		{"unknown url", `{"custom_id":"a","method":"POST","url":"/v1/files","body":{"model":"m"}}`},
		{"foreign host", `{"custom_id":"a","method":"POST","url":"http://127.0.0.2/v1/chat/completions","body":{"model":"m","messages":[]}}`},
		{"no prompt", `{"id":"a","model":"m"}`},
		{"no model", `{"id":"a","prompt":"p"}`},
		{"invalid UTF-8", "{\"id\":\"a\",\"prompt\":\"\xff\xfe\",\"model\":\"m\"}"},
		{"Anthropic line without such a route", `{"custom_id":"a","params":{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"p"}]}}`},
	}
	all := []string{good}
	for _, f := range faults {
		all = append(all, f.line)
		b.tell(ctx, "6", f.name, 1, nil, func(s *story) {
			s.change("x.jsonl", func([]byte) []byte { return []byte(good + "\n\n" + f.line + "\n") })
			s.listed(ctx, f.name, 3)
		})
	}
	b.tell(ctx, "6", "all of them in one file", 1, nil, func(s *story) {
		s.change("x.jsonl", func([]byte) []byte { return []byte(strings.Join(all, "\n")) })
		lines := make([]int, len(faults))
		for i := range lines {
			lines[i] = i + 2
		}
		s.listed(ctx, "all of them in one file", lines...)
	})
}

// listed wants exit 2, the numbers of these lines, and no call.
func (s *story) listed(ctx context.Context, name string, lines ...int) {
	p := s.run(ctx, 2)
	if s.err != nil {
		return
	}
	for _, line := range lines {
		if listed, _ := regexp.MatchString(fmt.Sprintf(`(?m)^line %d\b`, line), p.Errs.String()); !listed {
			s.err = fmt.Errorf("line %d is not listed: %s", line, p.Tail())
			return
		}
	}
	s.asked(ctx, name+": exit 2, listed, nothing sent", 0)
}
