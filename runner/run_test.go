package runner

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/result"
)

func TestFinishedRunIsNotRunAgain(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second, HonourKeys: true}, func(d *desk) {
		d.input(prompts(12)...)
		s := d.run()
		if s.Completed != 12 || s.Calls != 12 || s.Stop != nil {
			d.Errorf("got %d completed with %d calls, stop %v; want 12 with 12, nil", s.Completed, s.Calls, s.Stop)
		}
		d.whole(ids(12)...)
		before, calls := d.text(d.paths.Output), d.asked()

		s = d.run()
		d.wantCalls(calls, 0)
		if s.Completed != 12 || s.Calls != 0 || s.CompletedNow != 0 {
			d.Errorf("second run: got %d completed with %d calls, %d of them now; want 12 with 0, 0", s.Completed, s.Calls, s.CompletedNow)
		}
		if after := d.text(d.paths.Output); after != before {
			d.Errorf("the second run changed the output:\n%s\nwas\n%s", after, before)
		}
		if left := d.leftovers(); len(left) > 0 {
			d.Errorf("files are left behind: %q", left)
		}
	})
}

func TestResultLineTellsTheOperation(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: 1500 * time.Millisecond, Output: 5}, func(d *desk) {
		d.input(`{"custom_id": 7, "prompt": "hello", "metadata": {"team":"a"}}`, `{"custom_id":"e","input":"hello","model":"embed"}`)
		if s := d.run(); s.UncappedCalls != 1 {
			d.Errorf("%d calls had no cap, want 1: an embedding has no output", s.UncappedCalls)
		}
		out := d.whole("7", "e")
		l := out["7"]
		if string(l.CustomID) != "7" || string(l.LLM.Metadata) != `{"team":"a"}` {
			d.Errorf("got custom_id %s and metadata %s, want them as they came", l.CustomID, l.LLM.Metadata)
		}
		if l.LLM.Attempts != 1 || l.LLM.LatencyMS != 1500 || l.LLM.Model != "small" || l.LLM.Provider != "mock" || l.LLM.Line != 1 || l.LLM.Finish != "stop" {
			d.Errorf("got %+v", l.LLM)
		}
		if l.LLM.Usage.OutputTokens != 5 || l.LLM.Usage.InputTokens == 0 {
			d.Errorf("got usage %+v, want what the answer says", l.LLM.Usage)
		}
		if e := out["e"]; e.LLM.Model != "embed" || !bytes.Contains(e.Response.Body, []byte(`"embedding"`)) {
			d.Errorf("got model %q and body %.80s, want an embedding of model embed", e.LLM.Model, e.Response.Body)
		}
	})
}

func TestEditedLineRunsAgain(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		lines := prompts(5)
		d.input(lines...)
		d.run()
		old := d.lines(d.paths.Output)["p2"]
		calls := d.asked()

		lines[2] = ask("p2", "something else")
		d.input(lines...)
		s := d.run()
		d.wantCalls(calls, 1)
		d.mustTell("1 finished operation changed")
		now := d.whole(ids(5)...)["p2"]
		if now.LLM.Digest == old.LLM.Digest || now.LLM.Key == old.LLM.Key {
			d.Errorf("the edited line has digest %s and key %s as before", now.LLM.Digest, now.LLM.Key)
		}
		if kept := d.lines(d.paths.Superseded)["p2"]; kept == nil || kept.LLM.Digest != old.LLM.Digest {
			d.Errorf("the superseded file holds %+v, want the result of the old line", kept)
		}
		if s.Completed != 5 || s.CompletedNow != 1 {
			d.Errorf("got %d completed, %d now; want 5, 1", s.Completed, s.CompletedNow)
		}
		calls = d.asked()
		d.run()
		d.wantCalls(calls, 0)
	})
}

func TestBlanksAndOrderOfKeysAreNoEdit(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(`{"custom_id":"a","prompt":"hi","temperature":0.50}`)
		d.run()
		calls, before := d.asked(), d.text(d.paths.Output)
		d.input("", `{ "temperature": 0.50, "prompt": "hi", "custom_id": "a" }`)
		d.run()
		d.wantCalls(calls, 0)
		if d.text(d.paths.Output) != before {
			d.Error("the output changed")
		}
	})
}

func TestRemovedLineIsToldAndKept(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(3)...)
		d.run()
		before := d.text(d.paths.Output)
		d.input(prompts(2)...)
		s := d.run()
		d.mustTell("1 operation of earlier runs no longer in the input")
		if s.Operations != 2 || s.Completed != 2 {
			d.Errorf("got %d of %d completed, want 2 of 2", s.Completed, s.Operations)
		}
		if d.text(d.paths.Output) != before {
			d.Error("the output lost the paid result of the removed line")
		}
	})
}

func TestLimitThenWhole(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(30)...)
		s := d.run(func(c *Config) { c.Limit = 20 })
		if s.Completed != 20 || s.Skipped != 10 || s.Pending != 0 || d.asked() != 20 {
			d.Errorf("--limit 20: got %d completed, %d skipped, %d pending, %d calls; want 20, 10, 0, 20", s.Completed, s.Skipped, s.Pending, d.asked())
		}
		for i := range 20 {
			if d.lines(d.paths.Output)[fmt.Sprintf("p%d", i)] == nil {
				d.Errorf("operation p%d is among the first 20 and has no result", i)
			}
		}
		d.run()
		d.whole(ids(30)...)
		if st := d.server.Stats(); st.Asked != 30 || st.TwiceBodies.Operations != 0 {
			d.Errorf("got %d calls, %d billed twice; want 30, 0", st.Asked, st.TwiceBodies.Operations)
		}
		// A limit below what is finished takes nothing back.
		if s := d.run(func(c *Config) { c.Limit = 3 }); s.Completed != 30 || s.Skipped != 0 {
			d.Errorf("--limit 3 of a finished input: got %d completed, %d skipped; want 30, 0", s.Completed, s.Skipped)
		}
	})
}

func TestPriorityOrder(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		var lines []string
		for i, p := range []string{"low", "normal", "high", "low", "high", "normal"} {
			lines = append(lines, fmt.Sprintf(`{"custom_id":"%s%d","prompt":"n %d","priority":%q}`, p, i, i, p))
		}
		d.input(lines...)
		var order bytes.Buffer
		d.run(func(c *Config) { c.Targets[0].Limits.Concurrency, c.Tee = 1, &order })
		var got []string
		for raw := range bytes.Lines(order.Bytes()) {
			l, err := result.Decode(bytes.TrimSpace(raw))
			if err != nil {
				d.Fatal(err)
			}
			got = append(got, l.LLM.Op)
		}
		if want := []string{"high2", "high4", "normal1", "normal5", "low0", "low3"}; !slices.Equal(got, want) {
			d.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestTeeGetsWholeLinesOfTheOutput(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{LatencyJitter: time.Second, Latency: 2 * time.Second}, func(d *desk) {
		d.input(append(prompts(40), ask("bad", "[[fault:policy]]"))...)
		var tee bytes.Buffer
		d.run(func(c *Config) { c.Tee = &tee })
		sorted := func(s string) []string { return slices.Sorted(strings.Lines(s)) }
		if got, want := sorted(tee.String()), sorted(d.text(d.paths.Output)); !slices.Equal(got, want) {
			d.Errorf("the copy differs from the output: %d and %d lines", len(got), len(want))
		}
	})
}

// A reader of standard output that takes its time holds no call back.
func TestSlowTeeHoldsNoCallBack(t *testing.T) {
	d := newDesk(t, t.TempDir(), fake.Config{})
	d.input(prompts(300)...)
	tee := &lateReader{ready: func() bool { return d.server.Stats().Asked == 300 }, late: time.After(10 * time.Second)}
	d.run(func(c *Config) { c.Tee = tee })
	if tee.gaveUp {
		t.Error("calls waited for the reader of standard output")
	}
}

// lateReader takes nothing before it is ready, or it is late.
type lateReader struct {
	ready  func() bool
	late   <-chan time.Time
	gaveUp bool
}

func (l *lateReader) Write(p []byte) (int, error) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !l.ready() && !l.gaveUp {
		select {
		case <-tick.C:
		case <-l.late:
			l.gaveUp = true
		}
	}
	return len(p), nil
}

type brokenPipe struct{ after int }

var errPipe = errors.New("broken pipe")

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.after--; b.after < 0 {
		return 0, errPipe
	}
	return len(p), nil
}

func TestBrokenTeeStopsAndLosesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		d.input(prompts(20)...)
		s, err := d.try(func(c *Config) { c.Tee, c.Targets[0].Limits.Concurrency = &brokenPipe{after: 3}, 1 })
		if !errors.Is(err, errPipe) || s == nil || s.Stop == nil || s.Stop.Kind != StopFatal {
			d.Fatalf("got summary %+v, error %v; want a fatal stop with %v", s, err, errPipe)
		}
		d.run()
		d.whole(ids(20)...)
		if st := d.server.Stats(); st.TwiceBodies.Operations != 0 {
			d.Errorf("%d operations were billed twice", st.TwiceBodies.Operations)
		}
	})
}

func TestInputChangedDuringTheRunStopsIt(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		lines := prompts(2400)
		d.input(lines...)
		s, err := d.try(func(c *Config) {
			c.Targets[0].Client = &watched{Client: c.Targets[0].Client, before: func(n int) {
				if n == 1 {
					lines[2399] = strings.Replace(lines[2399], "tell", "sell", 1)
					d.input(lines...)
				}
			}}
		})
		if !errors.Is(err, input.ErrChanged) {
			d.Fatalf("got error %v, want %v", err, input.ErrChanged)
		}
		if s.Completed == 0 || s.Pending == 0 || s.Completed+s.Pending != 2400 || s.Unknown != 0 {
			d.Errorf("got %d completed, %d pending, %d unknown; want what was in flight completed and the rest pending", s.Completed, s.Pending, s.Unknown)
		}
		if n := int64(len(d.lines(d.paths.Output))); n != s.Completed {
			d.Errorf("the output has %d lines, the summary %d", n, s.Completed)
		}
	})
}

// The row of the last call is committed at once: no other comes to take it along.
func TestLastRowWaitsForNone(t *testing.T) {
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		d.input(ask("a", "one"))
		began := time.Now()
		d.run()
		if took := time.Since(began); took > 1010*time.Millisecond {
			d.Errorf("a call of a second took %v", took)
		}
	})
}
