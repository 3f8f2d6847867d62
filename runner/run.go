package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
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
	started time.Time

	events   chan event
	attempts sync.WaitGroup
	feeders  sync.WaitGroup
	teeMu    sync.Mutex // keeps whole lines together on Tee
	mute     bool       // a failure to publish has been told
}

// Run does everything that the input still needs and returns what became of
// it. Cancelling ctx is the first signal: nothing more is sent, and calls in
// flight get Grace to finish. The error is an *InputError, an *Error or an
// I/O failure; the summary is set whenever calls may have been made.
func Run(ctx context.Context, c *Config) (*Summary, error) {
	r := &run{Config: c, started: time.Now(), events: make(chan event, 1024)}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	err := r.dispatch(ctx)
	if err == nil {
		err = r.book.compact(r.Config)
	}
	s := r.summary()
	if err == nil {
		err = r.remember()
	}
	return s, errors.Join(err, checkpoint.RemoveSnapshot(r.Paths.Checkpoint), r.book.close())
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
	for _, n := range r.report.Notices {
		r.Notice(n)
	}
	settings := requestSettings(r.Config)
	if r.Restart {
		if err := setAside(r.Config); err != nil {
			return err
		}
	}
	if r.book, err = openBook(r.Config, r.index, settings); err != nil {
		return err
	}
	// Asked to rerun, every finished request is compared, also after an
	// earlier run was told to keep what it found.
	changed := !r.book.fresh && (r.Changed == Rerun || len(settingsDiff(r.book.meta.Settings, settings)) > 0)
	if err = r.book.reconcile(r.Config); err == nil {
		r.plan, err = r.book.makePlan(r.Config, r.started, changed)
	}
	if err == nil && r.book.fresh && r.plan.foreign() {
		err = usage("give this input its own --output, or --restart to move the old files aside",
			"the results in %s belong to another input: none of their requests is in this one", r.Paths.Output)
	}
	if err == nil {
		r.book.meta.Settings, r.book.meta.Operations = settings, int64(r.index.Len())
		err = r.book.store.SetMeta(r.book.meta)
	}
	if err == nil {
		r.sched = newScheduler(r.Config, r.plan, r.started)
	}
	if err != nil {
		return errors.Join(err, r.book.discard(r.Config))
	}
	r.tellPlan()
	return nil
}

func (r *run) tellPlan() {
	p := r.plan
	say := func(n int, format string) {
		if n > 0 {
			r.Notice(fmt.Sprintf(format, n))
		}
	}
	say(r.report.Invalid, "%d invalid lines go to the errors file (--skip-invalid)")
	say(p.edited, "%d finished operations changed since; they run again")
	say(p.putBack, "%d dead letters are put back")
	say(p.removed, "%d operations of earlier runs are no longer in the input; results leaves them out")
	say(p.unknowns, "%d calls of earlier runs have an unknown outcome and may have been billed")
}

// remember stores which input the checkpoint now speaks of.
func (r *run) remember() error {
	m := r.book.meta
	m.InputName, m.InputSHA = filepath.Base(r.Paths.Input), inputSHA(r.Config)
	return r.book.store.SetMeta(m)
}
