package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/runner"
)

// classWords is a class of failed calls as people read it.
func classWords(class string) string {
	if class == runner.ClassUnknown {
		return "unknown outcome"
	}
	return class
}

// words says what held calls back. With several limit groups, its name ends with
// that of the group.
func (d *Data) words(what string) string {
	for _, group := range d.groups() {
		if bare, ok := strings.CutSuffix(what, " of "+group); ok && group != "" {
			if l, ok := d.limit(bare, group); ok {
				return l.words() + " of " + group
			}
			if n := d.ceiling(group); bare == "concurrency" && n > 0 {
				return fmt.Sprintf("the ceiling of %d calls at once (concurrency, given) of %s", n, group)
			}
			return d.words(bare) + " (" + group + ")"
		}
	}
	if len(d.Targets) > 0 {
		if l, ok := d.limit(what, d.Targets[0].Group); ok {
			return l.words()
		}
	}
	switch what {
	case "":
		return "nothing: calls went as they came, or the last answers were waited for"
	case "concurrency":
		if n := d.sum.Concur.Sum(); n > 0 && !d.group() {
			return fmt.Sprintf("the ceiling of %d calls at once (--concurrency)", n)
		}
		return "the number of calls at once, which grows with the answers"
	case "remaining quota":
		return "what the server said remains of its limit"
	case "even pace":
		return "the even pace that keeps under a limit after a refusal, or the burst given"
	case "round trip":
		return "the spread of calls over one round trip"
	case "rate limited":
		return "the pause after a refusal"
	case "provider's hint":
		return "the pause that the provider asked for when it refused"
	case "first call after a pause":
		return "the single call that goes first after a pause"
	case "daily limit":
		return "a spent daily limit"
	case "provider down":
		return "the provider, which did not answer"
	case "open circuit":
		return "a target that kept failing, and was tried again from time to time"
	case "retry":
		return "the waits before calls are made again"
	case "cost bound":
		return "the cost bound (--max-cost)"
	default:
		return what
	}
}

func (l *Limit) words() string {
	how := "given"
	if l.Learned {
		how = "learned from the server"
	}
	return fmt.Sprintf("the limit of %s %s (%s, %s)", grouped(l.N), unitOf(l.Limit.Name), l.Limit.Name, how)
}

// unitOf is what a limit counts.
func unitOf(limit string) string {
	switch limit {
	case "rpm":
		return "requests a minute"
	case "tpm":
		return "tokens a minute"
	case "itpm":
		return "input tokens a minute"
	case "otpm":
		return "output tokens a minute"
	case "rpd":
		return "requests a day"
	case "tpd":
		return "tokens a day"
	default:
		return limit
	}
}

// summarise answers what somebody asks who has not seen the run.
func (d *Data) summarise() {
	say := func(question, text string) {
		if text != "" {
			d.Summary = append(d.Summary, Answer{question, text})
		}
	}
	say("What ran", d.whatRan())
	say("How it ended", d.howEnded())
	say("What limited it", d.whatLimited())
	say("What failed", d.whatFailed())
	say("What would make it faster", d.whatHelps())
}

func (d *Data) whatRan() string {
	to := []string{}
	for _, t := range d.Targets {
		to = append(to, t.name())
	}
	text := runner.Count(d.Operations, "operation") + " of " + d.Input
	if len(to) > 0 {
		text += fmt.Sprintf(" in %s to %s", runner.Count(d.Calls, "call"), list(to, 4))
	}
	text += fmt.Sprintf(": %s completed", grouped(d.Completed))
	if d.Degraded > 0 {
		text += fmt.Sprintf(" (%s of them gave something up under pressure)", grouped(d.Degraded))
	}
	text += fmt.Sprintf(", %s failed", grouped(d.Failed))
	for _, more := range []struct {
		n    int64
		what string
	}{{d.Pending, "pending"}, {d.InFlight, "in flight"}, {d.Unknown, "of unknown outcome"}} {
		if more.n > 0 {
			text += fmt.Sprintf(", %s %s", grouped(more.n), more.what)
		}
	}
	if n := total(d.Fallbacks); n > 0 {
		text += fmt.Sprintf(", %s to another model", runner.Count(n, "move"))
	}
	if d.Cost != "" {
		text += ", at a cost of " + d.Cost
	}
	return text + "."
}

func (t *Target) name() string {
	if t.Model == "" {
		return t.Provider
	}
	return t.Provider + "/" + t.Model
}

func (d *Data) howEnded() string {
	n := len(d.Runs)
	if n == 0 && d.Running > 0 {
		return fmt.Sprintf("It is still running (process %d), and keeps no samples.", d.Running)
	}
	if n == 0 {
		return "Not known: this checkpoint has no samples. It was written by an earlier version, or nothing was sent."
	}
	if n == 1 && d.Runs[0].Folded == 0 {
		return "It " + d.Runs[0].ended(d.Running) + "."
	}
	text, earlier, killed := "", n-1, 0
	for _, r := range d.Runs {
		earlier += r.Folded
	}
	for _, r := range d.Runs[:n-1] {
		if r.End == stateKilled {
			killed++
		}
	}
	text = fmt.Sprintf("The last of %d runs %s", earlier+1, d.Runs[n-1].ended(d.Running))
	switch {
	case killed == 1:
		text += "; one before it was killed, or its machine went down"
	case killed > 1:
		text += fmt.Sprintf("; %d before it were killed, or their machine went down", killed)
	}
	return text + fmt.Sprintf("; %s of running in all.", span(d.Seconds))
}

func (r *Run) ended(pid int) string {
	took := " after " + span(r.Seconds)
	switch r.End {
	case runner.EndDone:
		return "finished" + took
	case stateRunning:
		return fmt.Sprintf("is still running (process %d), so far for %s", pid, span(r.Seconds))
	case stateKilled:
		return "was killed" + took + ", or left by a second Ctrl-C, or its machine went down; the same command goes on from there"
	case runner.EndInterrupted:
		return "was interrupted" + took + "; the same command goes on from there"
	default:
		text := "stopped" + took
		if r.Reason != "" {
			text += ": " + strings.TrimSuffix(r.Reason, ".")
		}
		return text + "; the same command goes on from there"
	}
}

func (d *Data) whatLimited() string {
	if len(d.Bound) == 0 {
		return "Not known: there are no samples of it."
	}
	first := d.Bound[0]
	text := ""
	if first.What == "" {
		text = fmt.Sprintf("Nothing, for %s of the time: the answers' own time decided (%s for half of the calls).", percent(first.Share), milliseconds(d.Latency.P50))
		if len(d.Bound) == 1 || d.Bound[1].Share < 0.01 {
			return text
		}
		return text + fmt.Sprintf(" For %s it was %s.", percent(d.Bound[1].Share), d.Bound[1].Words)
	}
	text = fmt.Sprintf("For %s of the time it was %s", percent(first.Share), first.Words)
	for _, s := range d.Bound[1:] {
		if s.What != "" && s.Share >= 0.05 {
			text += fmt.Sprintf("; for %s %s", percent(s.Share), s.Words)
			break
		}
	}
	text += "." + d.refusals()
	if d.Used > 0 && d.Reserved > 2*d.Used && strings.Contains(first.What, "tpm") {
		text += fmt.Sprintf(" Of that limit, calls reserved %s tokens and used %s: %.1f times as much as they needed.", grouped(d.Reserved), grouped(d.Used), float64(d.Reserved)/float64(d.Used))
	}
	return text
}

// refusals says what refusals mean for the limits that were given.
func (d *Data) refusals() string {
	n := total(d.Refused)
	if n == 0 {
		return ""
	}
	text := fmt.Sprintf(" The provider refused %s", runner.Count(n, "call"))
	given := func(l Limit) bool { return !l.Learned && l.N > 0 }
	if slices.ContainsFunc(d.Limits, given) {
		return text + " within the limits that were given: it admits less than them, or others use the account."
	}
	return text + " while its limits were being learned."
}

func (d *Data) whatFailed() string {
	text := d.failedOperations()
	if d.Doubtful == 1 {
		text += " The outcome of one call is not known; it may have been billed."
	} else if d.Doubtful > 1 {
		text += fmt.Sprintf(" The outcome of %s is not known; they may have been billed.", runner.Count(d.Doubtful, "call"))
	}
	return text
}

func (d *Data) failedOperations() string {
	if len(d.Failures) == 0 {
		text := "No operation failed."
		if n := total(d.Attempts); n > 0 {
			text = fmt.Sprintf("No operation failed; %s that did went again (most often %s).", runner.Count(n, "attempt"), classWords(d.Attempts[0].Name))
		}
		return text
	}
	parts, all := []string{}, int64(0)
	for _, f := range d.Failures {
		parts = append(parts, fmt.Sprintf("%s %s", grouped(f.Count), f.Class))
		all += f.Count
	}
	f := d.Failures[0]
	text := fmt.Sprintf("%s: %s. The most frequent, on line %d: “%s”", runner.Count(all, "operation"), list(parts, 5), f.Line, cut(f.Example, 160))
	return text + " — " + f.Advice + "."
}

func (d *Data) whatHelps() string {
	if len(d.Advice) == 0 {
		switch {
		case !d.Sampled:
			return ""
		case d.Basis == "":
			return "Too little was answered to reckon with."
		}
		return "Nothing that can be reckoned from this run: neither higher limits nor smaller reservations would gain a twentieth."
	}
	best := d.Advice[0]
	text := fmt.Sprintf("With %s the %s would take %s instead of %s: %.1f times as fast", best.Change, d.calls, span(best.Seconds), span(best.Instead), best.Gain)
	for _, a := range d.Advice[1:min(3, len(d.Advice))] {
		text += fmt.Sprintf("; with %s: %s", a.Change, span(a.Seconds))
	}
	return text + "."
}

func total(all []Count) (n int64) {
	for _, c := range all {
		n += c.N
	}
	return n
}

// list joins the first of many.
func list(all []string, most int) string {
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

func percent(share float64) string {
	if share > 0 && share < 0.01 {
		return "less than 1 %"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// span writes a time in its two largest units.
func span(seconds float64) string {
	switch {
	case seconds < 10:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 60:
		return fmt.Sprintf("%.0f s", seconds)
	}
	n := int64(math.Round(seconds))
	for _, u := range []struct {
		size, part int64
		a, b       string
	}{{3600, 60, "min", "s"}, {86400, 3600, "h", "min"}, {math.MaxInt64, 86400, "d", "h"}} {
		if n >= u.size {
			continue
		}
		small := map[string]int64{"s": 1, "min": 60, "h": 3600}[u.b]
		text := fmt.Sprintf("%d %s", n/u.part, u.a)
		if rest := n % u.part / small; rest > 0 {
			text += fmt.Sprintf(" %d %s", rest, u.b)
		}
		return text
	}
	return ""
}

func milliseconds(ms int64) string {
	if ms < 1000 {
		return fmt.Sprintf("%d ms", ms)
	}
	return span((time.Duration(ms) * time.Millisecond).Seconds())
}
