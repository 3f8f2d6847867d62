package runner

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/route"
)

// StopKind says what ended a run before everything was done.
type StopKind uint8

// The kinds of stops.
const (
	StopProvider    StopKind = iota // auth, spend, no quota, wrong model, unreachable
	StopBound                       // cost, deadline, daily limit, too long a wait
	StopInterrupted                 // a signal
	StopFatal                       // a failure of the run's own files
)

// Stop is why a run ended before everything was done.
type Stop struct {
	Kind   StopKind
	Class  string // of the provider's error; "" = none
	Reason string
	Hint   string
	Until  time.Time // when to come back; zero = not known
}

// Class is what a summary says of one class of dead letters.
type Class struct {
	Name    string `json:"class"`
	Count   int64  `json:"count"`
	Line    int    `json:"line,omitempty"`    // of the first of this run
	Example string `json:"example,omitempty"` // its message, without the line
}

// Summary is how a run ended. Operations is the sum of Completed, Failed,
// Pending, Unknown and Skipped, which count all runs; the other figures are
// this run's alone.
type Summary struct {
	Operations int64 `json:"operations"`
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed"`
	Pending    int64 `json:"pending"`
	Unknown    int64 `json:"unknown"`
	Skipped    int64 `json:"skipped"`

	Calls          int64   `json:"calls"`
	Retries        int64   `json:"retries"`
	RateLimited    int64   `json:"rate_limited"`
	TokensReserved int64   `json:"tokens_reserved"`
	TokensUsed     int64   `json:"tokens_used"`
	Seconds        float64 `json:"seconds"`
	Exit           int     `json:"exit"`

	Unreached      int64    `json:"unreached"` // attempts that found no connection: nothing was sent, so they are none of Calls
	CompletedNow   int64    `json:"completed_now"`
	Truncated      int64    `json:"truncated"`
	Refused        int64    `json:"refused"`
	Suppressed     int64    `json:"duplicates_suppressed"`
	LookedUp       int64    `json:"looked_up"`             // operations whose answer was lost, and fetched by its id
	CacheHits      int64    `json:"cache_hits"`            // operations served by a kept answer, without a call
	PossiblyTwice  int64    `json:"possibly_billed_twice"` // calls whose outcome was unknown
	TwiceBefore    int64    `json:"-"`                     // other such calls, of earlier runs: of operations that have ended, as a rule
	SentAgain      bool     `json:"-"`                     // an operation of such a call was sent once more
	UnknownOps     []string `json:"unknown_operations,omitempty"`
	OpsBefore      []string `json:"-"` // those of TwiceBefore
	Classes        []Class  `json:"classes,omitempty"`
	RequestsMinute float64  `json:"requests_per_minute"` // from the first call to the last one's end
	TokensMinute   float64  `json:"tokens_per_minute"`
	PeakRequests   int64    `json:"peak_minute_requests"` // the most that any rolling minute held
	PeakTokens     int64    `json:"peak_minute_tokens"`   // as they are charged against limits
	Limits         []Use    `json:"limits,omitempty"`
	Bounds         []Bound  `json:"bound,omitempty"` // what held the run back, the longest first

	Degraded   int64            `json:"degraded"` // results that gave something up under pressure
	DegradedBy map[string]int64 `json:"degraded_by,omitempty"`
	Pressure   []AtLevel        `json:"pressure,omitempty"`
	HeldBack   int64            `json:"held_back"` // of Pending, those that wait for less pressure

	Fallbacks      []Fallback `json:"fallbacks,omitempty"` // the most frequent first
	Charged        []Charged  `json:"charged,omitempty"`   // what headers showed of the accounting
	UncappedCalls  int64      `json:"uncapped_calls"`
	ReservedOutput int64      `json:"reserved_output"` // for calls without a cap
	LearnedOutput  bool       `json:"reserved_output_learned"`
	Cost           string     `json:"cost,omitempty"`
	Files          Paths      `json:"files"`
	Stop           *Stop      `json:"-"`
	StopReason     string     `json:"stop_reason,omitempty"`
}

// Fallback is how often operations moved from one target to another.
type Fallback struct {
	From   string `json:"from"` // provider/model
	To     string `json:"to"`
	Reason string `json:"reason"` // the conditions that were met, as the config file names them
	Count  int64  `json:"count"`
}

// AtLevel is how long a run was at a level of pressure above none.
type AtLevel struct {
	Level   string  `json:"level"`
	Seconds float64 `json:"seconds"`
}

// Use is a limit that was in force.
type Use struct {
	Target  string `json:"target,omitempty"` // where there are several, the first of its group
	Name    string `json:"limit"`            // rpm, tpm …
	N       int64  `json:"n"`
	Learned bool   `json:"learned"` // the server's, not the user's
}

// summary adds up what the plan found and what the scheduler counted.
func (r *run) summary() *Summary {
	p, c := r.plan, &r.sched.count
	s := &Summary{
		Operations: int64(r.index.Len()), Skipped: int64(p.skipped),
		Completed: int64(p.done) + c.Completed, Failed: int64(p.dead) + c.Failed, Unknown: int64(p.held) + c.Held,
		Calls: c.Calls, Retries: c.Retries, Unreached: c.Unreached, RateLimited: c.RateLimited,
		TokensReserved: c.TokensReserved, TokensUsed: c.TokensUsed, Seconds: time.Since(r.started).Seconds(),
		CompletedNow: c.Completed, Truncated: c.Truncated, Refused: c.Refused, Suppressed: c.Suppressed, CacheHits: c.CacheHits, LookedUp: c.Found,
		PossiblyTwice: int64(p.unknowns) + c.Unknowns - c.Resolved, SentAgain: p.sentAgain || c.SentAgain, Files: r.Paths, Stop: r.sched.stop, UncappedCalls: c.Uncapped, Fallbacks: r.fallbacks(),
	}
	s.Degraded, s.DegradedBy, s.HeldBack = c.Degraded, maps.Clone(c.DegradedBy), int64(r.sched.heldBack())
	for level := route.Light; level <= route.Severe; level++ {
		if spent := r.sched.press.spent[level]; spent > 0 {
			s.Pressure = append(s.Pressure, AtLevel{level.String(), spent.Seconds()})
		}
	}
	s.ReservedOutput, s.LearnedOutput = r.sched.reserved()
	if s.Stop == nil && r.sched.idle() {
		s.Stop = r.sched.stays
	}
	if s.Stop != nil {
		s.Unknown += int64(r.sched.unsettled)
	}
	s.Pending = s.Operations - s.Completed - s.Failed - s.Unknown - s.Skipped
	s.UnknownOps = slices.Clone(p.unknown)
	for _, id := range c.Unknown {
		if !slices.Contains(p.unknown, id) {
			s.UnknownOps = append(s.UnknownOps, id)
		}
	}
	s.UnknownOps = slices.DeleteFunc(s.UnknownOps, func(id string) bool { return c.Cleared[id] })
	s.UnknownOps = s.UnknownOps[:min(len(s.UnknownOps), maxListed)]
	s.TwiceBefore, s.OpsBefore = int64(p.before), p.doubted
	s.Classes = r.classes()
	if s.Stop != nil {
		s.StopReason = s.Stop.Reason
	}
	if r.priced() {
		s.Cost = (r.sched.money.spent - p.spent).String()
	}
	if minutes := c.LastDone.Sub(c.FirstSent).Minutes(); minutes > 0 {
		s.RequestsMinute = float64(c.Calls) / minutes
		s.TokensMinute = float64(c.TokensReserved) / minutes
	}
	s.PeakRequests, s.PeakTokens = c.PeakRequests, c.PeakTokens
	s.Limits, s.Bounds = r.uses(), boundsOf(r.record.Last().Bound)
	s.Charged = r.charged()
	return s
}

func (r *run) classes() []Class {
	byName := map[string]*Class{}
	for name, n := range r.plan.classes {
		byName[name] = &Class{Name: name, Count: int64(n)}
	}
	for name, c := range r.sched.count.Classes {
		have := byName[name]
		if have == nil {
			have = &Class{Name: name}
			byName[name] = have
		}
		have.Count += c.N
		have.Line, have.Example = c.Line, c.Example
	}
	var all []Class
	for _, c := range byName {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Class) int {
		if a.Count != b.Count {
			return int(min(1, max(-1, b.Count-a.Count)))
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

// uses lists the limits that were in force, each group's once.
func (r *run) uses() []Use {
	var all []Use
	seen := map[*limit.Limiter]bool{}
	for _, l := range r.sched.lanes {
		if seen[l.limiter] {
			continue
		}
		seen[l.limiter] = true
		for _, u := range l.limiter.State(time.Now()).Uses {
			if u.Limit > 0 {
				all = append(all, Use{Name: u.Name, N: u.Limit, Learned: u.Learned})
				if len(r.sched.limits) > 1 {
					all[len(all)-1].Target = l.name()
				}
			}
		}
	}
	return all
}

func (r *run) fallbacks() (all []Fallback) {
	for f, n := range r.sched.count.Fallbacks {
		all = append(all, Fallback{f.From, f.To, f.Reason, n})
	}
	slices.SortFunc(all, func(a, b Fallback) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// reserved is what a call without an output cap reserves, on the target that
// has answered most, and whether that was learned.
func (s *scheduler) reserved() (output int64, learned bool) {
	most := s.lanes[0]
	for _, l := range s.lanes {
		if l.outputs.n > most.outputs.n {
			most = l
		}
	}
	return most.outputs.p99(), most.outputs.n >= 20
}
