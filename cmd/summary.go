package cmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/limit"
)

// table is rows of a name and a text, which are folded to a terminal's width.
type table struct {
	rows [][2]string
}

func (t *table) row(name, format string, args ...any) {
	t.rows = append(t.rows, [2]string{name, clean(fmt.Sprintf(format, args...))})
}

func (t *table) print(w io.Writer, width int) error {
	pad := 0
	for _, r := range t.rows {
		pad = max(pad, len(r[0])+2)
	}
	for _, r := range t.rows {
		if _, err := fmt.Fprintln(w, fold(fmt.Sprintf("%-*s%s", pad, r[0], r[1]), pad, width)); err != nil {
			return err
		}
	}
	return nil
}

// printSummary tells how a run ended, so that a person can act on it; width is
// that of the terminal, 0 = none, gone says that the input will not be there any
// more, and hold that calls of unknown outcome are left alone.
func printSummary(w io.Writer, s *runner.Summary, width int, gone, hold bool) {
	fmt.Fprintln(w)
	t := &table{}
	t.row("operations", "%s: %s completed, %s failed, %s pending, %s unknown, %s skipped", grouped(s.Operations),
		grouped(s.Completed), grouped(s.Failed), grouped(s.Pending), grouped(s.Unknown), grouped(s.Skipped))
	t.row("this run", "%s in %s: %s, %s, %s refused for their rate", count(s.Calls, "call"), seconds(s.Seconds),
		count(s.CompletedNow, "result"), retries(s.Retries), grouped(s.RateLimited))
	rowsOfOutcomes(t, s, hold)
	rowsOfPace(t, s)
	if s.Cost != "" {
		t.row("cost", "%s", s.Cost)
	}
	t.row("results", "%s", s.Files.Output)
	if s.Failed > 0 {
		t.row("errors", "%s", s.Files.Errors)
	}
	switch {
	case s.Stop != nil || s.Failed > 0 || s.Completed == 0:
	case gone:
		t.row("next", "… | llmbatch results %s --format text (… is the same input again)", asPiped(s.Files))
	default:
		t.row("next", "llmbatch results %s --format text", asGiven(s.Files))
	}
	_ = t.print(w, width) // a stderr that is gone changes nothing
	say := func(format string, args ...any) { fmt.Fprintln(w, fold(fmt.Sprintf(format, args...), 0, width)) }
	switch {
	case s.Stop != nil && s.Stop.Kind == runner.StopFatal:
		return // its error is told after this
	case s.Stop != nil:
		say("llmbatch: stopped: %s", clean(firstLine(s.Stop.Reason)))
		if !s.Stop.Until.IsZero() {
			say("llmbatch: come back at %s", s.Stop.Until.Local().Format(time.DateTime))
		}
		say("hint: %s", clean(s.Stop.Hint))
	case s.Failed > 0:
		say("hint: llmbatch results %s --failed shows the failures%s", clean(asGiven(s.Files)), again(s))
	}
}

// rowsOfOutcomes tell what did not end as it should.
func rowsOfOutcomes(t *table, s *runner.Summary, hold bool) {
	if s.Unreached > 0 {
		t.row("not connected", "%s, and nothing was sent", count(s.Unreached, "time"))
	}
	if s.LookedUp > 0 {
		t.row("looked up", "%s, lost on the way and fetched by id", count(s.LookedUp, "answer"))
	}
	if s.Suppressed > 0 {
		t.row("duplicates", "%s took the outcome of an identical request, without a call (--dedupe)", grouped(s.Suppressed))
	}
	if s.CacheHits > 0 {
		t.row("kept answers", "%s without a call (--cache)", grouped(s.CacheHits))
	}
	for _, c := range s.Classes {
		example := ""
		if c.Example != "" {
			example = fmt.Sprintf(" (line %d: %s)", c.Line, firstLine(c.Example))
		}
		t.row("failed", "%s %s%s", grouped(c.Count), c.Name, example)
	}
	for _, f := range s.Fallbacks {
		t.row("fallback", "%s from %s to %s (%s)", grouped(f.Count), f.From, f.To, f.Reason)
	}
	rowsOfPressure(t, s)
	if calls := s.PossiblyTwice + s.TwiceBefore; calls > 0 { // as status counts them
		billed := "possibly billed"
		if s.SentAgain {
			billed += " twice"
		}
		if hold && s.Unknown > 0 {
			billed += " (--on-unknown retry sends them again)"
		}
		t.row("unknown outcome", "%s, %s: %s", count(calls, "call"), billed, listed(doubted(s)))
	}
	if s.Truncated > 0 {
		t.row("cut off", "%s ended at the output cap (finish: length)", count(s.Truncated, "answer"))
	}
	if s.Refused > 0 {
		t.row("refused", "%s by the model or a filter", count(s.Refused, "answer"))
	}
}

// rowsOfPace tell what the run took from its limits, and what bound it.
func rowsOfPace(t *table, s *runner.Summary) {
	t.row("tokens", "%s reserved, %s used", grouped(s.TokensReserved), grouped(s.TokensUsed))
	if s.UncappedCalls > 0 {
		how := "by default"
		if s.LearnedOutput {
			how = "learned from the outputs"
		}
		t.row("", "%s without an output cap reserved %s output tokens each (%s)", count(s.UncappedCalls, "call"), grouped(s.ReservedOutput), how)
	}
	if advice := spareTokens(s); advice != "" {
		t.row("", "%s", advice)
	}
	for _, c := range s.Charged {
		t.row("accounting", "%s, as the headers of %s show (was: %s)", c.As, c.Target, c.Was)
	}
	if s.Calls > 1 {
		t.row("reached", "%s and %s in the busiest minute%s", count(s.PeakRequests, "request"), count(s.PeakTokens, "token"), against(s.Limits))
	}
	if text := boundBy(s.Bounds); text != "" {
		t.row("bound by", "%s", text)
	}
}

// boundBy names what held the run back for a good part of its time.
func boundBy(all []runner.Bound) string {
	const least, shown, share = 2.0, 3, 0.05
	whole := 0.0
	for _, b := range all {
		whole += b.Seconds
	}
	if whole < least {
		return "" // too short to say
	}
	var parts []string
	for _, b := range all[:min(shown, len(all))] {
		if b.Share >= share {
			name := boundName(b.By)
			if b.Target != "" {
				name = b.Target + ": " + name
			}
			parts = append(parts, fmt.Sprintf("%s (%.0f%% of the time)", name, 100*b.Share))
		}
	}
	return strings.Join(parts, ", ")
}

// boundName says in words what a run waited for.
func boundName(by string) string {
	switch limit.Reason(by) {
	case "answers":
		return "the answers themselves"
	case limit.AtSpread:
		return "the spread of calls over one round trip"
	case limit.AtEvenPace:
		return "an even pace (--burst, or what the server wants)"
	case limit.AtServer:
		return "the quota that the server says remains"
	case limit.AfterRefusal:
		return "pauses after refusals"
	case limit.AfterHint:
		return "pauses that the provider asked for"
	}
	return by
}

// spareTokens is the advice where the token limit bound a run that reserved far
// more than came.
func spareTokens(s *runner.Summary) string {
	share := 0.0
	for _, b := range s.Bounds {
		switch b.By {
		case "tpm", "itpm", "otpm", "tpd":
			share += b.Share
		}
	}
	if share < 0.3 || 2*s.TokensReserved < 3*s.TokensUsed || s.UncappedCalls == s.Calls {
		return ""
	}
	return "the token limit bound, and much was reserved that was not used: lower max_tokens, or try --reserve learned"
}

// rowsOfPressure tell what the run gave up to be in time.
func rowsOfPressure(t *table, s *runner.Summary) {
	var levels, gave []string
	for _, p := range s.Pressure {
		levels = append(levels, p.Level+" for "+seconds(p.Seconds))
	}
	if len(levels) > 0 {
		t.row("pressure", "%s", strings.Join(levels, ", "))
	}
	for _, name := range runner.Gives() {
		if n := s.DegradedBy[name]; n > 0 {
			gave = append(gave, grouped(n)+" "+name)
		}
	}
	if s.Degraded > 0 {
		t.row("degraded", "%s: %s", count(s.Degraded, "result"), strings.Join(gave, ", "))
	}
	if s.HeldBack > 0 {
		t.row("held back", "%s under pressure", count(s.HeldBack, "operation"))
	}
}

// again says how failures are sent once more, as far as they can be.
func again(s *runner.Summary) (how string) {
	invalid, hopeless := int64(0), int64(0)
	for _, c := range s.Classes {
		switch {
		case c.Name == runner.ClassInvalid:
			invalid = c.Count
		case runner.Hopeless(c.Name):
			hopeless += c.Count
		}
	}
	switch more := s.Failed - invalid - hopeless; {
	case more > 0:
		how += "; run again with --retry-failed to send them once more"
	case hopeless > 0:
		how += "; as they are they would fail again: a line that is edited is sent by itself"
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

// doubted are the operations of calls of unknown outcome, each once.
func doubted(s *runner.Summary) []string {
	all := slices.Clone(s.OpsBefore)
	for _, id := range s.UnknownOps {
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}

// listed names the first of the operations; their list is cut as well, so that
// its length tells no number.
func listed(ids []string) string {
	const shown = 10
	text := strings.Join(ids[:min(shown, len(ids))], ", ")
	if len(ids) > shown {
		text += " and more (llmbatch status --unknown lists them)"
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
