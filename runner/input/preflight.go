package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// maxProblems is how many problems a report lists; the rest is counted.
const maxProblems = 100

// Problem is one fault of one line.
type Problem struct {
	Line   int    // physical, from 1
	Column int    // in characters, from 1; 0 = the line as a whole
	Msg    string // what is wrong and what to do; no text of prompts
}

// String is the problem as it is shown: line 3, column 17: …
func (p Problem) String() string {
	if p.Column == 0 {
		return fmt.Sprintf("line %d: %s", p.Line, p.Msg)
	}
	return fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, p.Msg)
}

// Report is what the pre-flight found. Lines = Blank + Operations + Invalid.
type Report struct {
	Lines, Blank, Operations, Invalid int
	Problems                          []Problem // by line, the first 100
	More                              int       // problems that are not listed
	EmptyPrompts                      int       // operations whose prompt has no text
	Notices                           []string  // each to be shown once
}

// findings is what the examination of one block found. Lines are counted from 0.
type findings struct {
	entries  []Entry
	lines    int
	blank    int
	problems []Problem
	more     int
	tally    tally
}

// tally counts what notices tell.
type tally struct {
	operations, empty int
	shapes            [4]int // operations by shape
	named             int    // operations that are not plain and name their model
	noIDField         int    // operations without the member that --id-field names
	embeddings        int    // plain lines for embeddings
	unread            int    // plain lines with parameters that are not sent
	unreadNames       uint64
}

func (t *tally) add(o *tally) {
	t.operations += o.operations
	t.empty += o.empty
	for i, n := range o.shapes {
		t.shapes[i] += n
	}
	t.named += o.named
	t.noIDField += o.noIDField
	t.embeddings += o.embeddings
	t.unread += o.unread
	t.unreadNames |= o.unreadNames
}

// Preflight reads the whole file, checks every line, and makes the index. Faults of lines are in the report; the error is for what
// stops the reading, for settings that are wrong, and for ctx. Memory is the index and a few blocks (or lines that are longer).
func Preflight(ctx context.Context, f *File, s *Settings) (*Index, *Report, error) {
	ready, err := s.prepare()
	if err != nil {
		return nil, nil, err
	}
	s.ready = ready
	ix, rep, all := &Index{}, &Report{}, tally{}
	sp := newSplitter(f, s.maxLine())
	var tooMany bool
	err = eachBlock(ctx, sp, s, func(found *findings) {
		tooMany = tooMany || rep.Lines+found.lines > math.MaxUint32
		for _, e := range found.entries {
			e.Line += uint32(rep.Lines) + 1
			ix.add(e)
		}
		for _, p := range found.problems {
			p.Line += rep.Lines + 1
			rep.list(p)
		}
		rep.Lines += found.lines
		rep.Blank += found.blank
		rep.More += found.more
		all.add(&found.tally)
	})
	if err == nil && tooMany {
		err = errors.New("more than 4,294,967,295 lines")
	}
	if err != nil {
		return nil, nil, err
	}
	copy(f.sha[:], sp.sum.Sum(nil))
	ix.sort()
	dups := ix.markDuplicates()
	if err := rep.addDuplicates(f, ix, s, dups); err != nil {
		return nil, nil, err
	}
	rep.Operations = all.operations - len(dups)
	rep.Invalid = ix.n - rep.Operations
	rep.EmptyPrompts = all.empty
	rep.Notices = all.notices(s)
	return ix, rep, nil
}

func (r *Report) list(p Problem) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, p)
	} else {
		r.More++
	}
}

// addDuplicates lists duplicates among the other problems, in the order of lines.
func (r *Report) addDuplicates(f *File, ix *Index, s *Settings, dups []uint32) error {
	total := len(r.Problems) + r.More + len(dups)
	var p parser
	for _, i := range dups[:min(len(dups), maxProblems)] {
		msg, err := f.duplicateMsg(ix, int(i), s, &p)
		if err != nil {
			return err
		}
		r.Problems = append(r.Problems, Problem{Line: int(ix.at(int(i)).Line), Msg: msg})
	}
	slices.SortStableFunc(r.Problems, func(x, y Problem) int { return x.Line - y.Line })
	r.Problems = r.Problems[:min(len(r.Problems), maxProblems)]
	r.More = total - len(r.Problems)
	return nil
}

// duplicateMsg names a duplicate's ID and the line that has it first.
func (f *File) duplicateMsg(ix *Index, i int, s *Settings, p *parser) (string, error) {
	e := ix.at(i)
	raw, err := f.Raw(ix, i)
	if err != nil {
		return "", err
	}
	if fault := p.parse(raw, s); fault != nil {
		return "", fmt.Errorf("line %d: %w", e.Line, ErrChanged)
	}
	group := ix.group(e.Hash)
	return fmt.Sprintf("%s %s is used before, on line %d: each line needs its own", p.idKey, clip(text(quoteID(p.id.of(p.b)))), ix.at(ix.first(group)).Line), nil
}

// quoteID gives an ID as a JSON string, whichever type it has.
func quoteID(v []byte) []byte {
	if v[0] == '"' {
		return v
	}
	return appendQuoted(nil, v)
}

// notices tells which flags do not reach which lines, and what else the user should know before the first call.
func (t *tally) notices(s *Settings) []string {
	var list []string
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	others := t.operations - t.shapes[Plain]
	kinds := t.kinds()
	for _, flag := range []struct {
		name  string
		given bool
		chat  bool // it is no setting of embeddings
	}{
		{"--system", s.System != "", true},
		{"--max-tokens", s.MaxTokens > 0, true},
		{"--temperature", s.Temperature != "", true},
		{"--extra-body", len(s.ready.extra) > 0, false},
	} {
		n, what := others, kinds
		if flag.chat && t.embeddings > 0 {
			n, what = n+t.embeddings, append(slices.Clone(kinds), "embeddings")
		}
		if flag.given && n > 0 {
			say("%s does not apply to %s (%s)", flag.name, lines(n), strings.Join(what, ", "))
		}
	}
	if s.Model != "" && s.OverrideModel == "" && t.named > 0 {
		say("--model does not apply to %s (%s) with a model of their own: --override-model replaces it", lines(t.named), strings.Join(kinds, ", "))
	}
	if t.noIDField > 0 {
		say("%s without the field %q of --id-field", lines(t.noIDField), s.IDField)
	}
	if t.unread > 0 {
		say("%s (plain) with fields that plain lines do not send: %s; a batch line sends its body as it stands", lines(t.unread), parameterNames(t.unreadNames))
	}
	if t.empty > 0 {
		say("%s with an empty prompt", lines(t.empty))
	}
	return list
}

func lines(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

// kinds names the shapes but Plain that the file has.
func (t *tally) kinds() []string {
	var kinds []string
	for _, shape := range []Shape{Batch, AnthropicBatch, Raw} {
		if t.shapes[shape] > 0 {
			kinds = append(kinds, shape.String())
		}
	}
	return kinds
}

// examiner checks the lines of blocks, one block after the other.
type examiner struct {
	set   *Settings
	max   int
	p     parser
	canon canonical
	out   *findings
}

var bom = []byte("\xEF\xBB\xBF")

func (x *examiner) examine(b *block) *findings {
	x.out = &findings{entries: make([]Entry, 0, len(b.data)/512+1)}
	if b.long {
		x.tooLong(b.data, b.off, b.size)
		x.out.lines = 1
		return x.out
	}
	for off, data := b.off, b.data; len(data) > 0; x.out.lines++ {
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 {
			end = len(data)
		}
		x.line(data[:end], off)
		off, data = off+int64(end), data[end:]
	}
	return x.out
}

// line examines one physical line with its end.
func (x *examiner) line(line []byte, off int64) {
	if bytes.HasPrefix(line, bom) {
		line, off = line[len(bom):], off+int64(len(bom))
	}
	start, end := 0, len(line)
	for start < end && blank(line[start]) {
		start++
	}
	for end > start && blank(line[end-1]) {
		end--
	}
	switch {
	case start == end:
		x.out.blank++
		return
	case end-start > x.max:
		x.tooLong(line[start:start+x.max], off+int64(start), int64(end-start))
		return
	}
	raw := line[start:end]
	e := Entry{Offset: off + int64(start), Sum: xxhash.Sum64(raw), Length: uint32(len(raw)), Line: uint32(x.out.lines)}
	if f := x.p.parse(raw, x.set); f != nil {
		e.flags |= flagInvalid
		x.problem(column(line, start+f.pos), f.msg)
	} else {
		x.count()
	}
	x.identify(&e)
	x.out.entries = append(x.out.entries, e)
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// identify sets the entry's hash. An invalid line has one if its ID can be read.
func (x *examiner) identify(e *Entry) {
	p := &x.p
	e.Shape, e.Priority = p.shape, p.priority
	switch {
	case p.id.some():
		e.Hash = idHash(text(quoteID(p.id.of(p.b))))
		e.flags |= flagHashed
	case !e.Invalid():
		e.Hash = baseHash(baseOf(text(p.given(fTask)), x.canon.form(p.b)))
		e.flags |= flagHashed | flagDerived
	}
}

func (x *examiner) tooLong(beginning []byte, off, size int64) {
	x.problem(0, fmt.Sprintf("the line has %d bytes, more than --max-line-bytes %d", size, x.max))
	x.out.entries = append(x.out.entries, Entry{
		Offset: off, Sum: xxhash.Sum64(beginning), Length: uint32(len(beginning)), Line: uint32(x.out.lines), flags: flagInvalid | flagLong,
	})
}

func (x *examiner) problem(column int, msg string) {
	if len(x.out.problems) < maxProblems {
		x.out.problems = append(x.out.problems, Problem{Line: x.out.lines, Column: column, Msg: msg})
	} else {
		x.out.more++
	}
}

// count keeps the figures of the operation just parsed.
func (x *examiner) count() {
	p, t := &x.p, &x.out.tally
	t.operations++
	t.shapes[p.shape]++
	t.empty += btoi(p.empty)
	t.named += btoi(p.shape != Plain && p.hasModel)
	t.noIDField += btoi(p.idNew)
	t.embeddings += btoi(p.shape == Plain && p.api == "/embeddings")
	if p.unread != 0 && p.shape == Plain {
		t.unread++
		t.unreadNames |= p.unread
	}
}
