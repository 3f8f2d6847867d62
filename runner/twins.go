package runner

import (
	"fmt"
	"os"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/result"
)

// twins lets one call serve all lines with the same request (--dedupe). The
// dispatcher's goroutine owns it; a nil twins does nothing.
type twins struct {
	of   map[[32]byte]*twin
	done map[[32]byte]uint64 // rows that earlier runs finished
}

// twin is a request that is under way, with the jobs that wait for it.
type twin struct {
	seq     uint64 // row of the finished one; 0 = still under way
	waiting []*job
}

func newTwins(r *run) *twins {
	return &twins{of: map[[32]byte]*twin{}, done: r.plan.digests}
}

// wait says that the job needs no call of its own now.
func (t *twins) wait(d *dispatcher, j *job) bool {
	if t == nil {
		return false
	}
	first := t.of[j.op.Digest]
	switch {
	case first == nil && t.done[j.op.Digest] != 0:
		first = &twin{seq: t.done[j.op.Digest]}
		t.of[j.op.Digest] = first
	case first == nil:
		t.of[j.op.Digest] = &twin{}
		return false
	}
	if first.seq == 0 {
		first.waiting = append(first.waiting, j)
		j.kept = nil // the first has it too
		return true
	}
	t.copy(d, j, first.seq)
	return true
}

// copy gives a job the result of a finished row.
func (t *twins) copy(d *dispatcher, j *job, seq uint64) {
	j.kept = nil
	d.sched.count.Suppressed++
	d.sched.tell(time.Now(), j, Event{What: Suppressed})
	d.store(j, func() { d.copyOf(j, seq) })
}

// finished gives a finished operation's result to those that wait for it. If
// there is none, since its outcome is unknown and held, they go themselves; at
// a stop they stay pending.
func (t *twins) finished(d *dispatcher, j *job, v verdict) {
	if t == nil || j.op.CopyOf != "" || v.again || t.of[j.op.Digest] == nil {
		return
	}
	first := t.of[j.op.Digest]
	waiting := first.waiting
	first.waiting = nil
	if isFinal(v.status) {
		first.seq = j.op.Seq
		for _, w := range waiting {
			t.copy(d, w, first.seq)
		}
		return
	}
	delete(t.of, j.op.Digest)
	if d.sched.stop != nil {
		return
	}
	now := time.Now()
	for _, w := range waiting {
		d.enter(now, w)
	}
}

// copyOf finishes a job with the line of its twin, at no usage.
func (r *run) copyOf(j *job, seq uint64) {
	path := r.Paths.Output
	if op, err := r.book.get(seq); err == nil && op.Status == checkpoint.DeadLetter {
		path = r.Paths.Errors
	}
	op, line, err := r.book.finishedLine(path, seq)
	if err != nil {
		r.fatal(j, fmt.Errorf("copy the result of operation %s: %w", j.op.ID, err))
		return
	}
	j.op.CopyOf, j.op.Finish, j.op.Class, j.op.Degraded = op.ID, op.Finish, op.Class, op.Degraded
	mine := r.line(j)
	mine.Response, mine.Error = line.Response, line.Error
	r.finish(j, op.Status, mine, nil)
}

// finishedLine reads a finished operation's line back from its file.
func (b *book) finishedLine(path string, seq uint64) (*checkpoint.Operation, *result.Line, error) {
	op, err := b.get(seq)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	raw := make([]byte, op.Length)
	if _, err := f.ReadAt(raw, op.Offset); err != nil {
		return nil, nil, err
	}
	line, err := result.Decode(raw)
	return op, line, err
}
