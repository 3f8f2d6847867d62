package input

import (
	"fmt"
	"iter"
)

// InvalidLine is a line that is not run.
type InvalidLine struct {
	Index    int    // its entry
	Problem         // the column counts from the line's first character that is no blank
	Op       string // its ID if it can be read and no other line has it, else line:<number>:<12 hex digits of its sum>
	CustomID []byte // its ID as it came, nil if it cannot be read
}

// Invalid reads the invalid lines again, in the order of the file, and says what is wrong with each. It stops after an error.
func (f *File) Invalid(ix *Index, s *Settings) iter.Seq2[InvalidLine, error] {
	return func(yield func(InvalidLine, error) bool) {
		x := examiner{set: s, max: s.maxLine()}
		for i := range ix.n {
			if !ix.at(i).Invalid() {
				continue
			}
			l, err := f.invalid(ix, i, s, &x)
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

func (f *File) invalid(ix *Index, i int, s *Settings, x *examiner) (InvalidLine, error) {
	e := ix.at(i)
	raw, err := f.Raw(ix, i)
	if err != nil {
		return InvalidLine{}, err
	}
	l := InvalidLine{Index: i, Op: lineOp(e), Problem: Problem{Line: int(e.Line)}}
	if e.flags&flagLong != 0 {
		l.Msg = fmt.Sprintf("the line is longer than --max-line-bytes %d", x.max)
		return l, nil
	}
	fault := x.p.parse(raw, s)
	if x.p.id.some() {
		l.CustomID = x.p.id.of(raw)
	}
	if e.flags&flagDuplicate != 0 {
		l.Msg, err = f.duplicateMsg(ix, i, s, &x.p)
		return l, err
	}
	if fault == nil {
		return InvalidLine{}, fmt.Errorf("line %d: %w", e.Line, ErrChanged)
	}
	l.Column, l.Msg = column(raw, fault.pos), fault.msg
	if x.p.id.some() && ix.first(ix.group(e.Hash)) == i {
		l.Op = text(quoteID(x.p.id.of(raw)))
	}
	return l, nil
}
