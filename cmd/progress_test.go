package cmd

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/limit"
)

func TestDescribe(t *testing.T) {
	until := time.Now().Add(30 * time.Hour)
	for _, test := range []struct {
		name string
		p    runner.Progress
		want string
	}{
		{"nothing to do", runner.Progress{}, "0/0 done (100%), 0 in flight"},
		{
			"under way",
			runner.Progress{Total: 12000, Done: 1500, Dead: 2, InFlight: 8, Delayed: 3, RequestsMinute: 480, RPM: 500, TokensMinute: 61000, Remaining: 1261400 * time.Millisecond, Cost: "0.75"},
			"1,500/12,000 done (12%), 8 in flight, 3 delayed, 2 failed, 480/500 rpm, 61,000 tpm, cost 0.75, about 21m1s left",
		},
		{
			"waiting for days",
			runner.Progress{Total: 2, Done: 1, Limiting: "rpd", Until: until},
			"1/2 done (50%), 0 in flight, limited by rpd until " + until.Format(time.DateTime),
		},
	} {
		if got := describe(test.p); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}

func TestSummaryHints(t *testing.T) {
	invalid, other := runner.Class{Name: runner.ClassInvalid, Count: 2}, runner.Class{Name: "empty_answer", Count: 1}
	long, large := runner.Class{Name: "context_length", Count: 1}, runner.Class{Name: "request_exceeds_tpm", Count: 1}
	const retry, mend = "run again with --retry-failed", "once it is mended"
	for _, test := range []struct {
		classes     []runner.Class
		retry, mend bool
	}{
		{[]runner.Class{invalid}, false, true},
		{[]runner.Class{other}, true, false},
		{[]runner.Class{invalid, other}, true, true},
		{[]runner.Class{long, large}, false, false},
		{[]runner.Class{long, other}, true, false},
	} {
		s := &runner.Summary{Classes: test.classes}
		for _, c := range test.classes {
			s.Failed += c.Count
		}
		got := again(s)
		if strings.Contains(got, retry) != test.retry || strings.Contains(got, mend) != test.mend {
			t.Errorf("%+v: got %q", test.classes, got)
		}
	}
}

func TestListed(t *testing.T) {
	if got := listed([]string{"a", "b"}); got != "a, b" {
		t.Errorf("got %q", got)
	}
	if got := listed(strings.Split("abcdefghijk", "")); got != "a, b, c, d, e, f, g, h, i, j and more (llmbatch status --unknown lists them)" {
		t.Errorf("got %q", got)
	}
}

// TestProgressForms: which lines a run of 25 seconds gets in each form.
func TestProgressForms(t *testing.T) {
	for _, test := range []struct {
		form string
		tty  bool
		want int // lines; -1 = a bar
	}{
		{progressBar, true, -1}, {progressBar, false, 3}, {progressPlain, true, 3}, {progressJSON, true, 27}, {progressNone, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			env := docEnv(&out, nil)
			env.IsTTY = func() bool { return test.tty }
			p := newProgress(env, test.form)
			for i := range 251 {
				p.update(runner.Progress{Total: 1000, Done: i, InFlight: 2, Calls: int64(i)})
				time.Sleep(100 * time.Millisecond)
			}
			p.close()
			if bar := strings.ContainsAny(out.String(), "\r\x1b"); bar != (test.want < 0) {
				t.Errorf("%s: a bar is drawn: %t", test.form, bar)
			}
			if n := strings.Count(out.String(), "\n"); test.want >= 0 && n != test.want {
				t.Errorf("%s: got %d lines, want %d: %s", test.form, n, test.want, &out)
			}
			if test.form == progressJSON && !strings.Contains(out.String(), `"total":1000,"done":250,"failed":0,"in_flight":2,`) {
				t.Errorf("the last figures are missing: %s", &out)
			}
		})
	}
}

// TestBarKeepsToItsLine: whatever the width, a drawing has less columns than the
// terminal, names what limits, and erases what stood there.
func TestBarKeepsToItsLine(t *testing.T) {
	s := runner.Progress{
		Total: 12_000, Dead: 2, InFlight: 128, Delayed: 3, Rate: 411.5, RequestsMinute: 480, RPM: 500, TokensMinute: 61_000, TPM: 200_000,
		Remaining: 21*time.Minute + time.Second, Cost: "0.75", Limiting: "provider's hint", Until: time.Now().Add(time.Minute),
	}
	for columns := 1; columns < 220; columns++ {
		var out bytes.Buffer
		b := &bar{w: &out}
		for _, s.Done = range []int{0, 1, 6_000, 11_999, 12_000} {
			out.Reset()
			b.draw(s, columns)
			text, ok := strings.CutPrefix(out.String(), "\r")
			text, tail := strings.CutSuffix(text, "\x1b[J\r")
			if !ok || !tail || len(text) >= columns || strings.ContainsAny(text, "\r\n\x1b") {
				t.Fatalf("%d columns: got %q", columns, &out)
			}
			if columns >= 40 && !strings.Contains(text, "paused") {
				t.Errorf("%d columns: %q does not say what limits", columns, text)
			}
			if columns >= 200 && !strings.HasSuffix(text, "412 a minute, 128 in flight, 3 delayed, 2 failed, 480/500 rpm, 61,000/200,000 tpm, cost 0.75, about 21m1s left, paused as the provider asked until "+s.Until.Format(time.TimeOnly)) {
				t.Errorf("%d columns: something is missing in %q", columns, text)
			}
		}
	}
}

func TestFold(t *testing.T) {
	for _, test := range []struct {
		text          string
		indent, width int
		want          string
	}{
		{"no bound is needed here", 2, 0, "no bound is needed here"},
		{"short", 0, 40, "short"},
		{"tokens  one two three", 8, 16, "tokens  one two\n        three"},
		{"a word\\u001b that is tooooooooo long", 2, 10, "a word\\u0\n  01b\n  that is\n  toooooo\n  ooo\n  long"},
		{"see /a/path/that/is/long for it", 2, 12, "see\n  /a/path/that/is/long\n  for it"},
		{"two lines\nof their own", 0, 10, "two lines\nof their\nown"},
	} {
		if got := fold(test.text, test.indent, test.width); got != test.want {
			t.Errorf("%q in %d columns: got %q, want %q", test.text, test.width, got, test.want)
		}
	}
}

// An even pace is the user's own burst or the server's wish; its words are true
// for both.
func TestEvenPaceIsNotTheServersAlone(t *testing.T) {
	if got := boundName(string(limit.AtEvenPace)); !strings.Contains(got, "--burst") {
		t.Errorf("got %q, want --burst named", got)
	}
}
