package runner

import (
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/route"
)

// Transition is what happened to an operation. Its String is the name used in
// logs.
type Transition uint8

// The transitions, in the order in which an operation can meet them.
const (
	Queued       Transition = iota // waits for its turn; At is when it may go
	Left                           // leaves the queue unsent: nothing takes it in this run
	Granted                        // leaves the queue for the wire
	Sent                           // bytes of its request left; once for each call
	Retried                        // they were not its first; Class, Provider and Model are of the attempt before
	Answered                       // a whole answer came
	Failed                         // none came
	Refused                        // because of a limit; follows Failed
	FellBack                       // goes to another target from now on
	Completed                      // its result is durable
	DeadLettered                   // its failure is durable
	Held                           // its outcome is unknown, and it is not sent again
	Suppressed                     // served by the answer to an identical request
	CacheHit                       // served by an answer that an earlier run kept
	Fixed                          // leaves the queue for the fixed answer, without a call
	LookedUp                       // its lost answer was asked for; Reason is what was found: found, running, ended, gone, failed
	Measured                       // no operation's: how much of a limit is used
	Pressed                        // no operation's: another level of pressure
	transitions                    // their number
)

var transitionNames = [transitions]string{
	"queued", "left", "granted", "sent", "retried", "answered", "failed", "refused", "fell_back", "completed", "dead_letter", "held",
	"suppressed", "cache_hit", "fixed_answer", "looked_up", "measured", "pressure",
}

// String gives the transition's name.
func (t Transition) String() string {
	if t >= transitions {
		return "unknown"
	}
	return transitionNames[t]
}

// Event is one transition. It holds no text of a prompt or an answer, nor of a
// server but its request ID, which is cleaned. What a transition does not have
// is zero.
type Event struct {
	What Transition
	At   time.Time

	// Which operation. Attempt counts from 1, and is 0 before the first.
	Op             string
	Line, Attempt  int
	Task           string // as the line says
	Priority       input.Priority
	Provider       string // of the target
	Model          string // as it is asked for; of Measured "" = any
	Reserved, Used int64  // tokens; of Measured, what counts against the limit
	Output         int64  // tokens: of Granted and Sent those that are reserved, of Answered those that came
	Wait           time.Duration
	Latency        time.Duration // from the writing of the request
	Cost           money.Amount  // what the call took from the bound

	// Of failures. Class is the name of a provider.Kind or of one of the
	// runner's own classes.
	Class      string
	StatusCode int // 0 = no status came
	RequestID  string
	Unsent     bool // no byte left
	Unknown    bool // perhaps billed

	// Of Refused, what limit: "requests", "tokens" and so on (see
	// provider.Error), or the class where nothing more is known. Of Measured, the
	// name of its flag, and how much it is.
	Limit string
	Max   int64 // 0 = not known

	// Of FellBack: where from and why, a route.Condition's name or "pressure"; Provider and Model are where to.
	FromProvider, FromModel, Reason string // Reason also of Pressed, in words

	Level    route.Level // of Pressed
	Degraded []string    // of Completed, what it gave up: max_tokens:256, trim:context:8000, smaller_model, cached_answer, fixed_answer
}

// tell completes an event of a job and hands it to whoever observes the run.
func (s *scheduler) tell(at time.Time, j *job, e Event) {
	if s.watch == nil {
		return
	}
	e.At, e.Op, e.Line, e.Attempt, e.Task, e.Priority = at, j.op.ID, j.rec.Line, j.attempt, j.rec.Task, j.rec.Priority
	if e.Provider == "" {
		e.Provider, e.Model = s.lane(j).Provider, j.rec.Model
	}
	s.watch(e)
}

// tellGrant tells of a call that is about to be made.
func (s *scheduler) tellGrant(now time.Time, j *job) {
	if s.watch == nil {
		return
	}
	s.tell(now, j, Event{What: Granted, Reserved: j.cost.Tokens + j.cost.Output, Output: j.reserved, Wait: max(0, now.Sub(j.due))})
	if n := len(j.op.Attempts); n > 0 {
		last := &j.op.Attempts[n-1]
		j.before.provider, j.before.model, j.before.class = last.Provider, last.Model, last.Class
	}
}

// tellSent tells that bytes of a call left, be it by its end that this is known: of
// one that is cut off while it is written, and of one that no client tells of.
func (s *scheduler) tellSent(at time.Time, j *job) {
	if s.watch == nil || j.went {
		return
	}
	j.went = true
	s.tell(at, j, Event{What: Sent, Reserved: j.cost.Tokens + j.cost.Output, Output: j.reserved})
	if j.again {
		s.tell(at, j, Event{What: Retried, Provider: j.before.provider, Model: j.before.model, Class: j.before.class})
	}
}

// tellFailure tells of a call without an answer, and of the limit that refused
// it, if one did.
func (s *scheduler) tellFailure(now time.Time, j *job, err *provider.Error, cost money.Amount) {
	if s.watch == nil {
		return
	}
	e := Event{
		What: Failed, Class: err.Kind.String(), StatusCode: err.StatusCode, RequestID: err.RequestID, Unsent: !err.Sent, Unknown: err.Unknown(), Cost: cost,
	}
	if !err.SentAt.IsZero() {
		e.Latency = now.Sub(err.SentAt)
	}
	s.tell(now, j, e)
	switch outcomes[err.Kind] {
	case limit.RateLimit, limit.SlowDown, limit.Day:
		name := err.LimitType
		if name == "" {
			name = err.Kind.String()
		}
		s.tell(now, j, Event{What: Refused, Limit: name})
	default: // no limit on a rate
	}
}

// tellStored tells what became durable of a job.
func (s *scheduler) tellStored(now time.Time, j *job, v verdict) {
	if s.watch == nil || v.again {
		return
	}
	switch j.op.Status {
	case checkpoint.Completed:
		s.tell(now, j, Event{What: Completed, Degraded: j.op.Degraded})
	case checkpoint.DeadLetter:
		s.tell(now, j, Event{What: DeadLettered, Class: j.op.Class})
	case checkpoint.Unknown:
		s.tell(now, j, Event{What: Held})
	default: // pending
	}
}

// reasonName reduces why a job goes elsewhere to one name out of few: of several
// conditions the first. Without a condition, all wait, and the job goes to the
// first that does.
func reasonName(reason string) string {
	first, _, _ := strings.Cut(reason, ", ")
	if _, ok := route.ParseCondition(first); ok {
		return first
	}
	if strings.HasSuffix(reason, " pressure") {
		return "pressure"
	}
	return route.RateLimited.String()
}

// measure tells how the limits stand: once for each limiter, under the name of
// its first target.
func (s *scheduler) measure(now time.Time) {
	if s.watch == nil {
		return
	}
	told := map[*limit.Limiter]bool{}
	for _, l := range s.lanes {
		if told[l.limiter] {
			continue
		}
		told[l.limiter] = true
		e := Event{What: Measured, At: now, Provider: l.Provider, Model: l.Model}
		st := l.limiter.State(now)
		for _, u := range st.Uses {
			if e.Limit, e.Used, e.Max = u.Name, u.Used, u.Limit; u.Limit == 0 {
				e.Max = int64(u.Pace)
			}
			s.watch(e)
		}
		e.Limit, e.Used, e.Max = "concurrency", int64(st.Wire), int64(st.Ceiling)
		s.watch(e)
	}
}
