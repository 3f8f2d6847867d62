package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/limit"
)

// dispatcher is the loop that carries out what the scheduler decides. Its
// goroutine, Run's own, owns the scheduler.
type dispatcher struct {
	*run
	wire   context.Context // of the calls on the wire
	cancel context.CancelCauseFunc
	fed    <-chan *chunk[*job] // nil once everything is fed
	lots   *lots
	twins  *twins // nil without --dedupe
	timer  *time.Timer
	err    error     // the first fatal failure
	grace  time.Time // when calls in flight are cut off; zero = not interrupted
	told   time.Time // when the countdown was last shown
	shown  time.Time // when the snapshot was last made
	snaps  chan *checkpoint.Snapshot
	waited time.Time       // until when a long wait was announced
	models map[string]bool // whose encoding has been looked up
	// How accounts charge calls, as it has been told.
	charging map[string]limit.Charging
	again    bool  // what is parked may go
	felt     int64 // what was unsent when the pressure was last looked at
	read     func(entries []int) <-chan *chunk[*job]
}

var errGraceOver = errors.New("the grace time for calls in flight is over")

// dispatch runs until everything is done or nothing more can be.
func (r *run) dispatch(ctx context.Context) error {
	feedCtx, stopFeed := context.WithCancel(context.WithoutCancel(ctx))
	wire, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	snaps := make(chan *checkpoint.Snapshot)
	var publisher sync.WaitGroup
	publisher.Go(func() { r.publish(snaps) })
	defer func() {
		stopFeed()
		r.feeders.Wait()
		r.attempts.Wait()
		cancel(nil)
		close(snaps)
		publisher.Wait()
	}()
	lots := newLots()
	d := &dispatcher{run: r, wire: wire, cancel: cancel, snaps: snaps, lots: lots, fed: r.feed(feedCtx, lots), timer: time.NewTimer(time.Hour), models: map[string]bool{}}
	d.read = func(entries []int) <-chan *chunk[*job] {
		return feed(feedCtx, &r.feeders, nothing, slices.Values(entries), r.length, r.load)
	}
	if r.Dedupe {
		d.twins = newTwins(r)
	}
	d.sched.moved, d.charging = d.tellCharging, map[string]limit.Charging{}
	for _, l := range d.sched.lanes {
		d.charging[l.account()] = limit.As(l.Accounting)
		if l.follows {
			l.limiter.Follow()
		}
	}
	forecast, err := r.forecast()
	if err != nil {
		return err
	}
	r.Notice(forecast)
	d.press(time.Now())
	return d.loop(ctx)
}

// loop goes on until nothing is left to do, or the run is stopped.
func (d *dispatcher) loop(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	interrupted := ctx.Done()
	for {
		d.refeed()
		d.send(time.Now())
		d.last.Store(d.fed == nil && d.sched.queued() == 0)
		if d.sched.idle() && (d.fed == nil || d.sched.stop != nil) {
			now := time.Now()
			if !d.remain(now) {
				d.end(now)
				return d.err
			}
			if d.again || !d.sched.idle() {
				continue // what was held may go
			}
		}
		d.lots.mark(d.sched)
		var fed <-chan *chunk[*job]
		if d.sched.wants() || d.sched.hungry() {
			fed = d.fed
		}
		select {
		case ev := <-d.events:
			d.handle(ev)
			d.drain()
		case c, ok := <-fed:
			d.take(c, ok)
		case <-d.timer.C:
		case <-interrupted:
			interrupted = nil
			d.interrupt()
		case <-tick.C:
			d.tick(time.Now())
		}
	}
}

// end tells what came after the last tick.
func (d *dispatcher) end(now time.Time) {
	d.sched.press.pass(now)
	d.sched.observe(now)
	d.sched.measure(now)
	if d.Progress != nil {
		d.Progress(d.progress(now))
	}
}

// send starts what may go now and sets the timer for what may go later.
func (d *dispatcher) send(now time.Time) {
	d.fix(now)
	var calls []*job
	j, wake := d.sched.next(now)
	for ; j != nil; j, wake = d.sched.next(now) {
		d.attempts.Add(1)
		switch {
		case j.kept != nil:
			go d.serve(j)
		case j.looking:
			go d.lookUp(d.wire, j)
		default:
			calls = append(calls, j)
		}
		d.relax(now)
	}
	if len(calls) > 0 {
		go func() {
			for _, j := range calls {
				d.attempt(d.wire, j)
			}
		}()
	}
	d.sleep(now, wake)
}

func (d *dispatcher) sleep(now, wake time.Time) {
	if wake.IsZero() {
		d.timer.Reset(time.Hour)
		return
	}
	d.timer.Reset(max(wake.Sub(now), 0))
}

// drain takes the events that are there already, so that one look at the
// clock and one round of decisions serve them all.
func (d *dispatcher) drain() {
	for range cap(d.events) {
		select {
		case ev := <-d.events:
			d.handle(ev)
		default:
			return
		}
	}
}

func (d *dispatcher) handle(ev event) {
	switch ev.kind {
	case eventSent:
		d.sched.sent(ev.at, ev.job)
	case eventAnswered:
		d.sched.answered(ev.at, ev.job, ev.resp)
	case eventFailed:
		ev.reply <- d.sched.failed(ev.at, ev.job, ev.err)
		d.tellOutage(ev)
	case eventLooked:
		ev.reply <- d.sched.looked(ev.at, ev.job, ev.found, ev.err)
	case eventStored:
		d.book.lines.add(&ev.job.op)
		d.sched.stored(ev.job, ev.stored)
		d.sched.tellStored(time.Now(), ev.job, ev.stored)
		d.twins.finished(d, ev.job, ev.stored)
	case eventFatal:
		d.sched.lost(ev.job)
		d.fatalStop(ev.fatal)
		// What is in flight is cut off, since its answers could not be kept.
		d.cancel(ev.fatal)
	case eventUnread:
		d.fatalStop(ev.fatal)
	}
}

// tellOutage says once an outage that the provider is down, or all targets of a
// route are, and for how long they are tried again.
func (d *dispatcher) tellOutage(ev event) {
	l := d.sched.lane(ev.job)
	if l.told || d.sched.stop != nil || !d.sched.outage(ev.at, ev.job) {
		return
	}
	who := "the provider does not answer"
	if ev.job.way.choice() {
		who = "no target answers"
	}
	for _, at := range d.sched.stations(ev.job) {
		for _, o := range d.sched.lanes { // a provider's models go down together
			o.told = o.told || o.Provider == at.Provider && o.BaseURL == at.BaseURL
		}
	}
	d.Notice(fmt.Sprintf("%s (%s); trying again for up to %s", who, ev.err, d.sched.policy.MaxOutage))
}

// fatalStop ends sending after a failure of the run's own files.
func (d *dispatcher) fatalStop(err error) {
	if d.err == nil {
		d.err = err
		d.Notice("stopping: " + err.Error())
	}
	if d.sched.stop == nil {
		d.sched.stop = &Stop{Kind: StopFatal, Reason: err.Error(), Hint: "mend the cause, then run the same command again"}
	}
}

// take queues what the feeders have counted.
func (d *dispatcher) take(c *chunk[*job], ok bool) {
	if !ok {
		d.fed = nil
		return
	}
	if c.err != nil {
		d.fed = nil
		d.err = c.err
		if d.sched.stop == nil {
			d.sched.stop = &Stop{Kind: StopFatal, Reason: c.err.Error(), Hint: "run the same command again: what is finished stays finished"}
		}
		return
	}
	now := time.Now()
	for _, j := range c.items {
		d.enter(now, j)
	}
}

// enter decides where a job that was just counted goes.
func (d *dispatcher) enter(now time.Time, j *job) {
	if j.op.Status == checkpoint.Unknown {
		d.sched.unsettled--
	}
	if j.hold {
		d.sched.resume(j)
	}
	if j.hold && d.sched.findable(j) {
		j.after = func(time.Time) verdict { return verdict{status: checkpoint.Unknown} }
	} else if j.hold {
		d.sched.count.Held++
		d.sched.tell(now, j, Event{What: Held})
		return
	}
	d.tellModel(j)
	if d.park(j) || j.refuse == nil && d.twins.wait(d, j) {
		return
	}
	if dead := d.sched.push(now, j); dead != nil {
		d.store(j, func() { d.bury(j, *dead) })
		return
	}
	d.lots.note(d.index.Entry(j.entry).Lot, j.lane)
}

// tellModel says once a model that its tokens are counted with an encoding
// that may not be its own. Beyond a hundred models it is silent.
func (d *dispatcher) tellModel(j *job) {
	if j.refuse != nil || d.models[j.rec.Model] || len(d.models) >= 100 {
		return
	}
	d.models[j.rec.Model] = true
	if name, known := estimate.Encoding(j.rec.Model); !known {
		d.Notice(fmt.Sprintf("model %s: its tokenizer is not known; tokens are reckoned with %s", j.rec.Model, name))
	}
}

// store runs a write that has no call before it.
func (d *dispatcher) store(j *job, write func()) {
	d.sched.storing++
	d.attempts.Go(write)
}

// interrupt is the first signal: nothing more is sent.
func (d *dispatcher) interrupt() {
	if d.sched.stop == nil {
		d.sched.stop = &Stop{Kind: StopInterrupted, Reason: "interrupted", Hint: "run the same command again to go on"}
	}
	now := time.Now()
	d.grace, d.told = now.Add(d.Grace), now
	if d.sched.wire == 0 {
		d.Notice("stopping: no call is in flight")
		return
	}
	d.Notice(fmt.Sprintf("stopping: up to %s for %s in flight to finish; Ctrl-C again leaves at once", d.Grace, Count(int64(d.sched.wire), "call")))
}

// tick does what happens by the clock: bounds, countdown, progress, snapshot.
func (d *dispatcher) tick(now time.Time) {
	if !d.grace.IsZero() {
		if now.After(d.grace) {
			d.cancel(errGraceOver)
		} else if now.Sub(d.told) >= 10*time.Second {
			d.told = now
			d.Notice(fmt.Sprintf("stopping: %s in flight, %s left", Count(int64(d.sched.wire), "call"), d.grace.Sub(now).Round(time.Second)))
		}
	}
	if d.Deadline > 0 && now.Sub(d.started) >= d.Deadline && d.sched.stop == nil {
		d.sched.stop = &Stop{Kind: StopBound, Reason: "the deadline of " + d.Deadline.String() + " has passed", Hint: "run the same command again to go on"}
	}
	d.announce(now)
	d.sched.observe(now)
	if d.sched.wire > 0 {
		d.worked += now.Sub(d.ticked)
	}
	d.record.tick(d.run, now)
	d.ticked = now
	if d.Progress != nil {
		d.Progress(d.progress(now))
	}
	if now.Sub(d.shown) >= time.Second {
		d.shown = now
		select {
		case d.snaps <- d.snapshot(now):
		default: // the one before is still being written
		}
		if err := d.book.intact(d.Config, false); err != nil && d.err == nil {
			d.fatalStop(err)
		}
		d.sched.measure(now)
		d.press(now)
	}
}

// announce says once why a wait is long and when it ends.
func (d *dispatcher) announce(now time.Time) {
	until := d.sched.wait.Until
	if d.sched.wire > 0 || until.Sub(now) < 30*time.Second || !until.After(d.waited) {
		return
	}
	d.waited = until
	why := string(d.sched.wait.Reason)
	if at := d.sched.bindsAt(); at != "" {
		why += " of " + at
	}
	d.Notice(fmt.Sprintf("waiting until %s: %s", Clock(now, until), why))
}

// isFinal says that an operation needs nothing more.
func isFinal(s checkpoint.Status) bool {
	return s == checkpoint.Completed || s == checkpoint.DeadLetter
}
