package cmd

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmbatch/llmbatch/runner"
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
	invalid, other := runner.Class{Name: runner.ClassInvalid, Count: 2}, runner.Class{Name: "context_length", Count: 1}
	const retry, mend = "run again with --retry-failed", "once it is mended"
	for _, test := range []struct {
		classes     []runner.Class
		retry, mend bool
	}{
		{[]runner.Class{invalid}, false, true},
		{[]runner.Class{other}, true, false},
		{[]runner.Class{invalid, other}, true, true},
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
	if got := listed(strings.Split("abcdefghijk", "")); got != "a, b, c, d, e, f, g, h, i, j and more (llmbatch status --json lists them)" {
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
		{progressBar, true, -1}, {progressBar, false, 2}, {progressPlain, true, 2}, {progressJSON, true, 27}, {progressNone, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			env := docEnv(&out, nil)
			env.IsTTY = func() bool { return test.tty }
			p := newProgress(env, test.form)
			for i := range 251 {
				p.update(runner.Progress{Total: 1000, Done: i, InFlight: 2})
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
