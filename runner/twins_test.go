package runner

import (
	"fmt"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

func dedupe(c *Config) { c.Dedupe = true }

// same makes n lines with the IDs p0, p1 … that ask for the same.
func same(n int, prompt string) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = ask(fmt.Sprintf("p%d", i), prompt)
	}
	return lines
}

func TestDedupeSendsOneCall(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		d.input(same(6, "the one question")...)
		s := d.run(dedupe)
		d.wantCalls(0, 1)
		if s.Completed != 6 || s.Suppressed != 5 {
			d.Errorf("got %d completed, %d suppressed; want 6, 5", s.Completed, s.Suppressed)
		}
		out := d.whole(ids(6)...)
		first := out["p0"]
		for id, l := range out {
			if string(l.Response.Body) != string(first.Response.Body) {
				d.Errorf("%s: its body differs from the first one's", id)
			}
			if id == "p0" {
				continue
			}
			if u := l.LLM.Usage; l.LLM.CopyOf != "p0" || u.InputTokens+u.OutputTokens != 0 || l.LLM.Attempts != 0 || string(l.CustomID) != fmt.Sprintf("%q", id) {
				d.Errorf("%s: got copy_of %q, usage %+v, %d attempts, custom_id %s", id, l.LLM.CopyOf, u, l.LLM.Attempts, l.CustomID)
			}
		}
		if first.LLM.CopyOf != "" || first.LLM.Usage.OutputTokens == 0 {
			d.Errorf("the first: got copy_of %q, usage %+v", first.LLM.CopyOf, first.LLM.Usage)
		}
		calls := d.asked()
		d.run(dedupe)
		d.wantCalls(calls, 0)
	})
}

func TestDedupeAcrossRuns(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(same(2, "the one question")...)
		d.run(dedupe)
		d.input(same(5, "the one question")...)
		s := d.run(dedupe)
		d.wantCalls(0, 1)
		if s.CompletedNow != 3 || s.Suppressed != 3 {
			d.Errorf("got %d completed now, %d suppressed; want 3, 3", s.CompletedNow, s.Suppressed)
		}
		for id, l := range d.whole(ids(5)...) {
			if id != "p0" && l.LLM.CopyOf != "p0" {
				d.Errorf("%s: got copy_of %q, want p0", id, l.LLM.CopyOf)
			}
		}
	})
}

func TestDedupeOfADeadLetter(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(same(4, "[[fault:policyx1]]")...)
		s := d.run(dedupe)
		if s.Calls != 1 || s.Failed != 4 || s.Classes[0].Count != 4 {
			d.Errorf("got %d calls, %d failed; want 1, 4 of one class", s.Calls, s.Failed)
		}
		for _, id := range ids(4) {
			d.wantClass(id, "content_policy")
		}
		s = d.run(dedupe, func(c *Config) { c.RetryFailed = []string{"all"} })
		if s.Calls != 1 || s.Completed != 4 {
			d.Errorf("retried: got %d calls, %d completed; want 1, 4", s.Calls, s.Completed)
		}
		d.whole(ids(4)...)
	})
}

func TestWithoutDedupeIdenticalLinesAreDistinct(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(`{"prompt":"again"}`, `{"prompt":"again"}`, `{"prompt":"again"}`)
		s := d.run()
		d.wantCalls(0, 3)
		if n := len(d.lines(d.paths.Output)); s.Completed != 3 || n != 3 {
			d.Errorf("got %d completed and %d lines, want 3 and 3", s.Completed, n)
		}
		calls := d.asked()
		d.run()
		d.wantCalls(calls, 0)
	})
}

// A twin whose first is held goes itself: nothing is known to have happened
// to it, and it must not wait for a call that never comes.
func TestTwinsOfAHeldCallGoThemselves(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		lines := same(3, "[[fault:lostx1]]")
		for i := range 100 {
			lines = append(lines, ask(fmt.Sprintf("other%d", i), fmt.Sprint("other ", i)))
		}
		lines = append(lines, ask("late", "[[fault:lostx1]]"))
		d.input(lines...)
		s := d.run(dedupe, func(c *Config) { c.Policy.HoldUnknown, c.Targets[0].Limits.Concurrency = true, 2 })
		if s.Unknown != 1 || s.Completed != 103 || s.Pending != 0 {
			d.Errorf("got %d unknown, %d completed, %d pending; want 1, 103, 0", s.Unknown, s.Completed, s.Pending)
		}
	})
}

// A copy whose line is lost is no copy any more once it is called itself.
func TestLostCopyIsSentAndIsNoCopy(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(same(3, "the one question")...)
		d.run(dedupe)
		dropLine(d, d.paths.Output, "p0")
		dropLine(d, d.paths.Output, "p2")
		d.run()
		if l := d.whole(ids(3)...)["p2"]; l.LLM.CopyOf != "" || l.LLM.Usage.OutputTokens == 0 {
			d.Errorf("got copy_of %q and usage %+v of an operation that was called itself", l.LLM.CopyOf, l.LLM.Usage)
		}
	})
}
