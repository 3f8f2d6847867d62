package route

import (
	"slices"
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// Route is where the operations of a task may go.
type Route struct {
	Task    string
	Targets []Target // the primary, then the fallbacks, then the smaller model if there is one
	When    []Set    // by target, the conditions under which it takes over; the primary has none
	Degrade int      // the smaller model's index in Targets; -1 = none
	// DegradeAt is the level that names the task among smaller_model; None =
	// no level does, and the smaller model takes over from Moderate on.
	DegradeAt Level
	Policy    retry.Policy
}

// State is what hinders a target now. The zero value is a target that is ready.
type State struct {
	Waits    bool          // its limit group admits nothing now: the operation would wait
	Open     bool          // its breaker lets nothing through
	Halted   provider.Kind // the class for which it is parked or stopped; KindNone = it is not
	TooLong  bool          // the operation is known not to fit its window
	Unusable bool          // see Target.Usable; or its key is missing
	Unfit    bool          // it has no way to carry the operation's request
}

// Tried is a set of indexes of Targets. The zero value is empty.
type Tried uint64

// With adds an index.
func (t Tried) With(i int) Tried { return t | 1<<i }

// Has reports that an index is in the set.
func (t Tried) Has(i int) bool { return t&(1<<i) != 0 }

// Ask is one operation that looks for a target.
type Ask struct {
	Met    Set     // Conditions of its failures so far; BatchLowPriority if it has low priority
	Tried  Tried   // targets that it has left because of them
	Level  Level   // of pressure
	States []State // by target
}

// conditions are those that a state meets; the operation finds them without a call.
func (s State) conditions() Set {
	var met Set
	if s.Waits {
		met |= SetOf(RateLimited)
	}
	if s.Open {
		met |= SetOf(CircuitOpen, PrimaryUnavailable)
	}
	if s.Halted != provider.KindNone {
		met |= kindConditions(s.Halted) | SetOf(PrimaryUnavailable)
	}
	if s.TooLong {
		met |= SetOf(ContextLengthNeeded)
	}
	if s.Unusable || s.Unfit {
		met |= SetOf(PrimaryUnavailable)
	}
	return met
}

// Next decides which target takes an operation. The primary does if nothing
// hinders it and the operation has not left it; else the first fallback of
// which a condition is met, by a failure of the operation or by the state of a
// target before it in the list. A fallback whose limit group is exhausted is
// skipped. Where the chosen ones would only make the operation wait, the first of
// them has it. Under pressure the smaller model comes first; without, it is the
// last fallback. Without ok nothing may take the operation now; reason says why,
// and else what made it leave the primary.
func (r *Route) Next(a Ask) (index int, reason string, ok bool) {
	states := r.shared(a.States)
	if r.pressed(a) && !a.Tried.Has(r.Degrade) && states[r.Degrade].conditions() == 0 {
		return r.Degrade, a.Level.String() + " pressure", true
	}
	met, waiting, why := a.Met, -1, ""
	var hindered []string
	for i, s := range states {
		name := r.Targets[i].String()
		cause, eligible := r.cause(i, met, a)
		switch blocks := s.conditions(); {
		case !eligible:
			hindered = append(hindered, name+" takes over only on "+cause)
		case a.Tried.Has(i):
			hindered = append(hindered, name+" has failed")
		case blocks == 0:
			return i, cause, true
		default:
			if blocks == SetOf(RateLimited) && waiting < 0 {
				waiting, why = i, cause
			}
			hindered = append(hindered, name+" "+s.why())
			met |= blocks
		}
	}
	switch {
	case waiting == 0:
		return 0, r.Targets[0].String() + " " + State{Waits: true}.why(), true
	case waiting > 0:
		return waiting, why, true
	}
	return -1, strings.Join(hindered, "; "), false
}

// shared gives each target what hinders its limit group: calls to another
// target of the group would be refused for the same limit.
func (r *Route) shared(states []State) []State {
	groups := map[string]State{}
	for i, s := range states {
		g := groups[r.Targets[i].Group]
		g.Waits = g.Waits || s.Waits
		if kindConditions(s.Halted)&SetOf(RateLimited, SpendExhausted) != 0 {
			g.Halted = s.Halted
		}
		groups[r.Targets[i].Group] = g
	}
	all := slices.Clone(states)
	for i := range all {
		g := groups[r.Targets[i].Group]
		all[i].Waits = all[i].Waits || g.Waits
		if all[i].Halted == provider.KindNone {
			all[i].Halted = g.Halted
		}
	}
	return all
}

// pressed reports that the smaller model comes first.
func (r *Route) pressed(a Ask) bool {
	if r.Degrade < 0 {
		return false
	}
	at := r.DegradeAt
	if at == None {
		at = Moderate
	}
	when := r.When[r.Degrade]
	return a.Level >= at && (when == 0 || when&a.Met != 0)
}

// cause says which conditions of a target are met, or, where none is, which it
// waits for. Low priority alone sends nothing to the smaller model: that takes
// pressure, too.
func (r *Route) cause(i int, met Set, a Ask) (cause string, eligible bool) {
	switch {
	case i == 0:
		return "", true
	case i == r.Degrade && r.pressed(a):
		return a.Level.String() + " pressure", true
	case i == r.Degrade:
		met &^= SetOf(BatchLowPriority)
	}
	switch matched := r.When[i] & met; {
	case matched != 0:
		return matched.String(), true
	case r.When[i] == 0:
		return "pressure", false
	default:
		return r.When[i].String(), false
	}
}

// why says in words what hinders a target.
func (s State) why() string {
	switch {
	case s.Unusable:
		return "cannot be used"
	case s.Unfit:
		return "cannot carry the request"
	case s.Halted != provider.KindNone:
		return "is halted (" + s.Halted.String() + ")"
	case s.Open:
		return "has an open circuit"
	case s.TooLong:
		return "has too small a window"
	default:
		return "waits for its limit"
	}
}
