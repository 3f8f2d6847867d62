package runner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
)

// variant is the batch of a dry run under one set of settings. Variants may be
// simulated side by side.
type variant struct {
	*dryRun
	change    string // what is unlike the run that is asked about
	limits    func(limit.Limits) limit.Limits
	learned   bool
	divide    int32 // output caps are divided by it
	elsewhere int   // the one target that takes everything; -1 = as routes say

	sums     []limit.Cost  // what each limit group is asked for, by its first target
	heaviest int64         // of the operations, in charged tokens
	took     time.Duration // the makespan, once it is simulated
}

// asIs is the batch under the settings that the user gave.
func (d *dryRun) asIs() *variant {
	return &variant{dryRun: d, limits: func(l limit.Limits) limit.Limits { return l }, learned: d.Learned, divide: 1, elsewhere: -1}
}

// fill makes j the job of an operation as the scheduler takes it.
func (v *variant) fill(j *job, o *light) {
	*j = job{tokens: estimate.Tokens{Prompt: int(o.prompt), Chars: int(o.chars), MaxOutput: int((o.output + v.divide - 1) / v.divide)}}
	j.rec.Priority = o.priority
	if o.noOutput {
		j.rec.API = "/embeddings"
	}
	switch {
	case v.elsewhere >= 0:
		j.lane = v.elsewhere
	case o.way > 0:
		w := &v.ways[o.way-1]
		if j.lane = w.lane; w.route != nil {
			j.way = atStart(w.route, o.priority)
			j.way.model = w.model
		}
	}
}

// scheduler is the run's own, under the variant's settings, with a part of its
// limits.
func (v *variant) scheduler(parts int64) *scheduler {
	c := *v.Config
	c.Learned, c.MaxCost = v.learned, 0
	c.Targets = slices.Clone(c.Targets)
	for i := range c.Targets {
		t := &c.Targets[i]
		t.Limits, t.Client = part(v.limits(t.Limits), parts), nobody{}
	}
	// A run stops at a long wait and is started again; the time goes on.
	c.Policy.MaxWait = 1 << 62
	s := newScheduler(&c, v.plan, v.started)
	s.steer = func(j *job, at int) error {
		j.way.at, j.lane = at, s.laneAt(j, at)
		return nil
	}
	return s
}

// nobody stands for a target that could be used; a dry run asks none.
type nobody struct{}

func (nobody) Do(context.Context, provider.Request) (*provider.Response, error) {
	return nil, errors.New("a dry run sends nothing")
}

// smallScale is how many operations a simulation on a smaller scale has.
const smallScale = 50_000

// parts is by how much a large batch and its limits can be divided for a
// simulation that takes about as long in virtual time. Each limit keeps room
// for a hundred operations, and for ten of the heaviest; 1 = not at all.
func (v *variant) parts() int64 {
	if len(v.plan.seeds) > 0 {
		return 1 // they fill the windows whole
	}
	parts := int64(len(v.ops) / smallScale)
	room := func(n, each int64) {
		if n > 0 {
			parts = min(parts, n/max(each, 1))
		}
	}
	for i, sum := range v.total() {
		if sum.Requests == 0 {
			continue
		}
		l := v.limits(v.Targets[i].Limits)
		tokens := max((sum.Tokens+sum.Output)/sum.Requests*100, 10*v.heaviest)
		for _, n := range []int64{l.TPM.N, l.ITPM.N, l.OTPM.N, l.TPD.N} {
			room(n, tokens)
		}
		room(l.RPM.N, 100)
		room(l.RPD.N, 100)
		room(l.Burst, 100)
		room(int64(l.Concurrency), 100)
	}
	return max(parts, 1)
}

// part is a share of limits, rounded.
func part(l limit.Limits, parts int64) limit.Limits {
	if parts == 1 {
		return l
	}
	share := func(n int64) int64 { return (n + parts/2) / parts }
	for _, c := range []*limit.Cap{&l.RPM, &l.TPM, &l.ITPM, &l.OTPM, &l.RPD, &l.TPD} {
		c.N = share(c.N)
	}
	if l.Concurrency == 0 {
		l.Concurrency = limit.DefaultCeiling
	}
	l.Burst, l.Concurrency = share(l.Burst), int(max(share(int64(l.Concurrency)), 1))
	return l
}

// makespan drives the scheduler through the batch in virtual time and returns
// the time from the start to the last answer. With several parts it is that of
// every so many operations under that part of the limits.
func (v *variant) makespan(parts int64) time.Duration {
	s := v.scheduler(parts)
	now, last := v.started, v.started
	rest := queued{ops: v.ops, step: int(parts)}
	var flight fifo
	var spare []*job
	for {
		for s.wants() {
			o := rest.next()
			if o == nil {
				break
			}
			var j *job
			if n := len(spare); n > 0 {
				j, spare = spare[n-1], spare[:n-1]
			} else {
				j = new(job)
			}
			v.fill(j, o)
			s.push(now, j)
		}
		j, wake := s.next(now)
		if j != nil {
			s.sent(now, j)
			flight.push(landing{now.Add(v.assume.Latency), j})
			continue
		}
		if at, ok := flight.next(); ok {
			wake = earliest(wake, at)
		}
		if wake.IsZero() {
			return last.Sub(v.started)
		}
		if wake.After(now) {
			now = wake
		}
		for flight.due(now) {
			l := flight.pop()
			last = l.at
			v.land(s, l)
			spare = append(spare, l.job)
		}
	}
}

// queued gives every step-th operation in the order in which a run feeds them.
type queued struct {
	ops         []light
	step        int
	turn, place int
}

// next is nil after the last.
func (q *queued) next() *light {
	for turn := [...]input.Priority{input.High, input.Normal, input.Low}; q.turn < len(turn); q.turn, q.place = q.turn+1, 0 {
		for q.place < len(q.ops) {
			o := &q.ops[q.place]
			if q.place += q.step; o.priority == turn[q.turn] {
				return o
			}
		}
	}
	return nil
}

// land is the answer of a simulated call.
func (v *variant) land(s *scheduler, l landing) {
	s.answered(l.at, l.job, &provider.Response{
		Usage: v.usage(l.job), Rate: provider.NoRate(), SentAt: l.at.Add(-v.assume.Latency), Done: l.at,
	})
	s.stored(l.job, verdict{status: checkpoint.Completed})
}

// usage is what a simulated answer says: the output that is assumed, within
// the cap, or all that is reserved.
func (v *variant) usage(j *job) provider.Usage {
	u := provider.Usage{Input: int64(j.tokens.Prompt), Output: int64(j.tokens.MaxOutput), Known: true}
	switch {
	case noOutput(j.rec.API):
		u.Output = 0
	case v.assume.Output > 0 && (u.Output == 0 || v.assume.Output < u.Output):
		u.Output = v.assume.Output
	case u.Output == 0:
		u.Output = j.reserved
	}
	return u
}

// landing is a call that is answered at a moment.
type landing struct {
	at  time.Time
	job *job
}

// fifo holds the calls in flight: all take equally long, so they land in the
// order in which they left.
type fifo struct {
	calls []landing
	head  int
}

func (f *fifo) push(l landing) {
	if f.head > 1024 && f.head*2 > len(f.calls) {
		f.calls = append(f.calls[:0], f.calls[f.head:]...)
		f.head = 0
	}
	f.calls = append(f.calls, l)
}

func (f *fifo) next() (time.Time, bool) {
	if f.head == len(f.calls) {
		return time.Time{}, false
	}
	return f.calls[f.head].at, true
}

func (f *fifo) due(now time.Time) bool {
	at, ok := f.next()
	return ok && !at.After(now)
}

func (f *fifo) pop() landing {
	l := f.calls[f.head]
	f.calls[f.head] = landing{}
	f.head++
	return l
}
