package runner

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/route"
)

// late are the measures of a deadline that is too near by a factor.
func late(overrun float64) route.Measures {
	m := route.Measures{HasDeadline: true, Left: time.Hour}
	for level := range m.Projected {
		m.Projected[level] = time.Duration(overrun * float64(time.Hour))
	}
	return m
}

// presses gives way by the default thresholds.
func presses(steps map[route.Level]route.Actions) func(*stage) {
	return func(s *stage) {
		s.press.steps = &route.Degradation{}
		for level, a := range steps {
			s.press.steps[level].Actions = a
		}
	}
}

func TestPressureAsks(t *testing.T) {
	trim := []route.Trim{{Field: "context", MaxChars: 9}}
	s := newStage(t)
	presses(map[route.Level]route.Actions{
		route.Light: {MaxTokens: 100}, route.Moderate: {MaxTokens: 10, Trim: trim}, route.High: {HoldLow: true, HoldTenants: []string{"acme"}},
	})(s)
	edit := func(f func(*job)) *job {
		j := s.job("a", 10, 500)
		f(j)
		return j
	}
	for _, c := range []struct {
		name    string
		overrun float64
		job     *job
		asks    concession
		output  int64
		holds   bool
	}{
		{"in time", 0.9, edit(func(*job) {}), concession{}, 500, false},
		{"capped", 1.05, edit(func(*job) {}), concession{cap: 100}, 100, false},
		{"a lower cap stays", 1.05, edit(func(j *job) { j.tokens.MaxOutput = 50 }), concession{cap: 100}, 50, false},
		{"none had no cap", 1.05, edit(func(j *job) { j.tokens.MaxOutput = 0 }), concession{cap: 100}, 100, false},
		{"three answers", 1.05, edit(func(j *job) { j.tokens.MaxOutput, j.tokens.Extra = 1500, 2 }), concession{cap: 100}, 300, false},
		{"a thinking budget keeps its cap", 1.05, edit(func(j *job) { j.keepsCap = true }), concession{}, 500, false},
		{"embeddings have none", 1.05, edit(func(j *job) { j.rec.API, j.tokens.MaxOutput = "/embeddings", 0 }), concession{}, 0, false},
		{"the least of responses", 1.2, edit(func(j *job) { j.rec.API = "/responses" }), concession{cap: 16, trim: trim}, 16, false},
		{"plain lines are cut", 1.2, edit(func(*job) {}), concession{cap: 10, trim: trim}, 10, false},
		{"others are not", 1.2, edit(func(j *job) { j.rec.Shape = input.Batch }), concession{cap: 10}, 10, false},
		{"low is held", 1.3, edit(func(j *job) { j.rec.Priority = input.Low }), concession{cap: 10, trim: trim}, 10, true},
		{"high is not", 1.3, edit(func(j *job) { j.rec.Priority = input.High }), concession{cap: 10, trim: trim}, 10, false},
		{"a tenant is", 1.3, edit(func(j *job) { j.rec.Tenant = "acme" }), concession{cap: 10, trim: trim}, 10, true},
		{"another is not", 1.3, edit(func(j *job) { j.rec.Tenant = "x" }), concession{cap: 10, trim: trim}, 10, false},
		{"what may have been paid for goes out as it did", 1.3, edit(func(j *job) {
			j.op.Status, j.op.Attempts = checkpoint.Unknown, []checkpoint.Attempt{{Class: ClassUnknown}}
			j.rec.Priority, j.gave = input.Low, concession{cap: 70}
		}), concession{cap: 70}, 70, false},
	} {
		s.press.level, s.press.acts = route.None, route.Actions{}
		s.feel(s.now, late(c.overrun))
		if asks, output, holds := s.press.asks(c.job), s.press.output(c.job, int64(c.job.tokens.MaxOutput)), s.press.holds(c.job); !reflect.DeepEqual(asks, c.asks) || output != c.output || holds != c.holds {
			t.Errorf("%s: got %+v, output %d, held %t; want %+v, %d, %t", c.name, asks, output, holds, c.asks, c.output, c.holds)
		}
	}
}

// Each step takes what the measures say, and what then goes.
func TestPressureHoldsAndReleases(t *testing.T) {
	s := newStage(t, alone)
	presses(map[route.Level]route.Actions{route.Light: {HoldLow: true, MaxTokens: 50}})(s)
	var told []route.Level
	s.watch = func(e Event) {
		if e.What == Pressed {
			told = append(told, e.Level)
		}
	}
	low, normal := s.job("low", 10, 100), s.job("normal", 10, 100)
	low.rec.Priority = input.Low
	s.enter(low, normal)
	s.feel(s.now, late(2))
	j := s.one("normal")
	if j.gave.cap != 50 || j.reserved != 50 || s.heldBack() != 1 {
		t.Errorf("got %+v, %d reserved, %d held back; want a cap of 50, 50, 1", j.gave, j.reserved, s.heldBack())
	}
	s.answer(j, 10, 50)
	if got, _, _ := s.grants(); len(got) > 0 || !s.idle() || !s.wants() {
		t.Errorf("got %q granted, idle %t, wants %t; want none, true, true", got, s.idle(), s.wants())
	}
	s.feel(s.now.Add(time.Second), late(0.97)) // not yet: within the steady share
	if s.heldBack() != 1 {
		t.Error("released within the steady share of the threshold")
	}
	s.now = s.now.Add(2 * time.Second)
	s.feel(s.now, late(0.9))
	if j := s.one("low"); j.gave.cap != 0 || j.reserved != 100 || s.heldBack() != 0 {
		t.Errorf("released: got %+v, %d reserved", j.gave, j.reserved)
	}
	if want := []route.Level{route.Severe, route.Light, route.None}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	s.press.pass(s.now)
	if s.press.spent[route.Severe] != time.Second || s.press.spent[route.Light] != time.Second {
		t.Errorf("got %v spent", s.press.spent)
	}
}

// A call of unknown outcome is made again with the bytes that its key stands
// for, whatever the pressure is by then, also by a later run.
func TestUnknownOutcomeKeepsItsConcession(t *testing.T) {
	s := newStage(t, alone)
	presses(map[route.Level]route.Actions{route.Light: {MaxTokens: 50}})(s)
	s.enter(s.job("a", 10, 100))
	s.feel(s.now, late(1.05))
	v := s.fail(s.one("a"), &provider.Error{Kind: provider.KindBroken, Phase: provider.PhaseHeaders, Sent: true, SentAt: s.now})
	s.now = v.notBefore
	s.feel(s.now, late(0.5))
	if j := s.one("a"); j.gave.cap != 50 || j.reserved != 50 {
		t.Errorf("got %+v, %d reserved; want the cap of before", j.gave, j.reserved)
	}
	got := gaveOf([]string{"trim:a:b:8000", "max_tokens:256", "smaller_model"})
	if want := (concession{cap: 256, trim: []route.Trim{{Field: "a:b", MaxChars: 8000}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v of a row, want %+v", got, want)
	}
}
