package runner

import (
	"encoding/json"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/series"
)

// recorder keeps what the run looks like over time, for the report. The
// dispatcher's goroutine owns it.
type recorder struct {
	series.Recorder
	groups map[*limit.Limiter]string // the first target of each, which stands for it
	wire   int64
	kept   time.Time // when the store last got what was new
	live   json.RawMessage
	made   time.Time // when live was made
}

// ofGroup joins what held calls back with the limit group that it was, where there
// are several.
const ofGroup = " of "

// livePoints is how many points a snapshot has: enough for a screen, and few
// enough to be written each second.
const livePoints = 150

// newRecorder goes on with what earlier runs have kept.
func newRecorder(r *run) (*recorder, error) {
	rec := &recorder{groups: map[*limit.Limiter]string{}}
	err := r.book.store.Samples(func(key uint64, value []byte) error {
		rec.Load(key, value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	now := rec.Begin(r.started.UnixMilli())
	now.Learned = r.Learned
	for _, l := range r.sched.lanes {
		if rec.groups[l.limiter] == "" {
			rec.groups[l.limiter] = l.name()
			if l.base == nil {
				now.Concur.Add(l.name(), int64(r.concurrency(l.Group)))
			}
		}
	}
	return rec, nil
}

// observe tells the recorder, and whoever else looks, what happened.
func (r *run) observe(e Event) {
	r.record.observe(r.sched, &e)
	if r.Observe != nil {
		r.Observe(e)
	}
}

func (rec *recorder) observe(s *scheduler, e *Event) {
	p, sum := &rec.Now, rec.Last()
	switch e.What {
	case Granted:
		rec.wire++
		p.InFlight, sum.InFlight = max(p.InFlight, rec.wire), max(sum.InFlight, rec.wire)
		p.Wait.Add(e.Wait.Milliseconds())
		sum.Wait.Add(e.Wait.Milliseconds())
	case Sent:
		t := rec.target(s, e)
		t.Calls++
		t.Reserved, t.ReservedOutput = t.Reserved+e.Reserved, t.ReservedOutput+e.Output
		p.Calls, p.Reserved, sum.Reserved = p.Calls+1, p.Reserved+e.Reserved, sum.Reserved+e.Reserved
		sum.Caps.Add(e.Output)
	case Retried:
		p.Retried.Add(e.Class, 1)
		sum.Retried.Add(e.Class, 1)
	case Answered:
		rec.wire--
		t := rec.target(s, e)
		t.Answered++
		t.Used, t.Output, t.Cost = t.Used+e.Used, t.Output+e.Output, t.Cost+int64(e.Cost)
		t.Latency += e.Latency.Milliseconds()
		p.Answered, p.Used, sum.Used = p.Answered+1, p.Used+e.Used, sum.Used+e.Used
		sum.Latency.Add(e.Latency.Milliseconds())
		sum.Output.Add(e.Output)
	case Failed:
		rec.wire--
		t := rec.target(s, e)
		sum.Failed.Add(e.Class, 1)
		if e.Unsent {
			break // no call
		}
		t.Failed++
		t.Cost += int64(e.Cost)
		p.Failed++
		if e.Unknown {
			sum.Doubtful++
		}
	case Refused:
		p.Refused.Add(e.Limit, 1)
		sum.Refused.Add(e.Limit, 1)
	case FellBack:
		sum.Fallbacks.Add(e.FromProvider+"/"+e.FromModel+" to "+e.Provider+"/"+e.Model+" ("+e.Reason+")", 1)
	case Completed:
		sum.Completed++
	case DeadLettered:
		sum.Dead.Add(e.Class, 1)
	case Suppressed, CacheHit, Fixed:
		sum.Spared++
	default: // in no figure of the report
	}
}

// target is what goes to the event's target so far.
func (rec *recorder) target(s *scheduler, e *Event) *series.Target {
	t := rec.Last().Target(e.Provider, e.Model)
	if t.Group != "" {
		return t
	}
	if l := s.serving(e.Provider, e.Model); l != nil {
		t.Group, t.Priced = rec.groups[l.limiter], l.Price.Known
	}
	return t
}

// tick notes what limits now and, each second, how the limits stand; the store
// takes it along with rows.
func (rec *recorder) tick(r *run, now time.Time) {
	if took := now.Sub(r.ticked).Milliseconds(); took > 0 {
		why := string(r.sched.wait.Reason)
		if r.sched.waits != nil && len(r.sched.limits) > 1 {
			why += ofGroup + rec.groups[r.sched.waits.limiter]
		}
		rec.Now.Bound.Add(why, took)
		rec.Last().Bound.Add(why, took)
	}
	if !rec.Last().Empty() && now.Sub(rec.kept) >= time.Second {
		rec.keep(r, now)
	}
}

func (rec *recorder) keep(r *run, now time.Time) {
	rec.kept = now
	sum := rec.Last()
	sum.Uncapped, sum.CutOff = r.sched.count.Uncapped, r.sched.count.Truncated
	for _, l := range r.sched.limits {
		for _, u := range l.State(now).Uses {
			rec.load(r, l, u)
		}
	}
	r.book.store.Note(rec.Tick(now.UnixMilli()))
}

// load notes how one limit stands.
func (rec *recorder) load(r *run, l *limit.Limiter, u limit.Use) {
	sum, group := rec.Last(), rec.groups[l]
	most := u.Limit
	if most == 0 {
		most = int64(u.Pace)
	}
	at := 0
	for at < len(sum.Limits) && (sum.Limits[at].Group != group || sum.Limits[at].Name != u.Name) {
		at++
	}
	if at == len(sum.Limits) {
		sum.Limits = append(sum.Limits, series.Limit{Group: group, Name: u.Name})
		for _, lane := range r.sched.lanes {
			if lane.limiter == l {
				sum.Limits[at].Accounting = lane.Accounting.String()
				break
			}
		}
	}
	sum.Limits[at].N, sum.Limits[at].Learned = most, u.Learned
	p := &rec.Now
	for len(p.Uses) <= at {
		p.Uses = append(p.Uses, series.Load{})
	}
	p.Uses[at] = series.Load{Used: max(p.Uses[at].Used, u.Used), Max: most}
}

// Ends of runs, as the series has them. A run without one was killed, or still
// goes on.
const (
	EndDone        = "done"
	EndProvider    = "provider"
	EndBound       = "bound"
	EndInterrupted = "interrupted"
	EndFatal       = "fatal"
)

// end notes how the run ended. The store takes it along with its last writes.
func (rec *recorder) end(r *run, now time.Time, err error) {
	sum := rec.Last()
	sum.End = EndDone
	stop := r.sched.stop
	if stop == nil {
		stop = r.sched.stays
	}
	if stop != nil {
		sum.End = [...]string{StopProvider: EndProvider, StopBound: EndBound, StopInterrupted: EndInterrupted, StopFatal: EndFatal}[stop.Kind]
		sum.Reason = stop.Reason
	}
	if err != nil {
		sum.End, sum.Reason = EndFatal, err.Error()
	}
	if sum.End != EndDone || !sum.Empty() { // else there was nothing to do
		rec.keep(r, now)
	}
}

// few is the series for the snapshot. It is made anew as often as a hundredth of the
// run so far, and each ten seconds at the least: a long run changes slowly.
func (rec *recorder) few(now time.Time) json.RawMessage {
	sum := rec.Last()
	if rec.live != nil && now.Sub(rec.made) < min(10*time.Second, now.Sub(time.UnixMilli(sum.From))/100) {
		return rec.live
	}
	b, err := json.Marshal(rec.Few(livePoints))
	if err != nil {
		return nil
	}
	rec.live, rec.made = b, now
	return b
}
