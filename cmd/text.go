package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/input"
)

// clean makes text from servers, inputs and file names harmless on a
// terminal: control and direction-changing characters are written as escapes.
// Others that do not show, such as the joiners of emoji, change nothing there.
func clean(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x061c || r >= 0x200e && r <= 0x200f ||
			r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff:
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// fold breaks text between words into lines of less than width columns, all but
// the first indented; width 0 = no bound. A path that is longer stays whole, so
// that it can be copied; other words are cut.
func fold(text string, indent, width int) string {
	if width == 0 || len(text) < width {
		return text
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		now := ""
		for i, word := range strings.SplitAfter(line, " ") {
			length := utf8.RuneCountInString(now) + utf8.RuneCountInString(strings.TrimRight(word, " "))
			if i > 0 && length >= width && len(now) > indent {
				lines, now = append(lines, strings.TrimRight(now, " ")), strings.Repeat(" ", indent)
			}
			for room := width - 1 - indent; room > 0 && utf8.RuneCountInString(word) > room && !strings.Contains(word, "/"); {
				runes := []rune(word)
				lines, now, word = append(lines, now+string(runes[:room])), strings.Repeat(" ", indent), string(runes[room:])
			}
			now += word
		}
		lines = append(lines, now)
	}
	return strings.Join(lines, "\n")
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printProblems lists the faults of an input, a line each.
func printProblems(env Env, r *input.Report) {
	for _, p := range r.Problems {
		fmt.Fprintf(env.Stderr, "%s\n", clean(p.String()))
	}
	if r.More > 0 {
		fmt.Fprintf(env.Stderr, "and %d more\n", r.More)
	}
	hint := "mend them, or run the good lines with --skip-invalid"
	if slices.ContainsFunc(r.Problems, func(p input.Problem) bool { return strings.HasPrefix(p.Msg, "no model") }) {
		hint = "--model NAME is for the lines that name no model; " + hint
	}
	printError(env, fmt.Sprintf("invalid: %s of %s; nothing was sent", grouped(int64(r.Invalid)), count(r.Invalid+r.Operations, "line")), hint)
}

// count writes a number with its noun: 1 call, 2 calls.
func count[T int | int64](n T, noun string) string {
	return runner.Count(int64(n), noun)
}

// grouped writes a number with commas between its thousands.
func grouped(n int64) string { return runner.Grouped(n) }
