package route

import (
	"fmt"
	"slices"
	"time"
)

// Level is how hard the run is pressed.
type Level uint8

// The levels, in their order.
const (
	None Level = iota
	Light
	Moderate
	High
	Severe
	levels // their number
)

var levelNames = [levels]string{"none", "light", "moderate", "high", "severe"}

// String gives the name used in the file.
func (l Level) String() string { return levelNames[min(l, Severe)] }

// Degradation is what gives way at each level. The zero value does nothing. The
// actions of a level hold at the levels above it, too.
type Degradation [levels]Step

// Step is one level: when it is reached and what it does.
type Step struct {
	At      Threshold
	Actions Actions
}

// Threshold reaches a level when any of its measures is passed. A zero measure
// does not count; if all are zero, Overrun takes the level's default (1, 1.1,
// 1.25, 1.5). Waits and full limits alone are no distress in a batch.
type Threshold struct {
	Overrun    float64       // projected time over the time left until the deadline
	QueueWait  time.Duration // of the operation that has been ready for longest
	Saturation float64       // share of the binding limit in use, from 0 to 1
}

// Actions are what a level does. The zero value does nothing.
type Actions struct {
	MaxTokens    int64    // cap on the output of a call; 0 = none
	Trim         []Trim   // fields of a line that are cut
	SmallerModel []string // tasks that go to their degrade_to
	HoldLow      bool     // operations of low priority wait
	HoldTenants  []string // operations of these tenants wait
	CachedAnswer bool     // an answer kept for the same request is taken
	FixedAnswer  string   // the answer given without a call; empty = none
}

// Trim cuts a field of a plain line, such as a retrieved context.
type Trim struct {
	Field    string
	MaxChars int64
}

// Measures are what pressure is computed from.
type Measures struct {
	// Projected is, by level, the time until the last operation that the levels
	// below it do not hold back would finish with its whole output, from now: no
	// level is reached on account of what waits anyway.
	Projected   [levels]time.Duration
	Left        time.Duration // until the deadline, from now; negative = past it
	HasDeadline bool
	QueueWait   time.Duration
	Saturation  float64
}

// steady is the share of a threshold that keeps a level once it is reached, so
// that a measure at the threshold does not switch it on and off.
const steady = 0.95

// Enabled reports that the file configures any action.
func (d *Degradation) Enabled() bool {
	for _, s := range d {
		if s.Actions.any() {
			return true
		}
	}
	return false
}

// CachesAnswers reports that a level takes answers that are kept.
func (d *Degradation) CachesAnswers() bool {
	return slices.ContainsFunc(d[:], func(s Step) bool { return s.Actions.CachedAnswer })
}

// Degrades reports that something gives way under pressure: an action of the
// degradation section, or a task that has a smaller model.
func (c *Config) Degrades() bool {
	for _, t := range c.Tasks {
		if t.DegradeTo != nil {
			return true
		}
	}
	return c.Degradation.Enabled()
}

// Level computes the level from the measures and the level before; reason names
// the measure that reached it, empty for None.
func (d *Degradation) Level(m Measures, was Level) (level Level, reason string) {
	for level := Severe; level > None; level-- {
		share := 1.0
		if level <= was {
			share = steady
		}
		if reason := d[level].At.orDefault(level).passed(m, m.Projected[level], share); reason != "" {
			return level, reason
		}
	}
	return None, ""
}

func (t Threshold) orDefault(l Level) Threshold {
	if t == (Threshold{}) {
		t.Overrun = [levels]float64{Light: 1, Moderate: 1.1, High: 1.25, Severe: 1.5}[l]
	}
	return t
}

func (t Threshold) passed(m Measures, projected time.Duration, share float64) string {
	switch {
	case t.Overrun > 0 && m.HasDeadline && projected > 0 && float64(projected) > t.Overrun*share*float64(m.Left):
		return fmt.Sprintf("the rest would take %s and the deadline leaves %s", short(projected), short(max(m.Left, 0)))
	case t.QueueWait > 0 && float64(m.QueueWait) > float64(t.QueueWait)*share:
		return fmt.Sprintf("operations wait for %s", short(m.QueueWait))
	case t.Saturation > 0 && m.Saturation >= t.Saturation*share:
		return fmt.Sprintf("%.0f %% of the limit is in use", m.Saturation*100)
	default:
		return ""
	}
}

func short(d time.Duration) time.Duration { return d.Round(time.Second) }

// At gives the actions in force at a level: its own and, where it has none of a
// kind, those of the levels below.
func (d *Degradation) At(level Level) (a Actions) {
	for l := Light; l <= min(level, Severe); l++ {
		s := &d[l].Actions
		if s.MaxTokens > 0 {
			a.MaxTokens = s.MaxTokens
		}
		if s.FixedAnswer != "" {
			a.FixedAnswer = s.FixedAnswer
		}
		if len(s.Trim) > 0 {
			a.Trim = s.Trim
		}
		a.SmallerModel = union(a.SmallerModel, s.SmallerModel)
		a.HoldTenants = union(a.HoldTenants, s.HoldTenants)
		a.HoldLow = a.HoldLow || s.HoldLow
		a.CachedAnswer = a.CachedAnswer || s.CachedAnswer
	}
	return a
}

// Holds reports that operations of a tenant, or of low priority, wait.
func (a *Actions) Holds(tenant string, low bool) bool {
	return low && a.HoldLow || tenant != "" && slices.Contains(a.HoldTenants, tenant)
}

func (a *Actions) any() bool {
	return a.MaxTokens > 0 || len(a.Trim) > 0 || len(a.SmallerModel) > 0 || a.HoldLow || len(a.HoldTenants) > 0 || a.CachedAnswer || a.FixedAnswer != ""
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}
