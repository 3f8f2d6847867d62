package cmd

import (
	"strings"
	"testing"
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
