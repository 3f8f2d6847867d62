package input

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// findings is what the examination of one block found. Lines are counted from 0.
type findings struct {
	entries  []Entry
	lines    int
	blank    int
	problems []Problem
	more     int
	tally    tally
}

// examiner checks the lines of blocks, one block after the other.
type examiner struct {
	set   *Settings
	max   int
	p     parser
	canon canonical
	raw   []byte // of the line that Peek looks at,
	seen  Record // and what it makes of it
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
		e.Lot = lotOf(x.p.given(fTask), x.p.model)
	}
	x.identify(&e)
	x.out.entries = append(x.out.entries, e)
}

func lotOf(task []byte, model string) uint16 {
	return uint16((xxhash.Sum64(task) ^ 31*xxhash.Sum64String(model)) % Lots)
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// identify sets the entry's hash. An invalid line has one if it can be read that far: settings that let it pass made, or will make, an
// operation of it.
func (x *examiner) identify(e *Entry) {
	p := &x.p
	e.Priority = p.priority
	switch {
	case p.id.some():
		op := text(quoteID(p.id.of(p.b)))
		e.Hash = idHash(op)
		e.flags |= flagHashed
		if _, _, looks := derivedForm(op); looks {
			e.flags |= flagLooksDerived
		}
	case p.formed:
		sum := sha256.Sum256(x.canon.form(p.b))
		e.Hash = [16]byte(sum[:16])
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
