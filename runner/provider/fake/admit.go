package fake

import "time"

// The limits in the order in which a refusal prefers them when they are equally long.
const (
	limRequests = iota
	limTokens
	limRequestsDay
	limTokensDay
	numLimits
)

// limitNames are the keys of Stats.Refused; "concurrency", "too_large" and "quota" are the others.
var limitNames = [numLimits]string{"requests", "tokens", "requests_day", "tokens_day"}

// A gate is one limit with its window.
type gate struct {
	limit int64
	win   window // nil = no such limit
}

// refusal says which limit refused a call.
type refusal struct {
	name     string // as in Stats.Refused
	index    int    // of the limit; -1 for concurrency
	limit    int64
	used     int64
	asked    int64
	wait     time.Duration // until the call would fit
	tooLarge bool          // it never will
}

// admission owns the limits. Not safe for concurrent use.
type admission struct {
	gates    [numLimits]gate
	inFlight int
	ceiling  int
	counting bool // refused calls use up the request limit
}

func newAdmission(c *Config, now int64) admission {
	length, day := int64(c.WindowLength), int64(c.Day)
	make1 := func(limit, capacity int) gate {
		n := int64(limit)
		if n == 0 {
			return gate{}
		}
		switch c.Window {
		case Fixed:
			return gate{n, &fixed{limit: n, length: length, phase: int64(c.Phase), atFirst: c.FixedAtFirst}}
		case Sliding:
			return gate{n, &sliding{limit: n, log: rolling{length: length}}}
		case Slices:
			return gate{n, newSlices(n, length, int64(c.Slice), now)}
		default:
			return gate{n, newBucket(n, int64(capacity), length, now)}
		}
	}
	daily := func(limit int) gate {
		if limit == 0 {
			return gate{}
		}
		return gate{int64(limit), &fixed{limit: int64(limit), length: day}}
	}
	return admission{
		gates:    [numLimits]gate{make1(c.RPM, c.Burst), make1(c.TPM, c.TPM), daily(c.RPD), daily(c.TPD)},
		ceiling:  c.Concurrency,
		counting: c.CountRefused,
	}
}

// cost is what one call takes of limit i.
func cost(i int, charge int64) int64 {
	if i == limRequests || i == limRequestsDay {
		return 1
	}
	return charge
}

// ask admits a call with its charge, taking of all limits or of none, or says which limit refused it: the one that
// takes longest to have room, so that a hint taken from it is true.
func (a *admission) ask(now, charge int64) *refusal {
	var no *refusal
	for i, g := range a.gates {
		if g.win == nil {
			continue
		}
		n := cost(i, charge)
		if n > g.limit {
			no = &refusal{name: "too_large", index: i, limit: g.limit, asked: n, tooLarge: true}
			break
		}
		if w := time.Duration(g.win.wait(now, n)); w > 0 && (no == nil || w > no.wait) {
			no = &refusal{name: limitNames[i], index: i, limit: g.limit, used: g.limit - g.win.left(now), asked: n, wait: w}
		}
	}
	if no == nil && a.ceiling > 0 && a.inFlight >= a.ceiling {
		no = &refusal{name: "concurrency", index: -1, limit: int64(a.ceiling), used: int64(a.inFlight), asked: 1, wait: time.Second}
	}
	if no != nil {
		if g := a.gates[limRequests]; a.counting && g.win != nil {
			g.win.take(now, 1)
		}
		return no
	}
	for i, g := range a.gates {
		if g.win != nil {
			g.win.take(now, cost(i, charge))
		}
	}
	a.inFlight++
	return nil
}

// done ends an admitted call; unused is the part of its charge that is given back.
func (a *admission) done(now, at, unused int64) {
	a.inFlight--
	if unused <= 0 {
		return
	}
	for _, i := range []int{limTokens, limTokensDay} {
		if g := a.gates[i]; g.win != nil {
			g.win.giveBack(now, at, unused)
		}
	}
}

// standing is what the headers say of a limit.
type standing struct {
	limit, left int64
	reset       time.Duration // until the whole limit is free
}

func (a *admission) standings(now int64) (st [numLimits]standing) {
	for i, g := range a.gates {
		if g.win != nil {
			st[i] = standing{g.limit, g.win.left(now), time.Duration(g.win.full(now))}
		}
	}
	return st
}
