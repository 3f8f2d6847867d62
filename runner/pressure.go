package runner

import (
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/route"
)

// pressure is how hard the run is pressed and what gives way. The scheduler's
// owner owns it; lanes ask it what their jobs give up. The zero value is none.
type pressure struct {
	steps  *route.Degradation // nil = nothing ever gives way
	level  route.Level
	reason string
	acts   route.Actions // in force
	since  time.Time     // of the level
	spent  [route.Severe + 1]time.Duration
	done   [route.Severe + 2]int64 // finished operations, by firstHeld
}

// judge goes over to the level that the measures ask for and says whether it is
// another.
func (p *pressure) judge(now time.Time, m route.Measures) bool {
	if p.steps == nil {
		return false
	}
	level, reason := p.steps.Level(m, p.level)
	p.reason = reason
	if level == p.level {
		return false
	}
	p.pass(now)
	p.level, p.acts = level, p.steps.At(level)
	return true
}

// pass counts the time at the level so far.
func (p *pressure) pass(now time.Time) {
	if !p.since.IsZero() {
		p.spent[p.level] += now.Sub(p.since)
	}
	p.since = now
}

// holds says that a job has to wait until the pressure is less. One that may
// have been paid for does not.
func (p *pressure) holds(j *job) bool {
	return p != nil && p.level > route.None && j.op.Status != checkpoint.Unknown && p.acts.Holds(j.rec.Tenant, j.rec.Priority == input.Low)
}

// firstHeld is the level from which on operations like the job's are held; one
// above Severe = none does.
func (p *pressure) firstHeld(j *job) route.Level {
	for level := route.Light; level <= route.Severe; level++ {
		if acts := p.steps.At(level); acts.Holds(j.rec.Tenant, j.rec.Priority == input.Low) {
			return level
		}
	}
	return route.Severe + 1
}

// finished counts an operation that needs nothing more.
func (p *pressure) finished(j *job) {
	if p.steps != nil {
		p.done[p.firstHeld(j)]++
	}
}

// concession is what a request gives up. The zero value is nothing.
type concession struct {
	cap  int64 // output tokens of an answer; 0 = the request's own
	trim []route.Trim
}

// leastResponse is the smallest cap that OpenAI's responses take.
const leastResponse = 16

// asks is what the job's next request gives up. One that may have been paid for
// goes out as it did, since its key stands for those bytes.
func (p *pressure) asks(j *job) (c concession) {
	switch {
	case j.bound() != nil:
		return j.gave
	case p == nil || p.level == route.None:
		return c
	}
	if !j.keepsCap && !noOutput(j.rec.API) {
		if c.cap = p.acts.MaxTokens; c.cap > 0 && j.rec.API == "/responses" {
			c.cap = max(c.cap, leastResponse)
		}
	}
	if j.rec.Shape == input.Plain {
		c.trim = p.acts.Trim
	}
	return c
}

// output is the most that an answer to the job's request may have, whose own
// cap is given; 0 = no cap.
func (p *pressure) output(j *job, own int64) int64 {
	if c := p.asks(j).cap * int64(1+j.tokens.Extra); c > 0 && (own == 0 || c < own) {
		return c
	}
	return own
}

// fixable says that the fixed answer may stand for the job's: it has the shape
// of an answer in words, and no other answer may have been paid for.
func (p *pressure) fixable(j *job) bool {
	return j.op.Status != checkpoint.Unknown && fixedShapes[j.rec.API] != ""
}
