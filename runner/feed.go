package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/cache"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// A worker takes so many lines at a time, or so many bytes of them: long
// lines must not fill the memory.
const (
	feedChunk = 32
	feedBytes = 1 << 20
)

// chunk is a stretch of the input, in order.
type chunk[T any] struct {
	entries []int
	items   []T
	err     error
	done    chan struct{}
}

// feed loads what the plan still has to do, in the order of dispatch.
func (r *run) feed(ctx context.Context, lots *lots) <-chan *chunk[*job] {
	first := nothing[*job]
	if r.SkipInvalid && r.report.Invalid > 0 {
		first = r.invalidJobs
	}
	all := func(yield func(int) bool) { r.plan.entries(r.index, yield) }
	return feed(ctx, &r.feeders, first, lots.order(ctx, all, func(i int) uint16 { return r.index.Entry(i).Lot }), r.length, r.load)
}

// nothing is a sequence without an item.
func nothing[T any](func(T, error) bool) {}

// length is how long an entry's line is, in bytes.
func (r *run) length(i int) int { return int(r.index.Entry(i).Length) }

// feed loads entries on all cores, ahead of whoever takes them and in their
// order, after what first makes. It ends, and closes the channel, when
// everything is fed, on the first error, or with ctx; feeders waits for it.
func feed[T any](ctx context.Context, feeders *sync.WaitGroup, first iter.Seq2[T, error], entries iter.Seq[int], size func(i int) int, load func(i int) (T, error)) <-chan *chunk[T] {
	out := make(chan *chunk[T])
	work := make(chan *chunk[T], 2*runtime.GOMAXPROCS(0))
	order := make(chan *chunk[T], 2*runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	all.Go(func() {
		defer close(work)
		defer close(order)
		gather(first, entries, size, func(c *chunk[T]) bool {
			c.done = make(chan struct{})
			for _, to := range []chan *chunk[T]{order, work} {
				select {
				case to <- c:
				case <-ctx.Done():
					return false
				}
			}
			return true
		})
	})
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for c := range work {
				c.fill(load)
				close(c.done)
			}
		})
	}
	feeders.Go(func() {
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

// gather makes chunks of what first has, then of the entries, until pass takes
// no more.
func gather[T any](first iter.Seq2[T, error], entries iter.Seq[int], size func(i int) int, pass func(*chunk[T]) bool) {
	c := &chunk[T]{}
	flush := func() bool {
		full := c
		c = &chunk[T]{}
		return len(full.entries)+len(full.items) == 0 && full.err == nil || pass(full)
	}
	for item, err := range first {
		if c.err = err; err == nil {
			c.items = append(c.items, item)
		}
		if (err != nil || len(c.items) == feedChunk) && !flush() || err != nil {
			return
		}
	}
	if !flush() {
		return
	}
	taken := 0
	for i := range entries {
		if i != pause {
			c.entries = append(c.entries, i)
			if taken += size(i); len(c.entries) < feedChunk && taken < feedBytes {
				continue
			}
		}
		if taken = 0; !flush() {
			return
		}
	}
	flush()
}

// fill loads the items of a chunk's entries.
func (c *chunk[T]) fill(load func(i int) (T, error)) {
	c.items = slices.Grow(c.items, len(c.entries))
	for _, i := range c.entries {
		item, err := load(i)
		if err != nil {
			c.err = err
			return
		}
		c.items = append(c.items, item)
	}
}

// load builds the job of one entry, with its row.
func (r *run) load(i int) (*job, error) {
	j, err := r.reckon(i, r.kept)
	if err != nil {
		return nil, err
	}
	return j, r.row(j)
}

// reckon reads one entry's request and counts its tokens. A defect that one
// line's content brings out ends as that line's dead letter, not the run. kept,
// unless nil, is asked first: what is served from the cache needs no count.
func (r *run) reckon(i int, kept func(*job) *cache.Entry) (j *job, err error) {
	j = &job{entry: i}
	defer func() {
		if p := recover(); p != nil {
			j.refuse = defect(p)
		}
	}()
	j.rec, err = r.Input.Record(r.index, i, r.Settings)
	if broken := (*input.Defect)(nil); errors.As(err, &broken) {
		j.refuse = defect(broken.Panic)
		return j, nil
	}
	if err != nil {
		return nil, err
	}
	if err := r.setOut(j); err != nil {
		return nil, noRoute(j.rec.Line, err)
	}
	if kept != nil {
		j.kept = kept(j)
	}
	if j.kept != nil {
		return j, nil
	}
	if j.refuse = r.unfit(j); j.refuse != nil {
		return j, nil
	}
	j.tokens, j.refuse = r.tokens(&j.rec, r.Targets[j.lane].Factor)
	j.keepsCap = r.Degradation != nil && input.KeepsCap(j.rec.Body)
	return j, nil
}

// noRoute ends a run that does not know where to send a line.
func noRoute(line int, err error) error {
	return &Error{Fault: FaultUsage, Msg: fmt.Sprintf("line %d", line), Err: err, Hint: "mend the config file (llmbatch config show FILE prints it as it is understood), then run the same command again"}
}

// defect is the end of an operation that panicked.
func defect(p any) *deadLetter {
	return &deadLetter{class: classInternal, code: classInternal, msg: fmt.Sprintf("internal defect: %v", p)}
}

// tokens counts a request's, by the model's own tokenizer or its stated factor.
func (c *Config) tokens(rec *input.Record, f Factor) (estimate.Tokens, *deadLetter) {
	t, err := c.Counter.Request(rec.API, rec.Model, rec.Body)
	if err != nil {
		return t, &deadLetter{class: "invalid", code: "invalid", msg: fmt.Sprintf("its tokens cannot be counted: %v", err)}
	}
	num, den := f.Num, f.Den
	if den == 0 {
		num, den = estimate.Factor(rec.Model)
	}
	text := int64(t.Prompt - t.Images)
	t.Prompt = int((text*num+den-1)/den) + t.Images
	return t, nil
}

// invalidJobs makes the dead letters of the lines that --skip-invalid leaves
// out, as far as no earlier run has.
func (r *run) invalidJobs(yield func(*job, error) bool) {
	for bad, err := range r.Input.Invalid(r.index, r.Settings) {
		var j *job
		if err == nil && r.plan.stand[bad.Index] == standTodo {
			j, err = r.invalidJob(&bad)
		}
		if (j != nil || err != nil) && !yield(j, err) || err != nil {
			return
		}
	}
}

func (r *run) invalidJob(bad *input.InvalidLine) (*job, error) {
	msg := bad.Msg
	if bad.Column > 0 {
		msg = fmt.Sprintf("column %d: %s", bad.Column, msg)
	}
	j := &job{entry: bad.Index, refuse: &deadLetter{class: ClassInvalid, code: ClassInvalid, msg: msg}}
	j.rec = input.Record{Line: bad.Line, Op: bad.Op, CustomID: bytes.Clone(bad.CustomID), Sum: r.index.Entry(bad.Index).Sum}
	return j, r.row(j)
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
	op.Provider, op.Model = r.Targets[j.lane].Provider, j.rec.Model
	j.op = op
	if j.bound() != nil {
		j.gave = gaveOf(op.Degraded)
	}
	if op.Status == checkpoint.Unknown {
		j.hold = j.rec.Never || r.Policy.HoldUnknown
		// Also one that the run before had no time to wait for.
		if ready := lastAttempt(&op).Add(retry.ReconcileDelay); op.NotBefore.Before(ready) {
			op.NotBefore = ready
		}
	}
	j.op = op
	return nil
}
