package input

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
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
	Notices                           []string  // each to be shown once
	Models                            []string  // that operations ask for, in the order of lines; the first MaxModels
}

// SettingsError says that the settings are wrong, whatever the file holds.
type SettingsError struct{ Err error }

func (e *SettingsError) Error() string { return e.Err.Error() }

// Unwrap is the fault.
func (e *SettingsError) Unwrap() error { return e.Err }

// Preflight reads the whole file, checks every line, and makes the index. Faults of lines are in the report; the error is for what
// stops the reading, for settings that are wrong (a *SettingsError), and for ctx. Memory is the index and a few blocks (or lines that are longer).
func Preflight(ctx context.Context, f *File, s *Settings) (*Index, *Report, error) {
	ready, err := s.prepare()
	if err != nil {
		return nil, nil, &SettingsError{err}
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
	if dups, err = f.markDerived(ix, s, dups); err != nil {
		return nil, nil, err
	}
	if err := rep.addDuplicates(f, ix, s, dups); err != nil {
		return nil, nil, err
	}
	rep.Operations = all.operations - len(dups)
	rep.Invalid = ix.n - rep.Operations
	rep.Notices, rep.Models = all.notices(s), all.models
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

// markDerived adds to the duplicates the lines whose own ID is what another line without an ID is called by. Looked at are only IDs of
// that form, which a file may have that was made of earlier results.
func (f *File) markDerived(ix *Index, s *Settings, dups []uint32) ([]uint32, error) {
	var p parser
	for i := range ix.n {
		e := ix.at(i)
		if e.flags&(flagLooksDerived|flagInvalid) != flagLooksDerived {
			continue
		}
		raw, err := f.Raw(ix, i)
		if err != nil {
			return nil, err
		}
		if p.parse(raw, s) != nil {
			return nil, fmt.Errorf("line %d: %w", e.Line, ErrChanged)
		}
		if _, found := ix.findDerived(text(quoteID(p.id.of(raw)))); found {
			e.flags |= flagInvalid | flagDuplicate
			dups = append(dups, uint32(i))
		}
	}
	slices.Sort(dups)
	return dups, nil
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
	op := text(quoteID(p.id.of(p.b)))
	if first, found := ix.findDerived(op); found {
		return fmt.Sprintf("%s %s is what line %d, which has no ID, is called by", p.idKey, clip(op), ix.at(first).Line), nil
	}
	return fmt.Sprintf("%s %s is used before, on line %d: each line needs its own", p.idKey, clip(op), ix.at(ix.first(ix.group(e.Hash))).Line), nil
}

// quoteID gives an ID as a JSON string, whichever type it has.
func quoteID(v []byte) []byte {
	if v[0] == '"' {
		return v
	}
	return appendQuoted(nil, v)
}
