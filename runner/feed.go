package runner

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// feedChunk is how many lines a worker takes at a time.
const feedChunk = 32

// chunk is a stretch of the plan, in order.
type chunk struct {
	entries []int
	jobs    []*job
	err     error
	done    chan struct{}
}

// feed loads what the plan still has to do, on all cores ahead of whoever
// takes it and in the plan's order. It ends, and closes the channel, when
// everything is fed, on the first error, or with ctx.
func (r *run) feed(ctx context.Context, load func(i int) (*job, error)) <-chan *chunk {
	out := make(chan *chunk)
	work := make(chan *chunk, 2*runtime.GOMAXPROCS(0))
	order := make(chan *chunk, 2*runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	all.Go(func() {
		defer close(work)
		defer close(order)
		c := &chunk{done: make(chan struct{})}
		flush := func() bool {
			for _, to := range []chan *chunk{order, work} {
				select {
				case to <- c:
				case <-ctx.Done():
					return false
				}
			}
			c = &chunk{done: make(chan struct{})}
			return true
		}
		open := true
		if r.SkipInvalid && r.report.Invalid > 0 {
			c.jobs, c.err = r.invalidJobs()
			open = flush()
		}
		r.plan.entries(r.index, func(i int) bool {
			if c.entries = append(c.entries, i); len(c.entries) == feedChunk {
				open = flush()
			}
			return open
		})
		if open && len(c.entries) > 0 {
			flush()
		}
	})
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for c := range work {
				c.fill(load)
				close(c.done)
			}
		})
	}
	r.feeders.Go(func() {
		defer close(out)
		defer all.Wait()
		for c := range order {
			select {
			case <-c.done:
			case <-ctx.Done():
				return
			}
			select {
			case out <- c:
			case <-ctx.Done():
				return
			}
		}
	})
	return out
}

// fill makes the jobs of a chunk that has none yet.
func (c *chunk) fill(load func(i int) (*job, error)) {
	for _, i := range c.entries {
		j, err := load(i)
		if err != nil {
			c.err = err
			return
		}
		c.jobs = append(c.jobs, j)
	}
}

// load builds the job of one entry, with its row.
func (r *run) load(i int) (*job, error) {
	j, err := r.reckon(i)
	if err != nil {
		return nil, err
	}
	return j, r.row(j)
}

// reckon reads one entry's request and counts its tokens. A defect that one
// line's content brings out ends as that line's dead letter, not the run.
func (r *run) reckon(i int) (j *job, err error) {
	e := r.index.Entry(i)
	j = &job{entry: i}
	defer func() {
		if p := recover(); p != nil {
			j.rec.Line = int(e.Line)
			j.refuse = &deadLetter{class: classInternal, code: classInternal, msg: fmt.Sprintf("line %d: internal defect: %v", e.Line, p)}
		}
	}()
	rec, err := r.Input.Record(r.index, i, r.Settings)
	if err != nil {
		return nil, err
	}
	j.rec = rec
	j.tokens, err = r.Counter.Request(rec.API, rec.Model, rec.Body)
	if err != nil {
		j.refuse = &deadLetter{class: "invalid", code: "invalid", msg: fmt.Sprintf("line %d: cannot count its tokens: %v", rec.Line, err)}
		return j, nil
	}
	num, den := estimate.Factor(rec.Model)
	text := int64(j.tokens.Prompt - j.tokens.Images)
	j.tokens.Prompt = int((text*num+den-1)/den) + j.tokens.Images
	return j, nil
}

// invalidJobs makes the dead letters of the lines that --skip-invalid leaves
// out, as far as no earlier run has.
func (r *run) invalidJobs() (jobs []*job, err error) {
	for bad, err := range r.Input.Invalid(r.index, r.Settings) {
		if err != nil {
			return nil, err
		}
		if r.plan.stand[bad.Index] != standTodo {
			continue
		}
		j := &job{entry: bad.Index, refuse: &deadLetter{class: classInvalid, code: classInvalid, msg: bad.Problem.String()}}
		j.rec = input.Record{Line: bad.Line, Op: bad.Op, CustomID: bad.CustomID, Sum: r.index.Entry(bad.Index).Sum}
		if err := r.row(j); err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// row gives the job its row: the one it has, or a new one.
func (r *run) row(j *job) error {
	op := checkpoint.Operation{ID: j.rec.Op, Created: r.started}
	if seq := r.book.row[j.entry]; seq != 0 {
		have, err := r.book.get(uint64(seq))
		if err != nil {
			return err
		}
		op = *have
	}
	// The key is kept while the request is: an unknown outcome goes out again
	// under the key that the first attempt carried.
	if op.Key == "" || op.Digest != j.rec.Digest {
		op.Digest = j.rec.Digest
		op.Key = idempotencyKey(r.book.meta.Salt, op.ID, op.Digest, op.Incarnation)
	}
	op.Sum, op.Line = j.rec.Sum, j.rec.Line
	op.Provider, op.Model = r.Profile.Name, j.rec.Model
	if op.Status == checkpoint.Unknown {
		j.hold = j.rec.Never
		// Also one that the run before had no time to wait for.
		if ready := lastAttempt(&op).Add(retry.ReconcileDelay); op.NotBefore.Before(ready) {
			op.NotBefore = ready
		}
	}
	j.op = op
	return nil
}
