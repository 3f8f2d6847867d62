package runner

import (
	"fmt"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/queue"
	"github.com/llmbatch/llmbatch/runner/route"
)

// Routes say which targets the operations of a task may go to.
type Routes struct {
	// Resolve gives the route of a line's task; an error ends the line.
	Resolve func(task string) (*Route, error)
	Text    string // what of it changes requests, for the comparison with earlier runs
}

// Route is a task's route and where its targets are.
type Route struct {
	route.Route
	Lanes []int // of each of its targets, the index in Config.Targets
}

// way is where on its route a job is.
type way struct {
	*Route
	at    int // index of the present target
	met   route.Set
	tried route.Tried
}

// choice says that the job could go elsewhere.
func (w *way) choice() bool { return w.Route != nil && len(w.Targets) > 1 }

// setOut puts a job at the start of its route, with the model that the route
// asks for in place of the line's.
func (c *Config) setOut(j *job) error {
	if c.Routes == nil {
		return nil
	}
	r, err := c.Routes.Resolve(j.rec.Task)
	if err != nil {
		return err
	}
	j.way = atStart(r, j.rec.Priority)
	return c.steer(j, 0)
}

// atStart is a way of which nothing is gone yet.
func atStart(r *Route, p input.Priority) way {
	w := way{Route: r}
	if p == input.Low {
		w.met = route.SetOf(route.BatchLowPriority)
	}
	return w
}

// steer points a job at a target of its route.
func (c *Config) steer(j *job, at int) error {
	t := &c.Targets[j.way.Lanes[at]]
	if t.Model != "" && t.Model != j.rec.Model {
		body, err := input.ReplaceModel(j.rec.Body, t.Model)
		if err != nil {
			return fmt.Errorf("line %d: %w", j.rec.Line, err)
		}
		j.rec.Body, j.rec.Model = body, t.Model
	}
	j.way.at, j.lane = at, j.way.Lanes[at]
	return nil
}

// resume points a job of unknown outcome at the target that its last attempt
// went to: that one may have been paid. If the route no longer has it, the job
// stays where it is.
func (s *scheduler) resume(j *job) {
	n := len(j.op.Attempts)
	if n == 0 || !j.way.choice() {
		return
	}
	last := &j.op.Attempts[n-1]
	for i, at := range j.way.Lanes {
		l := s.lanes[at]
		if l.Provider == last.Provider && (l.Model == "" || l.Model == last.Model) && s.steer(j, i) == nil {
			return
		}
	}
}

// place moves a job to the target that its route says takes it now, and tells
// whether any does. moved tells that it is another one than before.
func (s *scheduler) place(now time.Time, j *job) (moved, ok bool) {
	if !j.way.choice() {
		return false, s.lane(j).down == nil
	}
	ask := route.Ask{Met: j.way.met, Tried: j.way.tried, States: make([]route.State, len(j.way.Lanes))}
	for i, n := range j.way.Lanes {
		ask.States[i] = s.lanes[n].state(now, j)
	}
	at, reason, ok := j.way.Next(ask)
	if !ok || at == j.way.at {
		return false, ok && s.lane(j).down == nil
	}
	from := s.lane(j)
	if err := s.steer(j, at); err != nil {
		return false, false // the body has no model to replace: it stays where it is
	}
	j.state.Attempts, j.state.Backoff = 0, 0
	s.count.Fallbacks[fallback{from.name(), s.lane(j).name(), reason}]++
	return true, true
}

// fallback is a kind of move from one target to another.
type fallback struct{ From, To, Reason string }

func (t *Target) name() string {
	if t.Model == "" {
		return t.Provider
	}
	return t.Provider + "/" + t.Model
}

// state is what hinders the lane from taking a job now.
func (l *lane) state(now time.Time, j *job) route.State {
	s := route.State{Unusable: l.Client == nil, Open: now.Before(l.paused) || l.breaker.State(now) == route.Open}
	if l.down != nil {
		s.Halted, _ = provider.ParseKind(l.down.Class)
	}
	need := int64(j.tokens.Prompt + j.tokens.MaxOutput)
	s.TooLong = l.Context > 0 && need > l.Context
	switch w := l.limiter.Peek(now, l.chargeOf(j, int64(j.tokens.MaxOutput))); w.Reason {
	case limit.Granted, limit.AtCeiling, limit.AtSpread:
	default:
		s.Waits = true
	}
	return s
}

// spill sends a job that would wait for its lane's limiter to a target that
// takes over in that case. It tells whether one went.
func (s *scheduler) spill(now time.Time, l *lane) bool {
	if len(s.lanes) == 1 {
		return false
	}
	j, ok := l.ready.Pop(queue.Any())
	if !ok {
		return false
	}
	from := s.lanes[j.lane]
	if moved, ok := s.place(now, j); moved && ok {
		s.lane(j).enqueue(j)
		return true
	}
	from.back(j)
	return false
}

// clear takes everything from a lane that is down: what may go elsewhere does,
// the rest stays pending.
func (s *scheduler) clear(now time.Time, l *lane) {
	for _, j := range append(l.ready.Drain(), l.delayed.Drain()...) {
		if moved, ok := s.place(now, j); moved && ok {
			s.lane(j).enqueue(j)
			continue
		}
		s.strand(j)
	}
}

// strand leaves a job pending: nothing can take it in this run.
func (s *scheduler) strand(j *job) {
	s.size -= len(j.rec.Body)
	s.stranded++
}

// RouteText lists a route's targets, for the comparison with earlier runs.
func RouteText(r *Route, targets []Target) string {
	var b strings.Builder
	for i, n := range r.Lanes {
		fmt.Fprintf(&b, "%s %s %s when %s; ", targets[n].Provider, targets[n].Model, targets[n].BaseURL, r.When[i])
	}
	return b.String()
}
