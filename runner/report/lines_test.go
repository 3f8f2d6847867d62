package report

import (
	"testing"

	"github.com/llmbatch/llmbatch/runner/result"
)

// lineOf is a line of an errors file.
func lineOf(t *testing.T, class, message string, number int) *result.Line {
	t.Helper()
	return &result.Line{
		Response: &result.Response{StatusCode: 400}, Error: &result.Error{Code: class, Message: message},
		LLM: result.Meta{Op: class, Class: class, Line: number, Provider: "house", Model: "small"},
	}
}

func TestFailuresNameTheFirstLine(t *testing.T) {
	f := failures{}
	for _, n := range []int{9, 4, 12} {
		f.add(lineOf(t, "server", "oops", n))
	}
	f.add(lineOf(t, "invalid_line", "not JSON", 2))
	got := f.sorted()
	if len(got) != 2 || got[0].Class != "server" || got[0].Count != 3 || got[0].Line != 4 || got[0].Target != "house/small" || got[0].Status != 400 {
		t.Errorf("got %+v", got)
	}
	if got[1].Advice != "mend the line in the input, then run again" {
		t.Errorf("got advice %q", got[1].Advice)
	}
}
