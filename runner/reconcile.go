package runner

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/result"
)

// reconcile makes the checkpoint and the two files agree after any stop:
// torn tails are cut, whole lines that no row knows are adopted (they are
// paid for), rows whose line has moved get its new place, and rows whose line
// is gone go back to pending. A start after a run that ended in order costs
// one pass over the rows; after any other, and where somebody has had a file
// in hand, one over the files as well.
func (b *book) reconcile(c *Config) error {
	var lines tilings
	near := b.index.Cursor()
	err := b.store.All(func(op *checkpoint.Operation) error {
		b.attach(near.Find, op.ID, op.Seq)
		lines.add(op)
		return nil
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	out := b.meta.OutputStamp != "" && b.meta.OutputStamp == stamp(c.Paths.Output)
	if err := b.reconcileFile(c, b.out, c.Paths.Output, checkpoint.Completed, &lines.out, out); err != nil {
		return err
	}
	errs := b.meta.ErrorsStamp != "" && b.meta.ErrorsStamp == stamp(c.Paths.Errors)
	return b.reconcileFile(c, b.errs, c.Paths.Errors, checkpoint.DeadLetter, &lines.errs, errs)
}

// attach notes which row an operation of the input has.
func (b *book) attach(find func(op string) (i int, ok bool), id string, seq uint64) {
	if i, ok := find(id); ok && !b.index.Outgrown(i, id) {
		b.row[i] = uint32(seq)
		return
	}
	b.removed[id] = seq
}

func (b *book) seqOf(id string) uint64 {
	if i, ok := b.index.Find(id); ok && !b.index.Outgrown(i, id) {
		return uint64(b.row[i])
	}
	return b.removed[id]
}

func (b *book) reconcileFile(c *Config, w *result.Writer, path string, final checkpoint.Status, lines *tiling, sealed bool) error {
	if rep := w.Repaired(); rep.Cut > 0 {
		c.Notice(fmt.Sprintf("%s: cut a torn line of %s at its end", path, Count(rep.Cut, "byte")))
	}
	if sealed && lines.covers(w.Size()) {
		return nil
	}
	if w.Size() == 0 && final == checkpoint.Completed && lines.lines > 0 {
		return usage("put the file back, or start over with --restart (which pays for every call again); a run beside the earlier one needs its own --checkpoint",
			"output %s is gone or empty, but the checkpoint knows %s", path, Count(int64(lines.lines), "finished operation"))
	}
	known, err := b.spans(final, lines.lines)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	// The run before ended in the middle, or somebody had the file in hand
	// since: every line of it is looked at.
	slices.SortFunc(known, func(a, b span) int { return cmp.Compare(a.offset, b.offset) })
	f := &fileFix{book: b, final: final, known: known, seen: make([]bool, len(known)), fresh: map[string]*checkpoint.Operation{}}
	if err := w.Tail(0, f.line); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := f.finish(); err != nil {
		return err
	}
	f.tell(c, path)
	return nil
}

// fileFix matches the lines of one file with the rows of the checkpoint.
type fileFix struct {
	*book
	final checkpoint.Status
	known []span
	seen  []bool
	next  int // first known span not before the line that is read

	batch                   []*checkpoint.Operation
	fresh                   map[string]*checkpoint.Operation // those of batch, by ID
	adopted, moved, garbage int
	lost                    int
	firstGarbage            int
}

func (f *fileFix) line(s result.Scanned) error {
	for f.next < len(f.known) && f.known[f.next].offset < s.Offset {
		f.next++
	}
	if s.Err != nil {
		if f.garbage++; f.garbage == 1 {
			f.firstGarbage = s.Number
		}
		return nil
	}
	if f.next < len(f.known) && f.known[f.next].offset == s.Offset && f.known[f.next].length == s.Length {
		op, found, err := f.store.Get(f.known[f.next].seq)
		if err == nil && found && op.ID == s.Line.LLM.Op {
			f.seen[f.next] = true
			return nil
		}
	}
	return f.adopt(s)
}

// adopt takes a line that no row points to. It belongs to an operation that
// was under way, to one whose row is lost, or to a row that points elsewhere;
// a line that another request has superseded stays unclaimed and is removed
// at the end of the run.
func (f *fileFix) adopt(s result.Scanned) error {
	m := &s.Line.LLM
	op := f.fresh[m.Op]
	if op == nil {
		op = &checkpoint.Operation{ID: m.Op}
		if seq := f.seqOf(m.Op); seq != 0 {
			have, err := f.get(seq)
			if err != nil || !f.claims(have, m.Key) {
				return err
			}
			op = have
		}
		if isFinal(op.Status) {
			f.moved++
		} else {
			f.adopted++
		}
		f.batch = append(f.batch, op)
		f.fresh[m.Op] = op
	}
	fromLine(op, s.Line)
	op.Status, op.Offset, op.Length = f.final, s.Offset, s.Length
	return f.flushFull()
}

// claims says that a line with this key, which no row points to, is the row's.
// Of two lines that one pass adopts for an operation the later is the newer.
func (f *fileFix) claims(op *checkpoint.Operation, key string) bool {
	if !isFinal(op.Status) {
		return op.Key == key
	}
	if op.Status != f.final {
		return false
	}
	i, found := slices.BinarySearchFunc(f.known, op.Offset, func(s span, at int64) int { return cmp.Compare(s.offset, at) })
	if !found || f.known[i].seq != op.Seq {
		return true
	}
	return !f.seen[i] && op.Key == key
}

// putMost bounds the rows of one transaction, and so what they take of memory.
const putMost = 10_000

func (f *fileFix) flushFull() error {
	if len(f.batch) < putMost {
		return nil
	}
	return f.flush()
}

func (f *fileFix) flush() error {
	if len(f.batch) == 0 {
		return nil
	}
	if err := f.store.PutAll(f.batch, nil); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for _, op := range f.batch {
		f.attach(f.index.Find, op.ID, op.Seq)
	}
	f.batch = f.batch[:0]
	clear(f.fresh)
	return nil
}

// finish stores what was matched and puts rows without a line back to
// pending, with the key they had: a provider that honours keys answers again
// without a second bill.
func (f *fileFix) finish() error {
	if err := f.flush(); err != nil {
		return err
	}
	for i, s := range f.known {
		if f.seen[i] {
			continue
		}
		op, err := f.get(s.seq)
		if err != nil {
			return err
		}
		if op.Status == f.final && op.Offset == s.offset && op.Length == s.length {
			f.lost++
			f.batch = append(f.batch, &checkpoint.Operation{
				Seq: op.Seq, ID: op.ID, Status: checkpoint.Delayed, Digest: op.Digest, Sum: op.Sum, Line: op.Line, Key: op.Key,
				Incarnation: op.Incarnation, Attempts: op.Attempts, Created: op.Created, Degraded: op.Degraded,
			})
			if err := f.flushFull(); err != nil {
				return err
			}
		}
	}
	return f.flush()
}

func (f *fileFix) tell(c *Config, path string) {
	say := func(n int, before, after string) {
		if n > 0 {
			c.Notice(path + ": " + before + Count(int64(n), "line") + after)
		}
	}
	say(f.adopted, "adopted ", " not known to the checkpoint; nothing of it is paid for again")
	say(f.moved, "found ", " at another place")
	say(f.garbage, "", fmt.Sprintf(" without a result (the first is line %d)", f.firstGarbage))
	say(f.lost, "missing ", " of the checkpoint's; what was in it is sent again")
}

// fromLine fills a row with what its line says.
func fromLine(op *checkpoint.Operation, l *result.Line) {
	m := &l.LLM
	op.ID, op.Line, op.Key, op.Incarnation = m.Op, m.Line, m.Key, m.Incarnation
	op.Digest, op.Sum = parseDigest(m.Digest), parseSum(m.Sum)
	op.Provider, op.Model, op.Finish, op.Class, op.CopyOf = m.Provider, m.Model, m.Finish, m.Class, m.CopyOf
	op.LatencyMS, op.FromCache, op.Degraded = m.LatencyMS, m.Cached, m.Degraded
	op.Usage = checkpoint.Usage{Input: m.Usage.InputTokens, Output: m.Usage.OutputTokens, Cached: m.Usage.CachedTokens, Reasoning: m.Usage.ReasoningTokens}
	if l.Response != nil {
		op.RequestID = l.Response.RequestID
	}
	if op.Created.IsZero() {
		op.Created = time.Now()
	}
	op.Finished = time.Now()
}

func parseDigest(s string) (d [32]byte) {
	if b, err := hex.DecodeString(s); err == nil && len(b) == len(d) {
		copy(d[:], b)
	}
	return d
}

func parseSum(s string) uint64 {
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return 0 // no line has it: the digest decides
	}
	return n
}

// get reads a row that must be there.
func (b *book) get(seq uint64) (*checkpoint.Operation, error) {
	op, found, err := b.store.Get(seq)
	if err == nil && !found {
		err = errors.New("is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint row %d: %w", seq, err)
	}
	return &op, nil
}

// compact removes from both files the lines that no row points to: results
// that an edited line superseded and dead letters that were put back. The
// superseded results, which were paid for, go to their own file.
func (b *book) compact(c *Config) error {
	if !records {
		return nil // no row points to any line
	}
	if err := b.compactFile(b.out, c.Paths.Superseded, checkpoint.Completed, &b.lines.out); err != nil {
		return err
	}
	return b.compactFile(b.errs, "", checkpoint.DeadLetter, &b.lines.errs)
}

func (b *book) compactFile(w *result.Writer, keepRemoved string, final checkpoint.Status, lines *tiling) error {
	if lines.covers(w.Size()) {
		return nil
	}
	known, err := b.spans(final, lines.lines)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	slices.SortFunc(known, func(a, b span) int { return cmp.Compare(a.offset, b.offset) })
	var moved *result.Writer
	if keepRemoved != "" {
		if moved, err = result.Open(keepRemoved); err != nil {
			return fmt.Errorf("keep superseded results: %w", err)
		}
		defer moved.Close()
	}
	next := 0
	err = w.Rewrite(func(s result.Scanned) bool {
		for next < len(known) && known[next].offset < s.Offset {
			next++
		}
		return next < len(known) && known[next].offset == s.Offset
	}, moved, func(_ result.Scanned, at result.Span) {
		known[next].offset, known[next].length = at.Offset, at.Length
	})
	if err != nil {
		return err
	}
	b.meta.Generation++
	slices.SortFunc(known, func(a, b span) int { return cmp.Compare(a.seq, b.seq) })
	next = 0
	return b.store.Edit(&b.meta, func(op *checkpoint.Operation) bool { // in the order of rows
		if next == len(known) || known[next].seq != op.Seq {
			return false
		}
		moved := op.Offset != known[next].offset
		op.Offset, op.Length = known[next].offset, known[next].length
		next++
		return moved
	})
}
