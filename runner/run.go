package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/cache"
	"github.com/llmbatch/llmbatch/runner/input"
)

// run is one run's state. Its goroutines are the feeders, one for each
// attempt, and the dispatcher, which is Run's own.
type run struct {
	*Config
	index   *input.Index
	report  *input.Report
	book    *book
	plan    *plan
	sched   *scheduler
	cache   *cache.Store // nil = answers are not kept
	started time.Time
	todo    int64         // operations that the plan has, and
	sampled []*job        // some of them, evenly spread, without their bodies
	ticked  time.Time     // when progress was last looked at
	worked  time.Duration // how long there were calls on the wire
	record  *recorder

	events   chan event
	attempts sync.WaitGroup
	last     atomic.Bool // no more calls go out: rows that are stored have none to wait for
	feeders  sync.WaitGroup
	teeMu    sync.Mutex // keeps whole lines together on Tee

	tellCache, tellCacheFull sync.Once
}

// Run does everything that the input still needs and returns what became of
// it. Cancelling ctx is the first signal: nothing more is sent, and calls in
// flight get Grace to finish. The error is an *InputError, an *Error or an
// I/O failure; the summary is set whenever calls may have been made.
func Run(ctx context.Context, c *Config) (*Summary, error) {
	now := time.Now()
	own := *c
	r := &run{Config: &own, started: now, ticked: now, events: make(chan event, 1024)}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	err := r.dispatch(ctx)
	if r.untouched(err) {
		return nil, errors.Join(err, r.book.undo(r.Config), checkpoint.RemoveSnapshot(r.Paths.Checkpoint))
	}
	if err == nil && r.Input.Changed() {
		// Lines that were read ahead of the change went out as they were.
		r.Notice(fmt.Sprintf("the input %s was changed, moved or replaced while the run went on: run again to send what is new in it", r.Input.Path()))
	}
	r.record.end(r, time.Now(), err)
	if err == nil {
		err = r.book.compact(r.Config)
	}
	if err == nil {
		err = r.book.seal(r.Config)
	}
	s := r.summary()
	return s, errors.Join(err, checkpoint.RemoveSnapshot(r.Paths.Checkpoint), r.book.close())
}

// untouched says that a mistake of the user's ended the run before anything came
// of it: it is then as if the run had not been.
func (r *run) untouched(err error) bool {
	var fault *Error
	c := &r.sched.count
	wrong := errors.As(err, &fault) && fault.Fault == FaultUsage || errors.Is(err, input.ErrChanged)
	return wrong && c.Calls == 0 && c.Completed+c.Failed == 0
}

// open pre-flights the input and opens the book.
func (r *run) open(ctx context.Context) (err error) {
	r.index, r.report, err = input.Preflight(ctx, r.Input, r.Settings)
	if err != nil {
		return err
	}
	if r.report.Invalid > 0 && !r.SkipInvalid {
		return &InputError{Report: r.report}
	}
	if r.Sized != nil {
		r.Sized(r.index.Len())
	}
	r.tellInput()
	if err := r.openCache(); err != nil {
		return err
	}
	settings := requestSettings(r.Config)
	r.separate(r.report.Models)
	if err := r.bounded(); err != nil {
		return err
	}
	if r.Restart {
		if err := setAside(r.Config); err != nil {
			return err
		}
	}
	if r.book, err = openBook(r.Config, r.index, settings); err != nil {
		return err
	}
	if err := r.resume(settings); err != nil {
		return errors.Join(err, r.book.discard(r.Config))
	}
	r.tellPlan()
	return nil
}

// resume brings book and files together, plans what is left to do, and makes the
// scheduler.
func (r *run) resume(settings map[string]string) (err error) {
	// Asked to rerun, every finished request is compared, also after an
	// earlier run was told to keep what it found; and so is what a rebuilt
	// checkpoint holds, since nothing says which settings it was made under.
	changed := r.book.fresh || r.Changed == Rerun || len(settingsDiff(r.book.meta.Settings, settings)) > 0
	if err = r.book.reconcile(r.Config); err != nil {
		return err
	}
	if r.plan, err = r.book.makePlan(r.Config, r.started, changed); err != nil {
		return err
	}
	if r.book.fresh && r.plan.foreign() {
		return usage("give this input its own --output, or --restart to move the old files aside",
			"the results in %s belong to another input, or to other settings: none of their requests would be sent now", r.Paths.Output)
	}
	// Every row has been compared with this input by now.
	m := r.book.meta
	r.book.before = m.Settings
	m.InputName, m.InputSHA = filepath.Base(r.Paths.Input), inputSHA(r.Config)
	m.Settings, m.Operations = settings, int64(r.index.Len())
	if len(r.plan.charging) == 0 {
		m.Charging = nil
	}
	r.book.meta = m
	if err := r.book.store.SetMeta(m); err != nil {
		return err
	}
	r.sched = newScheduler(r.Config, r.plan, r.started)
	if r.record, err = newRecorder(r); err != nil {
		return err
	}
	r.sched.watch = r.observe
	if r.cache != nil {
		r.sched.kept, r.sched.keptBy = r.kept, r.keptBy
	}
	r.sched.press.steps = r.Degradation
	for _, what := range r.sched.shutUnusable() {
		r.Notice(what)
	}
	return nil
}

// tellInput passes on what the pre-flight noticed.
func (r *run) tellInput() {
	for _, n := range r.report.Notices {
		r.Notice(n)
	}
	if r.report.Operations+r.report.Invalid == 0 {
		r.Notice(fmt.Sprintf("the input has no lines: there is nothing in %s to send", r.Paths.Input))
	}
}

func (r *run) tellPlan() {
	p := r.plan
	say := func(n int, noun, what string) {
		if n > 0 {
			r.Notice(Count(int64(n), noun) + " " + what)
		}
	}
	say(r.report.Invalid, "invalid line", "left out (--skip-invalid); see the errors file")
	say(p.edited, "finished operation", "changed since, to be sent again")
	say(p.putBack, "dead letter", "put back")
	say(p.removed, "operation", "of earlier runs no longer in the input: left out by results")
	say(p.unknowns, "call", "of earlier runs with an unknown outcome, possibly billed")
}
