package cmd

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/llmbatch/llmbatch/runner"
)

// printSummary tells how a run ended, so that a person can act on it.
func printSummary(w io.Writer, s *runner.Summary) {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, clean(fmt.Sprintf(format, args...)))
	}
	row("operations", "%s: %s completed, %s failed, %s pending, %s unknown, %s skipped", grouped(s.Operations),
		grouped(s.Completed), grouped(s.Failed), grouped(s.Pending), grouped(s.Unknown), grouped(s.Skipped))
	row("this run", "%s in %s: %s, %s, %s refused for their rate", count(s.Calls, "call"), seconds(s.Seconds),
		count(s.CompletedNow, "result"), retries(s.Retries), grouped(s.RateLimited))
	for _, c := range s.Classes {
		example := ""
		if c.Example != "" {
			example = fmt.Sprintf(" (line %d: %s)", c.Line, firstLine(c.Example))
		}
		row("failed", "%s %s%s", grouped(c.Count), c.Name, example)
	}
	for _, f := range s.Fallbacks {
		row("fallback", "%s from %s to %s (%s)", grouped(f.Count), f.From, f.To, f.Reason)
	}
	if s.PossiblyTwice > 0 {
		row("unknown outcome", "%s, possibly billed twice: %s", count(s.PossiblyTwice, "call"), listed(s.UnknownOps))
	}
	if s.Truncated > 0 {
		row("cut off", "%s ended at the output cap (finish: length)", count(s.Truncated, "answer"))
	}
	if s.Refused > 0 {
		row("refused", "%s by the model or a filter", count(s.Refused, "answer"))
	}
	row("tokens", "%s reserved, %s used", grouped(s.TokensReserved), grouped(s.TokensUsed))
	if s.UncappedCalls > 0 {
		how := "by default"
		if s.LearnedOutput {
			how = "learned from the outputs"
		}
		row("", "%s without an output cap reserved %s output tokens each (%s)", count(s.UncappedCalls, "call"), grouped(s.ReservedOutput), how)
	}
	if s.Calls > 1 {
		row("reached", "%s and %s in the busiest minute%s", count(s.PeakRequests, "request"), count(s.PeakTokens, "token"), against(s.Limits))
	}
	if s.Cost != "" {
		row("cost", "%s", s.Cost)
	}
	row("results", "%s", s.Files.Output)
	if s.Failed > 0 {
		row("errors", "%s", s.Files.Errors)
	}
	t.Flush()
	if s.Stop != nil && s.Stop.Kind == runner.StopFatal {
		return // its error is told after this
	}
	if s.Stop != nil {
		fmt.Fprintf(w, "llmbatch: stopped: %s\n", clean(firstLine(s.Stop.Reason)))
		if !s.Stop.Until.IsZero() {
			fmt.Fprintf(w, "llmbatch: come back at %s\n", s.Stop.Until.Local().Format(time.DateTime))
		}
		fmt.Fprintf(w, "hint: %s\n", clean(s.Stop.Hint))
		return
	}
	if s.Failed > 0 {
		fmt.Fprintf(w, "hint: llmbatch results %s --failed shows the failures%s\n", clean(s.Files.Input), again(s))
	}
}

// again says how failures are sent once more, as far as they can be.
func again(s *runner.Summary) (how string) {
	invalid := int64(0)
	for _, c := range s.Classes {
		if c.Name == runner.ClassInvalid {
			invalid = c.Count
		}
	}
	if s.Failed > invalid {
		how += "; run again with --retry-failed to send them once more"
	}
	if invalid > 0 {
		how += "; an invalid line is sent once it is mended in the input"
	}
	return how
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Millisecond).String()
}

func retries(n int64) string {
	if n == 1 {
		return "1 retry"
	}
	return grouped(n) + " retries"
}

func against(limits []runner.Use) string {
	var parts []string
	for _, u := range limits {
		how := ""
		if u.Learned {
			how = ", learned"
		}
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s%s", u.Target, u.Name, grouped(u.N), how)))
	}
	if parts == nil {
		return ""
	}
	return " (limits: " + strings.Join(parts, "; ") + ")"
}

// listed names the first of the operations; their list is cut as well, so that
// its length tells no number.
func listed(ids []string) string {
	const shown = 10
	text := strings.Join(ids[:min(shown, len(ids))], ", ")
	if len(ids) > shown {
		text += " and more (llmbatch status --json lists them)"
	}
	return text
}

func firstLine(s string) string {
	line, _, more := strings.Cut(s, "\n")
	if r := []rune(line); len(r) > 300 {
		return string(r[:300]) + "…"
	}
	if more {
		return line + " …"
	}
	return line
}
