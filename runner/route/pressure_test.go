package route

import (
	"reflect"
	"testing"
	"time"
)

func TestLevel(t *testing.T) {
	var plain Degradation
	set := Degradation{
		Light:  {At: Threshold{QueueWait: time.Minute}},
		High:   {At: Threshold{Saturation: 0.9}},
		Severe: {At: Threshold{Overrun: 2, QueueWait: time.Hour}},
	}
	minutes := func(projected, left float64) Measures {
		m := Measures{Left: time.Duration(left * float64(time.Minute)), HasDeadline: true}
		for level := range m.Projected {
			m.Projected[level] = time.Duration(projected * float64(time.Minute))
		}
		return m
	}
	held := func(m Measures, from Level, rest time.Duration) Measures {
		for level := from; level <= Severe; level++ {
			m.Projected[level] = rest
		}
		return m
	}
	for _, c := range []struct {
		name   string
		d      *Degradation
		m      Measures
		was    Level
		want   Level
		reason string
	}{
		{"no deadline, long queue, full limit", &plain, Measures{Projected: [levels]time.Duration{Severe: time.Hour}, QueueWait: time.Hour, Saturation: 1}, None, None, ""},
		{"in time", &plain, minutes(60, 60), None, None, ""},
		{"a little late", &plain, minutes(61, 60), None, Light, "the rest would take 1h1m0s and the deadline leaves 1h0m0s"},
		{"later", &plain, minutes(67, 60), None, Moderate, "the rest would take 1h7m0s and the deadline leaves 1h0m0s"},
		{"much later", &plain, minutes(76, 60), None, High, "the rest would take 1h16m0s and the deadline leaves 1h0m0s"},
		{"hopeless", &plain, minutes(91, 60), None, Severe, "the rest would take 1h31m0s and the deadline leaves 1h0m0s"},
		{"past the deadline", &plain, minutes(1, -1), None, Severe, "the rest would take 1m0s and the deadline leaves 0s"},
		{"nothing left to do", &plain, minutes(0, -1), None, None, ""},
		{"a level is kept a little below its threshold", &plain, minutes(65, 60), Moderate, Moderate, "the rest would take 1h5m0s and the deadline leaves 1h0m0s"},
		{"and left further below", &plain, minutes(62, 60), Moderate, Light, "the rest would take 1h2m0s and the deadline leaves 1h0m0s"},
		{"what is held counts for the first level that holds it", &plain, held(minutes(100, 60), High, time.Hour), None, Moderate, "the rest would take 1h40m0s and the deadline leaves 1h0m0s"},
		{"and no more for those above", &plain, held(minutes(100, 60), Moderate, time.Hour), None, Light, "the rest would take 1h40m0s and the deadline leaves 1h0m0s"},
		{"nothing else is left", &plain, held(minutes(100, 60), Moderate, 0), Light, Light, "the rest would take 1h40m0s and the deadline leaves 1h0m0s"},
		{"queue", &set, Measures{QueueWait: 61 * time.Second}, None, Light, "operations wait for 1m1s"},
		{"limit", &set, Measures{Saturation: 0.95}, None, High, "95 % of the limit is in use"},
		{"both", &set, Measures{Saturation: 0.95, QueueWait: 2 * time.Hour}, None, Severe, "operations wait for 2h0m0s"},
		{"thresholds replace the default", &set, minutes(100, 60), None, Moderate, "the rest would take 1h40m0s and the deadline leaves 1h0m0s"},
	} {
		level, reason := c.d.Level(c.m, c.was)
		if level != c.want || reason != c.reason {
			t.Errorf("%s: got %s, %q, want %s, %q", c.name, level, reason, c.want, c.reason)
		}
	}
}

func TestActions(t *testing.T) {
	c := load(t, everything)
	if !c.Degradation.Enabled() {
		t.Error("got nothing enabled")
	}
	light := Actions{MaxTokens: 1024}
	moderate := light
	moderate.Trim, moderate.SmallerModel = []Trim{{"context", 8000}}, []string{"tag"}
	high := moderate
	high.HoldLow, high.HoldTenants, high.CachedAnswer = true, []string{"acme", "42"}, true
	severe := high
	severe.FixedAnswer = "We are busy.\nCome back later.\n"
	for level, want := range []Actions{{}, light, moderate, high, severe} {
		if got := c.Degradation.At(Level(level)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", Level(level), got, want)
		}
	}
}
