package runner

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

func hold(c *Config) { c.Policy.HoldUnknown = true }

// lossy makes n prompts of which each tenth loses its first answer.
func lossy(n int) []string {
	lines := prompts(n)
	for i := 0; i < n; i += 10 {
		lines[i] = ask(fmt.Sprintf("p%d", i), fmt.Sprintf("[[fault:lostx1]] number %d", i))
	}
	return lines
}

func TestLostAnswersAreAskedForAgainUnderTheirKey(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second, HonourKeys: true}, func(d *desk) {
		d.input(lossy(30)...)
		s := d.run()
		d.whole(ids(30)...)
		if s.PossiblyTwice != 3 || len(s.UnknownOps) != 3 || s.Retries != 3 {
			d.Errorf("got %d possibly billed twice, named %q, %d retries; want 3", s.PossiblyTwice, s.UnknownOps, s.Retries)
		}
		st := d.server.Stats()
		if st.Twice.Operations != 0 || st.TwiceBodies.Operations != 0 || st.Rekeyed != 0 {
			d.Errorf("%d operations billed twice, %d under two keys; want none", st.TwiceBodies.Operations, st.Rekeyed)
		}
		gaps := map[string]time.Time{}
		for _, e := range d.server.Log() {
			if at, again := gaps[e.Key]; again && e.Time.Sub(at) < 5*time.Second {
				d.Errorf("key %s was sent again after %v, want 5 s or more", e.Key, e.Time.Sub(at))
			}
			gaps[e.Key] = e.Time
		}
	})
}

func TestHeldUnknownOutcomes(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second, HonourKeys: true}, func(d *desk) {
		d.input(lossy(30)...)
		s := d.run(hold)
		if s.Unknown != 3 || s.Completed != 27 || s.Stop != nil || s.PossiblyTwice != 3 {
			d.Errorf("got %d unknown, %d completed, stop %v, %d possibly billed twice; want 3, 27, nil, 3", s.Unknown, s.Completed, s.Stop, s.PossiblyTwice)
		}
		calls := d.asked()
		s = d.run(hold)
		d.wantCalls(calls, 0)
		if s.Unknown != 3 || s.Pending != 0 {
			d.Errorf("again: got %d unknown, %d pending; want 3, 0", s.Unknown, s.Pending)
		}
		before := d.rows()
		d.run()
		d.wantCalls(calls, 3)
		d.wantSameKeys(before)
		d.whole(ids(30)...)
		if st := d.server.Stats(); st.TwiceBodies.Operations != 0 {
			d.Errorf("%d operations billed twice", st.TwiceBodies.Operations)
		}
	})
}

func TestNeverLinesAreNotSentTwice(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		d.input(
			`{"custom_id":"once","prompt":"[[fault:lostx1]]","retry":"never"}`,
			`{"custom_id":"tool","model":"small","input":"[[fault:lostx1]] search","tools":[{"type":"web_search"}]}`,
			`{"custom_id":"refused","prompt":"[[fault:429x1]]","retry":"never"}`,
			ask("free", "[[fault:lostx1]] other"),
		)
		s := d.run()
		if s.Unknown != 2 || s.Completed != 2 {
			d.Errorf("got %d unknown, %d completed; want 2, 2: a refused call was never worked on", s.Unknown, s.Completed)
		}
		calls := d.asked()
		if s = d.run(); s.Unknown != 2 || s.Calls != 0 || s.Pending != 0 {
			d.Errorf("rerun: got %d unknown, %d calls, %d pending; want 2, 0, 0", s.Unknown, s.Calls, s.Pending)
		}
		d.wantCalls(calls, 0)
	})
}

func TestUnknownToTheEndIsADeadLetter(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(ask("ok", "fine"), ask("gone", "[[fault:lost]]"))
		s := d.run(func(c *Config) { c.Policy.MaxAttempts = 3 })
		if s.Failed != 1 || s.Completed != 1 || s.PossiblyTwice != 3 {
			d.Errorf("got %d failed, %d completed, %d possibly billed twice; want 1, 1, 3", s.Failed, s.Completed, s.PossiblyTwice)
		}
		d.wantClass("gone", "outcome_unknown")
	})
}

// A rerun right after a stop waits until a lost call had its time to be
// finished and found.
func TestRerunWaitsBeforeItAsksAgain(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Minute, HonourKeys: true}, func(d *desk) {
		d.input(prompts(2)...)
		ctx, stop := context.WithCancel(d.Context())
		time.AfterFunc(time.Second, stop)
		if _, err := Run(ctx, d.config(func(c *Config) { c.Grace = time.Second })); err != nil {
			d.Fatal(err)
		}
		before := d.rows()
		d.run()
		log := d.server.Log()
		for _, e := range log[2:] {
			for id, op := range before {
				if op.Key == e.Key && e.Time.Sub(op.Attempts[0].At) < 5*time.Second {
					d.Errorf("%s was sent again after %v, want 5 s or more", id, e.Time.Sub(op.Attempts[0].At))
				}
			}
		}
		d.wantSameKeys(before)
	})
}

func TestStopCountsOutcomesAsTheCheckpointDoes(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		lines := prompts(20)
		lines[0] = ask("p0", "[[fault:lost]] number 0")
		d.input(lines...)
		s := d.run(func(c *Config) { c.Deadline, c.Targets[0].Limits.Concurrency = 4*time.Second, 1 })
		d.wantStop(s, StopBound, "")
		var unknown int64
		for _, op := range d.rows() {
			if op.Status == checkpoint.Unknown {
				unknown++
			}
		}
		if s.Unknown != unknown {
			d.Errorf("the summary counts %d unknown, the checkpoint %d", s.Unknown, unknown)
		}
	})
}

// A call that may have been paid for goes out again as it did, streamed or not:
// a server that honours keys refuses another body under one that it knows.
func TestUnknownOutcomesKeepTheirForm(t *testing.T) {
	plain := func(*Config) {}
	for _, tt := range []struct {
		name          string
		before, after func(*Config)
	}{{"streamed before", streaming, plain}, {"streamed after", plain, streaming}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, fake.Config{Latency: time.Second, HonourKeys: true}, func(d *desk) {
				d.input(lossy(30)...)
				if s := d.run(tt.before, hold); s.Unknown != 3 {
					d.Fatalf("got %d unknown, want 3", s.Unknown)
				}
				before := d.rows()
				s := d.run(tt.after)
				d.whole(ids(30)...)
				d.wantSameKeys(before)
				if st := d.server.Stats(); s.Calls != 3 || st.Duplicates != 3 || st.TwiceBodies.Operations != 0 || st.Statuses["400"] != 0 {
					d.Errorf("got %d calls, %d answered again, %d billed twice, %v; want 3, 3, 0 and no 400", s.Calls, st.Duplicates, st.TwiceBodies.Operations, st.Statuses)
				}
			})
		})
	}
}

// So does one whose line is gone from the output: its answer stands under its key.
func TestLostLinesKeepTheirForm(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second, HonourKeys: true}, func(d *desk) {
		d.input(prompts(3)...)
		d.run(streaming)
		key := d.rows()["p1"].Key
		dropLine(d, d.paths.Output, "p1")
		d.run()
		if l := d.whole(ids(3)...)["p1"]; l != nil && l.LLM.Key != key {
			d.Errorf("got key %s, want %s", l.LLM.Key, key)
		}
		if st := d.server.Stats(); st.Statuses["400"] != 0 || st.Duplicates != 1 {
			d.Errorf("got %v, %d answered again; want no 400, and 1", st.Statuses, st.Duplicates)
		}
	})
}

// The bytes that a key stands for are those of the last attempt that a server may
// know it by, whatever was refused since.
func TestBound(t *testing.T) {
	t.Parallel()
	created := time.Unix(1_790_000_000, 0)
	at := func(seconds int, a checkpoint.Attempt) checkpoint.Attempt {
		a.At, a.Sent = created.Add(time.Duration(seconds)*time.Second), true
		if a.Model == "" {
			a.Model = "m"
		}
		return a
	}
	lost := at(1, checkpoint.Attempt{Class: ClassUnknown})
	refused := at(9, checkpoint.Attempt{Class: "rate_limited", StatusCode: 429})
	for name, tt := range map[string]struct {
		attempts []checkpoint.Attempt
		want     int // its number; -1 = none
	}{
		"none":                             {nil, -1},
		"refused":                          {[]checkpoint.Attempt{refused}, -1},
		"lost":                             {[]checkpoint.Attempt{lost}, 0},
		"lost, then refused":               {[]checkpoint.Attempt{lost, refused}, 0},
		"empty, then refused":              {[]checkpoint.Attempt{at(1, checkpoint.Attempt{Class: "empty_answer", StatusCode: 200}), refused}, 0},
		"answered, and its line is gone":   {[]checkpoint.Attempt{refused, at(10, checkpoint.Attempt{StatusCode: 200})}, 1},
		"lost by another model":            {[]checkpoint.Attempt{at(1, checkpoint.Attempt{Class: ClassUnknown, Model: "n"}), refused}, -1},
		"lost before the row started anew": {[]checkpoint.Attempt{at(-1, lost), refused}, -1},
	} {
		j := &job{op: checkpoint.Operation{Status: checkpoint.Delayed, Created: created, Attempts: tt.attempts}}
		j.rec.Model = "m"
		got := j.bound()
		if tt.want < 0 && got != nil || tt.want >= 0 && got != &j.op.Attempts[tt.want] {
			t.Errorf("%s: got %+v, want attempt %d", name, got, tt.want)
		}
	}
}

// So does one that was answered with nothing of use: that answer stands under
// its key.
func TestEmptyAnswersKeepTheirForm(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second, HonourKeys: true}, func(d *desk) {
		d.input(ask("p0", "[[fault:emptyx1]] a"))
		s := d.run(func(c *Config) { c.Deadline, c.Targets[0].Limits.RPM = 30*time.Second, limit.Cap{N: 1, Set: true} })
		if s.Pending != 1 || s.Calls != 1 {
			d.Fatalf("got %d pending after %d calls, want 1 after 1", s.Pending, s.Calls)
		}
		before := d.rows()
		d.run(streaming)
		d.whole("p0")
		d.wantSameKeys(before)
		if st := d.server.Stats(); st.Statuses["400"] != 0 {
			d.Errorf("got %v, want no 400", st.Statuses)
		}
	})
}
