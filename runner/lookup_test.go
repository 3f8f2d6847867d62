package runner

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

// respond is a line for the Responses API, whose answers can be looked up.
func respond(id, input string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/responses","body":{"model":"small","input":%q,"max_output_tokens":8}}`, id, input)
}

// losing makes n such lines of which each third loses its first answer by the
// fault.
func losing(n int, fault string) []string {
	lines := make([]string, n)
	for i := range lines {
		text := fmt.Sprintf("number %d", i)
		if i%3 == 0 {
			text = "[[fault:" + fault + "x1]] " + text
		}
		lines[i] = respond(fmt.Sprintf("p%d", i), text)
	}
	return lines
}

func streaming(c *Config) { c.Stream = true }

// Answers that were lost on their way are fetched, not paid for again, from a
// server that knows no keys.
func TestLostAnswersAreLookedUp(t *testing.T) {
	for _, fault := range []string{"stream_lost=1", "stream_undone", "stream_lost=0"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
				d.input(losing(30, fault)...)
				s := d.run(streaming)
				d.wantCalls(0, 30)
				out, rows := d.whole(ids(30)...), d.rows()
				if s.Calls != 30 || s.Retries != 0 || s.LookedUp != 10 || s.PossiblyTwice != 0 || len(s.UnknownOps) != 0 {
					d.Errorf("got %d calls, %d retries, %d looked up, %d possibly billed twice %q; want 30, 0, 10, 0", s.Calls, s.Retries, s.LookedUp, s.PossiblyTwice, s.UnknownOps)
				}
				if st := d.server.Stats(); st.Lookups != 10 || st.Billed != 30 || st.TwiceBodies.Operations != 0 {
					d.Errorf("got %d look-ups, %d billed, %d twice; want 10, 30, 0", st.Lookups, st.Billed, st.TwiceBodies.Operations)
				}
				l, op := out["p0"], rows["p0"]
				if m := l.LLM; !m.LookedUp || m.Attempts != 1 || m.Usage.OutputTokens != 8 || m.Finish == "" || out["p1"].LLM.LookedUp {
					d.Errorf("got %+v", m)
				}
				if a := op.Attempts; len(a) != 1 || !a[0].LookedUp || a[0].AnswerID == "" || a[0].Class != "" || a[0].StatusCode != 200 || op.Status != checkpoint.Completed {
					d.Errorf("got row %+v", op)
				}
			})
		})
	}
}

// An answer that did not come whole without a stream begins with its id.
func TestLostBodiesAreLookedUp(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		d.input(append(losing(9, "truncated"), respond("kept", `x`), respond("unkept", "[[fault:shortx1]]"))...)
		s := d.run()
		if s.Completed != 11 || s.LookedUp != 4 || s.Calls != 11 || s.PossiblyTwice != 0 {
			d.Errorf("got %d completed, %d looked up, %d calls, %d possibly billed twice; want 11, 4, 11, 0", s.Completed, s.LookedUp, s.Calls, s.PossiblyTwice)
		}
	})
}

// What was cancelled has no answer to come: it is asked again, and may be billed
// as far as it came. What forbids storing, or has no such API, goes as ever.
func TestLookUpOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		d.input(
			respond("cancelled", "[[fault:stream_cut=1x1]] a"),
			`{"custom_id":"private","method":"POST","url":"/v1/responses","body":{"model":"small","store":false,"input":"[[fault:stream_lost=1x1]] b"}}`,
			ask("chat", "[[fault:stream_cut=1x1]] c"),
		)
		s := d.run(streaming)
		if s.Completed != 3 || s.LookedUp != 0 || s.Retries != 3 || s.PossiblyTwice != 3 || len(s.UnknownOps) != 3 {
			d.Errorf("got %d completed, %d looked up, %d retries, %d possibly billed twice %q; want 3, 0, 3, 3", s.Completed, s.LookedUp, s.Retries, s.PossiblyTwice, s.UnknownOps)
		}
		if n := d.server.Stats().Lookups; n != 1 {
			d.Errorf("got %d look-ups, want 1", n)
		}
	})
}

// Held operations, lines that must not be sent twice, and those whose attempts
// are spent are looked up first, too.
func TestLookUpBeforeHoldingAndGivingUp(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		never := `{"custom_id":"never","method":"POST","url":"/v1/responses","retry":"never","body":{"model":"small","input":"[[fault:stream_lost=1x1]] a"}}`
		d.input(never, respond("held", "[[fault:stream_lost=1x1]] b"), respond("gone", "[[fault:stream_cut=1]] c"), ask("chat", "[[fault:stream_cut=1]] d"))
		s := d.run(streaming, hold)
		if s.Completed != 2 || s.Unknown != 2 || s.LookedUp != 2 || s.Calls != 4 {
			d.Errorf("got %d completed, %d unknown, %d looked up, %d calls; want 2, 2, 2, 4", s.Completed, s.Unknown, s.LookedUp, s.Calls)
		}
		s = d.run(streaming, func(c *Config) { c.Policy.MaxAttempts = 1 })
		if s.Failed != 2 || s.Completed != 2 {
			d.Errorf("got %d failed, %d completed; want 2, 2", s.Failed, s.Completed)
		}
		d.wantClass("gone", "outcome_unknown")
	})
}

// deaf is a client that cannot look anything up.
type deaf struct{ provider.Client }

// The next start asks for an answer under the id that the row has, whatever the
// run before meant to do about it.
func TestLookUpAfterARestart(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		d.input(respond("p0", "[[fault:stream_lost=1]] long"))
		d.run(streaming, hold, func(c *Config) { c.Targets[0].Client = deaf{d.client} })
		if op := d.rows()["p0"]; op.Status != checkpoint.Unknown || op.Attempts[0].AnswerID == "" {
			d.Fatalf("got row %+v, want the answer's id in it", op)
		}
		s := d.run(streaming)
		d.wantCalls(0, 1)
		if l := d.whole("p0")["p0"]; !l.LLM.LookedUp || s.LookedUp != 1 || s.Calls != 0 || s.PossiblyTwice != 0 {
			d.Errorf("got %+v and %+v", l.LLM, s)
		}
	})
}

// slow is a client whose look-ups find a call at work for a while, or fail.
type slow struct {
	provider.Client
	found []func() (*provider.Found, error)
	at    []time.Time
}

func (c *slow) LookUp(context.Context, provider.Request, string) (*provider.Found, error) {
	c.at = append(c.at, time.Now())
	return c.found[min(len(c.at), len(c.found))-1]()
}

func TestLookUpWaits(t *testing.T) {
	running := func() (*provider.Found, error) { return &provider.Found{Fate: provider.FateRunning}, nil }
	failing := func() (*provider.Found, error) {
		return nil, &provider.Error{Kind: provider.KindServer, Rate: provider.NoRate()}
	}
	answered := func() (*provider.Found, error) {
		return &provider.Found{Fate: provider.FateAnswered, Response: &provider.Response{StatusCode: 200, Body: []byte(`{}`), Finish: "stop", Done: time.Now()}}, nil
	}
	for _, tt := range []struct {
		name    string
		found   []func() (*provider.Found, error)
		looks   int
		retries int64
	}{
		{"found at last", []func() (*provider.Found, error){running, running, running, answered}, 4, 0},
		{"found after failures", []func() (*provider.Found, error){failing, failing, answered}, 3, 0},
		{"failing", []func() (*provider.Found, error){failing}, maxLookFailures, 1},
		{"running for ever", []func() (*provider.Found, error){running}, 33, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, fake.Config{}, func(d *desk) {
				d.input(respond("p0", "[[fault:stream_lost=1x1]] a"))
				c := &slow{Client: d.client, found: tt.found}
				s := d.run(streaming, func(cfg *Config) { cfg.Targets[0].Client = c })
				d.whole("p0")
				if len(c.at) != tt.looks || s.Retries != tt.retries {
					d.Errorf("got %d look-ups, %d retries; want %d, %d", len(c.at), s.Retries, tt.looks, tt.retries)
				}
				for i := 1; i < len(c.at); i++ {
					if gap := c.at[i].Sub(c.at[i-1]); gap < lookAgain || gap > lookSlowly+time.Second {
						d.Errorf("look-up %d came after %s", i, gap)
					}
				}
			})
		})
	}
}

// mute is a client whose look-ups get no answer.
type mute struct{ provider.Client }

func (mute) LookUp(ctx context.Context, _ provider.Request, _ string) (*provider.Found, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A server that does not answer look-ups costs them their own short time, not
// that of a call.
func TestLookUpWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(respond("p0", "[[fault:stream_lost=1x1]] a"))
		began := time.Now()
		s := d.run(streaming, func(cfg *Config) { cfg.Targets[0].Client = mute{d.client} })
		d.whole("p0")
		if took := time.Since(began); s.Retries != 1 || s.PossiblyTwice != 1 || took > maxLookFailures*(lookTimeout+lookSlowly) {
			d.Errorf("got %d retries, %d possibly billed twice after %s; want 1, 1 within %d look-ups", s.Retries, s.PossiblyTwice, took, maxLookFailures)
		}
	})
}
