package runner

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// wantClass checks that an operation is a dead letter of the class.
func (d *desk) wantClass(id, class string) {
	d.Helper()
	l := d.lines(d.paths.Errors)[id]
	switch {
	case l == nil:
		d.Errorf("operation %s is no dead letter, want one of class %s", id, class)
	case l.LLM.Class != class || l.Error == nil || l.Error.Message == "":
		d.Errorf("operation %s: got class %q, error %+v; want class %q and a message", id, l.LLM.Class, l.Error, class)
	}
}

func TestPermanentDeadLettersAreKept(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(append(prompts(3), ask("long", "[[fault:context]]"), ask("rude", "[[fault:policy]]"))...)
		s := d.run()
		if s.Completed != 3 || s.Failed != 2 || s.Pending != 0 || s.Calls != 5 {
			d.Errorf("got %d completed, %d failed, %d pending with %d calls; want 3, 2, 0 with 5", s.Completed, s.Failed, s.Pending, s.Calls)
		}
		d.wantClass("long", "context_length")
		d.wantClass("rude", "content_policy")
		if l := d.lines(d.paths.Errors)["long"]; l != nil && (l.Response == nil || l.Response.StatusCode != 400 || l.Response.RequestID == "") {
			d.Errorf("got response %+v, want status 400 and the provider's request ID", l.Response)
		}
		if l := d.lines(d.paths.Errors)["long"]; l != nil && l.Response != nil && !strings.Contains(string(l.Response.Body), `"code":"context_length_exceeded"`) {
			d.Errorf("got body %s, want the provider's own error", l.Response.Body)
		}
		if len(s.Classes) != 2 || s.Classes[0].Count != 1 || s.Classes[0].Line == 0 {
			d.Errorf("got classes %+v, want two, each with the line of its first", s.Classes)
		}
		calls, before := d.asked(), d.text(d.paths.Errors)
		s = d.run()
		d.wantCalls(calls, 0)
		if s.Failed != 2 || d.text(d.paths.Errors) != before {
			d.Errorf("rerun: got %d failed, errors file changed: %t; want 2, false", s.Failed, d.text(d.paths.Errors) != before)
		}
	})
}

func TestRetryFailedPutsTheNamedClassesBack(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{HonourKeys: true}, func(d *desk) {
		// Each passes at the second call.
		d.input(ask("long", "[[fault:contextx1]]"), ask("rude", "[[fault:policyx1]]"), ask("ok", "fine"))
		d.run()
		old := d.lines(d.paths.Errors)["rude"]
		s := d.run(func(c *Config) { c.RetryFailed = []string{"content_policy"} })
		if s.Completed != 2 || s.Failed != 1 || s.Calls != 1 {
			d.Errorf("one class: got %d completed, %d failed, %d calls; want 2, 1, 1", s.Completed, s.Failed, s.Calls)
		}
		d.wantClass("long", "context_length")
		now := d.lines(d.paths.Output)["rude"]
		if now == nil || now.LLM.Incarnation != 1 || now.LLM.Key == old.LLM.Key || now.LLM.Class != "" {
			d.Errorf("got %+v, want a result of incarnation 1 with a key of its own and no class", now)
		}
		if d.lines(d.paths.Errors)["rude"] != nil {
			d.Error("the errors file still holds the dead letter that was retried")
		}
		d.run(func(c *Config) { c.RetryFailed = []string{"all"} })
		d.whole("long", "rude", "ok")
	})
}

func TestTransientDeadLettersAreTriedAgainByTheNextRun(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(append(prompts(30), ask("ill", "[[fault:500x3]]"))...)
		policy := func(c *Config) { c.Policy = retry.Policy{MaxAttempts: 3} }
		s := d.run(policy)
		if s.Completed != 30 || s.Failed != 1 || s.Retries != 2 {
			d.Fatalf("got %d completed, %d failed, %d retries; want 30, 1, 2", s.Completed, s.Failed, s.Retries)
		}
		d.wantClass("ill", "server")
		s = d.run(policy)
		d.mustTell("1 dead letter put back")
		if s.Completed != 31 || s.Failed != 0 || s.Calls != 1 {
			d.Errorf("rerun: got %d completed, %d failed, %d calls; want 31, 0, 1", s.Completed, s.Failed, s.Calls)
		}
		if left := d.lines(d.paths.Errors); len(left) != 0 {
			d.Errorf("the errors file holds %d lines, want none", len(left))
		}
	})
}

func TestSkippedInvalidLinesAreDeadLettersOnce(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		lines := []string{ask("a", "one"), `{"custom_id":"b","prompt":7}`, `{broken`, ask("a", "again"), ask("c", "three")}
		d.input(lines...)
		if _, err := d.try(); err == nil {
			d.Fatal("the run took an input with invalid lines")
		}
		if d.asked() != 0 || d.exists(d.paths.Checkpoint) || d.exists(d.paths.Output) {
			d.Error("the refused run left calls or files")
		}
		skip := func(c *Config) { c.SkipInvalid = true }
		s := d.run(skip)
		if s.Operations != 5 || s.Completed != 2 || s.Failed != 3 || s.Calls != 2 {
			d.Errorf("got %d operations, %d completed, %d failed, %d calls; want 5, 2, 3, 2", s.Operations, s.Completed, s.Failed, s.Calls)
		}
		before := d.text(d.paths.Errors)
		s = d.run(skip, func(c *Config) { c.RetryFailed = []string{"all"} })
		if s.Failed != 3 || s.Calls != 0 || d.text(d.paths.Errors) != before {
			d.Errorf("rerun: got %d failed, %d calls, errors file\n%s\nwant 3, 0, the same as before\n%s", s.Failed, s.Calls, d.text(d.paths.Errors), before)
		}
		lines[1] = ask("b", "seven")
		d.input(lines...)
		s = d.run(skip)
		if s.Completed != 3 || s.Failed != 2 || d.lines(d.paths.Errors)["b"] != nil {
			d.Errorf("after a line was mended: got %d completed, %d failed; want 3, 2 and no dead letter of the mended one", s.Completed, s.Failed)
		}
	})
}

func TestRequestLargerThanALimitFailsAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{RPM: 60, TPM: 1000}, func(d *desk) {
		big := `{"custom_id":"big","prompt":"hi","max_tokens":1000}`
		free := `{"custom_id":"free","prompt":"no cap is given, so 1024 are reserved"}`
		d.input(big, free, ask("small", "hi"))
		start := time.Now()
		s := d.run(caps(60, 1000))
		d.wantClass("big", "request_exceeds_tpm")
		if s.Completed != 2 || s.Failed != 1 || s.Calls != 2 {
			d.Errorf("got %d completed, %d failed, %d calls; want 2, 1, 2: a learned output makes no request too large", s.Completed, s.Failed, s.Calls)
		}
		if took := time.Since(start); took > 2*time.Minute {
			d.Errorf("it took %v", took)
		}
		// A larger limit lets it go, but has to be asked for by its class.
		d.serve(fake.Config{})
		if s := d.run(caps(60, 100_000)); s.Calls != 0 {
			d.Errorf("with a larger limit alone: got %d calls, want 0", s.Calls)
		}
		d.run(caps(60, 100_000), func(c *Config) { c.RetryFailed = []string{"request_exceeds_tpm"} })
		d.whole("big", "free", "small")
	})
}

// choosy is a client that makes no request of anything.
type choosy struct{}

func (choosy) Do(context.Context, provider.Request) (*provider.Response, error) {
	return nil, &provider.Error{Kind: provider.KindInvalid, Message: "field logit_bias cannot be carried over", Rate: provider.NoRate()}
}

// A line of which the client can make no request for its provider fails by name,
// and is no call.
func TestWhatIsNotSentIsNoCall(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(3)...)
		s := d.run(func(c *Config) { c.Targets[0].Client = choosy{} })
		if s.Failed != 3 || s.Calls != 0 || s.Retries != 0 || s.TokensReserved != 0 || s.UncappedCalls != 0 {
			d.Errorf("got %d failed, %d calls, %d retries, %d tokens reserved; want 3 and none", s.Failed, s.Calls, s.Retries, s.TokensReserved)
		}
		d.wantClass("p1", "invalid")
	})
}
