package fake

import (
	"math"
	"time"
)

// The limits in the order in which a refusal prefers them when they are equally long.
const (
	limRequests = iota
	limTokens
	limInput
	limOutput
	limRequestsDay
	limTokensDay
	numLimits
)

// limitNames are the keys of Stats.Refused; "concurrency", "too_large" and "quota" are the others.
var limitNames = [numLimits]string{"requests", "tokens", "input_tokens", "output_tokens", "requests_day", "tokens_day"}

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
	output := make1(c.OTPM, c.OTPM)
	if b, ok := output.win.(*bucket); ok {
		b.floor = math.Inf(-1) // what is generated is owed, however much that is
	}
	return admission{
		gates: [numLimits]gate{
			make1(c.RPM, c.Burst), make1(c.TPM, c.TPM), make1(c.ITPM, c.ITPM), output, daily(c.RPD), daily(c.TPD),
		},
		ceiling:  c.Concurrency,
		counting: c.CountRefused,
	}
}

// cost is what a call takes of each limit when it is admitted.
type cost [numLimits]int64

// cost of output is a token: there must be room for one, and what the answer holds is taken when it is there.
func (c *call) cost() cost {
	return cost{limRequests: 1, limTokens: c.charge, limInput: int64(c.prompt - c.cached), limOutput: 1, limRequestsDay: 1, limTokensDay: c.charge}
}

// ask admits a call at its cost, taking of all limits or of none, or says which limit refused it: the one that
// takes longest to have room, so that a hint taken from it is true.
func (a *admission) ask(now int64, price cost) *refusal {
	var no *refusal
	for i, g := range a.gates {
		if g.win == nil {
			continue
		}
		n := price[i]
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
		if g.win != nil && i != limOutput {
			g.win.take(now, price[i])
		}
	}
	a.inFlight++
	return nil
}

// done ends an admitted call; output is what was generated, unused the part of its charge that is given back.
func (a *admission) done(now, at, output, unused int64) {
	a.inFlight--
	if g := a.gates[limOutput]; g.win != nil && output > 0 {
		g.win.take(now, output)
	}
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
