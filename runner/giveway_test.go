package runner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/route"
)

// yielding gives way from a level on, under a deadline.
func yielding(deadline time.Duration, level route.Level, a route.Actions) func(*Config) {
	return func(c *Config) {
		c.Deadline, c.Degradation = deadline, &route.Degradation{}
		c.Degradation[level].Actions = a
	}
}

// wordy makes n lines that ask for up to 1,000 tokens each.
func wordy(n int, more string) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"custom_id":"p%d","prompt":"tell me of number %d","max_tokens":1000%s}`, i, i, more)
	}
	return lines
}

func tpm(n int64) func(*Config) {
	return func(c *Config) { c.Targets[0].Limits.TPM = limit.Cap{N: n, Set: true} }
}

// Sixty answers of 1,000 tokens at 10,000 a minute take five minutes. In three,
// some of them have to be shorter, and no more than that.
func TestShorterAnswersInTime(t *testing.T) {
	bubble(t, fake.Config{Latency: time.Second, Output: 1000, HonourKeys: true}, func(d *desk) {
		d.input(wordy(60, "")...)
		s := d.run(tpm(10_000), yielding(3*time.Minute, route.Light, route.Actions{MaxTokens: 100}))
		if s.Stop != nil || s.Completed != 60 || s.Seconds > 180 {
			d.Fatalf("got %d completed in %.0f s, stop %+v; want 60 in 180 s", s.Completed, s.Seconds, s.Stop)
		}
		shorter := int64(0)
		for id, l := range d.whole(ids(60)...) {
			marked := slices.Equal(l.LLM.Degraded, []string{"max_tokens:100"})
			if marked != (l.LLM.Usage.OutputTokens == 100) || !marked && l.LLM.Degraded != nil {
				d.Errorf("%s: %d tokens, degraded %q", id, l.LLM.Usage.OutputTokens, l.LLM.Degraded)
			}
			if marked {
				shorter++
			}
		}
		if shorter < 20 || shorter > 45 || s.Degraded != shorter || s.DegradedBy["max_tokens"] != shorter || len(s.Pressure) == 0 {
			d.Errorf("got %d shorter answers, summary %d %v, %v; want 20 to 45 of both", shorter, s.Degraded, s.DegradedBy, s.Pressure)
		}
		d.mustTell("pressure: ")
		d.mustTell("the deadline leaves 3m0s")
		// They are finished: without pressure nothing is done once more.
		before := d.asked()
		if s := d.run(tpm(10_000)); s.Calls != 0 || s.Completed != 60 {
			d.Errorf("run again: %d calls, %d completed", s.Calls, s.Completed)
		}
		d.wantCalls(before, 0)
		if got := d.rows()["p0"].Degraded; !slices.Equal(got, d.lines(d.paths.Output)["p0"].LLM.Degraded) {
			d.Errorf("the row says %q, the line otherwise", got)
		}
		// One whose line is gone comes again as it was: its key stands for those bytes.
		for id, l := range d.lines(d.paths.Output) {
			if l.LLM.Degraded != nil {
				dropLine(d, d.paths.Output, id)
				break
			}
		}
		d.run(tpm(10_000))
		d.whole(ids(60)...)
		if st := d.server.Stats(); st.Duplicates != 1 || st.Statuses["400"] != 0 {
			d.Errorf("got %d answered again, %v; want 1 and no 400", st.Duplicates, st.Statuses)
		}
	})
}

// A deadline alone changes nothing but when the run stops.
func TestDeadlineAlone(t *testing.T) {
	bubble(t, fake.Config{Latency: time.Second, Output: 1000}, func(d *desk) {
		d.input(wordy(60, "")...)
		s := d.run(tpm(10_000), func(c *Config) { c.Deadline = 90 * time.Second })
		if s.Stop == nil || s.Stop.Kind != StopBound || s.Degraded != 0 || s.Pending == 0 || s.Pressure != nil {
			d.Errorf("got %d pending, %d degraded, stop %+v", s.Pending, s.Degraded, s.Stop)
		}
	})
}

// What the deadline leaves no time for goes to the smaller model, and while it
// is busy to the primary.
func TestSmallerModelInTime(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(60)...)
		house, cloud := fake.New(fake.Config{Latency: time.Second}), fake.New(fake.Config{Latency: time.Second})
		degradeTo := func(c *Config) {
			r, _ := c.Routes.Resolve("")
			r.Degrade, r.DegradeAt, r.When[1] = 1, route.Moderate, 0
			c.Targets[0].Limits.RPM = limit.Cap{N: 10, Set: true}
		}
		s := d.run(d.pair(house, cloud, 0), degradeTo, yielding(2*time.Minute, route.Moderate, route.Actions{SmallerModel: []string{"default"}}))
		by := d.servedBy()
		if s.Stop != nil || s.Completed != 60 || s.Seconds > 120 || by["house/small"] < 10 || by["cloud/large"] < 20 {
			d.Errorf("got results of %v in %.0f s, stop %+v", by, s.Seconds, s.Stop)
		}
		for id, l := range d.whole(ids(60)...) {
			if (l.LLM.Provider == "cloud") != slices.Equal(l.LLM.Degraded, []string{"smaller_model"}) {
				d.Errorf("%s: of %s, degraded %q", id, l.LLM.Provider, l.LLM.Degraded)
			}
		}
		if s.DegradedBy["smaller_model"] != int64(by["cloud/large"]) {
			d.Errorf("got %v degraded, %v served", s.DegradedBy, by)
		}
	})
}

// Without pressure the smaller model has nothing.
func TestSmallerModelWithoutPressure(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(60)...)
		house, cloud := fake.New(fake.Config{Latency: time.Second}), fake.New(fake.Config{})
		s := d.run(d.pair(house, cloud, 0), func(c *Config) {
			r, _ := c.Routes.Resolve("")
			r.Degrade, r.When[1] = 1, 0
		}, yielding(time.Hour, route.Moderate, route.Actions{SmallerModel: []string{"default"}}))
		if by := d.servedBy(); by["house/small"] != 60 || s.Degraded != 0 {
			d.Errorf("got results of %v, %d degraded", by, s.Degraded)
		}
	})
}

// Held operations keep nothing else out, are left pending with the reason when
// they alone are left, and are done by a run that has the time.
func TestLowPriorityIsHeld(t *testing.T) {
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		lines := prompts(40)
		for i := 10; i < 40; i++ {
			lines[i] = strings.Replace(lines[i], "{", `{"priority":"low",`, 1)
		}
		d.input(lines...)
		rpm := func(c *Config) { c.Targets[0].Limits.RPM = limit.Cap{N: 10, Set: true} }
		s := d.run(rpm, yielding(2*time.Minute, route.Light, route.Actions{HoldLow: true}))
		if s.Completed != 10 || s.Pending != 30 || s.HeldBack != 30 || s.Stop == nil || s.Stop.Kind != StopBound || s.Seconds > 10 {
			d.Fatalf("got %d completed, %d pending, %d held back in %.0f s, stop %+v", s.Completed, s.Pending, s.HeldBack, s.Seconds, s.Stop)
		}
		if !strings.Contains(s.Stop.Reason, "30 operations are held back") || !strings.Contains(s.Stop.Reason, "the deadline leaves") {
			d.Errorf("got the reason %q", s.Stop.Reason)
		}
		d.whole(ids(10)...)
		s = d.run(rpm, yielding(time.Hour, route.Light, route.Actions{HoldLow: true}))
		if s.Completed != 40 || s.Stop != nil || s.Calls != 30 || s.HeldBack != 0 {
			d.Errorf("with more time: got %d completed, %d calls, %d held back, stop %+v", s.Completed, s.Calls, s.HeldBack, s.Stop)
		}
	})
}

// What is held goes as soon as what is left fits the time.
func TestHeldOperationsAreReleased(t *testing.T) {
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		lines := prompts(40)
		for i := range 20 {
			lines[i] = strings.Replace(lines[i], "{", `{"tenant":"acme",`, 1)
		}
		d.input(lines...)
		// Full while the first minute's calls count: the limit is what presses.
		s := d.run(func(c *Config) { c.Targets[0].Limits.RPM = limit.Cap{N: 20, Set: true} }, func(c *Config) {
			c.Degradation = &route.Degradation{}
			c.Degradation[route.High] = route.Step{At: route.Threshold{Saturation: 0.9}, Actions: route.Actions{HoldTenants: []string{"acme"}}}
		})
		if s.Completed != 40 || s.Stop != nil || s.HeldBack != 0 || len(s.Pressure) != 1 || s.Pressure[0].Level != "high" {
			d.Errorf("got %d completed, %d held back, pressure %v, stop %+v", s.Completed, s.HeldBack, s.Pressure, s.Stop)
		}
		d.whole(ids(40)...)
	})
}

// The fixed answer stands for as many as it takes, the least important first,
// and for each in the shape of its own API.
func TestFixedAnswers(t *testing.T) {
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		lines := prompts(60)
		for i := range 10 {
			lines[i] = strings.Replace(lines[i], "{", `{"priority":"high",`, 1)
		}
		lines[20] = `{"custom_id":"p20","method":"POST","url":"/v1/responses","body":{"model":"small","input":"a"}}`
		lines[21] = `{"custom_id":"p21","method":"POST","url":"/v1/embeddings","body":{"model":"small","input":"a"}}`
		d.input(lines...)
		s := d.run(func(c *Config) { c.Targets[0].Limits.RPM = limit.Cap{N: 10, Set: true} },
			yielding(2*time.Minute, route.Severe, route.Actions{FixedAnswer: "We are \"busy\".\nTry later."}))
		fixed := s.DegradedBy["fixed_answer"]
		if s.Completed != 60 && s.Stop == nil || fixed < 15 || fixed > 40 || s.Completed+s.Pending != 60 || s.Completed < 50 {
			d.Errorf("got %d completed, %d of them fixed, stop %+v", s.Completed, fixed, s.Stop)
		}
		for id, l := range d.lines(d.paths.Output) {
			if isFixed := l.LLM.Provider == "llmbatch"; isFixed != slices.Equal(l.LLM.Degraded, []string{"fixed_answer"}) {
				d.Errorf("%s: of %s, degraded %q", id, l.LLM.Provider, l.LLM.Degraded)
			} else if isFixed && (id == "p21" || !strings.Contains(string(l.Response.Body), `We are \"busy\".\nTry later.`) || l.LLM.Attempts != 0) {
				d.Errorf("%s: fixed answer %s after %d attempts", id, l.Response.Body, l.LLM.Attempts)
			}
			if i := 0; l.LLM.Provider == "llmbatch" {
				if _, err := fmt.Sscanf(id, "p%d", &i); err != nil || i < 10 {
					d.Errorf("%s, of high priority, got the fixed answer", id)
				}
			}
		}
		if l := d.lines(d.paths.Output)["p20"]; l != nil && l.LLM.Provider == "llmbatch" && !strings.Contains(string(l.Response.Body), `"output_text"`) {
			d.Errorf("got %s for a response", l.Response.Body)
		}
	})
}

// A field that the template puts into the prompt is cut, and nothing else of it.
func TestTrimmedField(t *testing.T) {
	bubble(t, fake.Config{Echo: true, Latency: time.Second}, func(d *desk) {
		lines := make([]string, 30)
		for i := range lines {
			lines[i] = fmt.Sprintf(`{"id":"p%d","q":"why %d","context":"%s"}`, i, i, strings.Repeat("ü", 5+i%2*50))
		}
		d.input(lines...)
		s := d.run(func(c *Config) {
			c.Settings.Template = "{{.q}}: {{.context}}"
			c.Targets[0].Limits.Concurrency = 4
		}, yielding(0, route.Light, route.Actions{Trim: []route.Trim{{Field: "context", MaxChars: 10}}}), func(c *Config) {
			c.Degradation[route.Light].At = route.Threshold{QueueWait: time.Nanosecond}
		})
		for id, l := range d.whole(ids(30)...) {
			long := strings.Contains("13579", id[len(id)-1:])
			cut := slices.Equal(l.LLM.Degraded, []string{"trim:context:10"})
			if cut != strings.Contains(string(l.Response.Body), ": "+strings.Repeat("ü", 10)+" [...]") || cut && !long || !cut && l.LLM.Degraded != nil {
				d.Errorf("%s: degraded %q, answer %s", id, l.LLM.Degraded, l.Response.Body)
			}
		}
		if s.DegradedBy["trim"] == 0 {
			d.Errorf("nothing was cut: %+v", s.Pressure)
		}
	})
}

// Under pressure the answer that another target has given to the same prompt
// serves as well, and says so.
func TestCachedAnswerOfAnotherTarget(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(30)...)
		down, cloud := fake.New(fake.Config{DownFrom: 1}), fake.New(fake.Config{})
		d.run(d.caching(), d.pair(down, cloud, route.SetOf(route.PrimaryUnavailable)))
		d.anew()
		up := fake.New(fake.Config{Latency: time.Second})
		s := d.run(d.caching(), d.pair(up, cloud, route.SetOf(route.PrimaryUnavailable)), func(c *Config) {
			c.Targets[0].Limits.RPM = limit.Cap{N: 10, Set: true}
		}, yielding(time.Minute, route.Light, route.Actions{CachedAnswer: true}))
		n := s.DegradedBy["cached_answer"]
		if n < 20 || s.Stop != nil || n+s.Calls != 30 || cloud.Stats().Asked != 30 {
			d.Errorf("got %d answers of the cache, %d calls, stop %+v", n, s.Calls, s.Stop)
		}
		for id, l := range d.whole(ids(30)...) {
			if instead := slices.Equal(l.LLM.Degraded, []string{"cached_answer"}); instead != (l.LLM.Provider == "cloud" && l.LLM.Model == "large" && l.LLM.Cached) {
				d.Errorf("%s: got %+v", id, l.LLM)
			}
		}
	})
}
