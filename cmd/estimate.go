package cmd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/llmbatch/llmbatch/runner"
)

// dryOptions are the flags of a dry run alone.
type dryOptions struct {
	on      bool
	latency time.Duration
	output  int64
	perLine bool
}

func (o *dryOptions) flags(fl *pflag.FlagSet) {
	fl.DurationVar(&o.latency, "assume-latency", 0, "`time` of a call in a dry run (default: as earlier calls took, else 1s)")
	fl.Int64Var(&o.output, "assume-output-tokens", 0, "output of a call in a dry run (default: as earlier calls had, else what is reserved)")
	fl.BoolVar(&o.perLine, "per-line", false, "a dry run prints one JSON object for each operation")
}

// dryOnly are the flags that mean nothing in a real run.
var dryOnly = []string{"assume-latency", "assume-output-tokens", "per-line"}

// runOnly are the flags that mean nothing in a dry run. They are no error there,
// so that --dry-run may be put behind any command line.
var runOnly = []string{"metrics-addr", "metrics-linger", "metrics-file", "log-file", "log-format", "log-level", "progress", "no-progress", "grace", "keep-native"}

// tellIdle names those of them that were given.
func tellIdle(env Env, c *cobra.Command) {
	var idle []string
	for _, name := range runOnly {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			idle = append(idle, "--"+name)
		}
	}
	if idle != nil {
		env.say("a dry run has no use for %s", strings.Join(idle, ", "))
	}
}

func newEstimate(env Env) *cobra.Command {
	o := &runOptions{}
	o.dry.on = true
	c := &cobra.Command{
		Use:   "estimate INPUT",
		Short: "Tell how long INPUT would take, what it would cost and what limits it",
		Long: `Estimate is run --dry-run: it reads the same flags and input as run, counts the
tokens of every operation that has not finished, and drives run's own scheduler
in virtual time. It sends nothing, needs no key and writes nothing. A limit that
is not given is taken for none, since only the server's answers tell it.

Latency and output of a call are assumed, or as earlier calls had them. The cost
is that of these outputs, else of the whole that is reserved; in JSON it is an
exact decimal number, or null while a price is unknown.

Exit status:
  0    the estimate is printed, also when some rows can never fit a limit
  1    I/O or internal error
  2    usage, configuration or input`,
		Example: `  llmbatch estimate prompts.jsonl --model gpt-4o-mini --rpm 500 --tpm 200000
  llmbatch estimate prompts.jsonl --model gpt-4o --tpm 30000 --price-input 2.5 --price-output 10
  llmbatch estimate testdata/tickets.jsonl --rpm 30 --json
  llmbatch estimate testdata/tickets.jsonl --per-line`,
		Args: oneInput(),
		RunE: func(c *cobra.Command, args []string) error { return dryRun(c, env, o, args[0]) },
	}
	o.flags(c.Flags())
	o.complete(c, env)
	return c
}

// dryRun prints the forecast. What the input must be spooled to goes to a
// folder that is removed again.
func dryRun(c *cobra.Command, env Env, o *runOptions, arg string) error {
	spool, err := os.MkdirTemp("", "llmbatch-estimate-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(spool)
	file, paths, err := openInput(c.Context(), env, &o.files, arg, spool)
	if err != nil {
		return err
	}
	defer file.Close()
	// Where an open file needs no name, nothing stays behind, whatever ends the process.
	os.RemoveAll(spool)
	cfg, err := o.config(c, env, file, paths)
	if err != nil {
		return err
	}
	cfg.Notice = newProgress(env, progressPlain).notice
	tellIdle(env, c)
	if env.Getenv("GOGC") == "" {
		// Nearly all of the memory is an index without pointers: collecting often costs little.
		defer debug.SetGCPercent(debug.SetGCPercent(10))
	}
	out := bufio.NewWriterSize(env.Stdout, 256<<10)
	var each func(runner.PerLine) error
	if o.dry.perLine {
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		each = func(l runner.PerLine) error { return e.Encode(l) }
	}
	f, err := runner.Estimate(c.Context(), cfg, runner.Assume{Latency: o.dry.latency, Output: o.dry.output}, each)
	if err != nil {
		return err
	}
	switch {
	case o.dry.perLine:
	case o.json:
		err = printJSON(out, f)
	default:
		err = printForecast(out, f, time.Now())
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

func printForecast(w io.Writer, f *runner.Forecast, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("operations", "%s to do, %s done, %s invalid", grouped(f.ToDo), grouped(f.Done), grouped(f.Invalid))
	if f.Duplicates > 0 {
		row("duplicates", "%s without a call of their own (--dedupe)", grouped(f.Duplicates))
	}
	if f.CacheHits > 0 {
		row("kept answers", "%s without a call (--cache)", grouped(f.CacheHits))
	}
	if f.MaxLine > 0 {
		row("prompt tokens", "%s (p50 %s, p95 %s, max %s on line %d)", grouped(f.PromptTokens), grouped(f.P50), grouped(f.P95), grouped(f.Max), f.MaxLine)
	} else {
		row("prompt tokens", "0")
	}
	row("reserved output", "%s", count(f.ReservedOutput, "token"))
	how := f.Accounting
	if f.Charging != "" {
		how = f.Charging + ", as an earlier run's headers showed"
	}
	row("charged", "%s (accounting: %s)", count(f.ReservedTokens, "token"), how)
	if f.NeverFit > 0 {
		row("never fit", "%s larger than a whole limit: %s", count(f.NeverFit, "row"), lines(f.NeverFitLines, f.NeverFit))
	}
	if f.Cost != nil {
		row("cost", "%s", cost(f))
	}
	for _, s := range f.Shares {
		row("limit "+s.Limit, "%s, %.0f%% used", grouped(s.N), 100*s.Use)
	}
	row("bound by", "%s", bound(f))
	row("throughput", "%s requests and %s tokens a minute", rate(f.RequestsMinute), rate(f.TokensMinute))
	row("time", "%s, done at %s if started now (never less than %s)", span(f.Makespan), now.Add(duration(f.Makespan)).Format(time.DateTime), span(f.LowerBound))
	row("concurrency", "%s in flight at a latency of %s (%s)", grouped(f.Concurrency), duration(f.Latency).Round(time.Millisecond), f.LatencyFrom)
	for _, v := range f.WhatIf {
		row("with "+v.Change, "%s, bound by %s", span(v.Makespan), v.Binding)
	}
	return t.Flush()
}

// cost says what the outputs are that it reckons with.
func cost(f *runner.Forecast) string {
	most := ""
	if f.CostMost != nil {
		most = fmt.Sprintf("; up to %s if the dearest fallbacks answer", *f.CostMost)
	}
	if f.Output == 0 {
		return fmt.Sprintf("at most %s, if every answer is as long as is reserved%s", *f.Cost, most)
	}
	return fmt.Sprintf("%s with answers of up to %s tokens%s", *f.Cost, grouped(f.Output), most)
}

func bound(f *runner.Forecast) string {
	switch {
	case f.Binding == "none" && len(f.Shares) == 0:
		return "none: no limit is given, so the server's answers set the pace"
	case f.Fits:
		return f.Binding + ", the tightest; all of it fits at once"
	}
	return f.Binding
}

func duration(seconds float64) time.Duration {
	return time.Duration(min(seconds, math.MaxInt64/2/1e9) * float64(time.Second))
}

func span(seconds float64) string {
	d := duration(seconds)
	switch {
	case d > time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d > 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// rate writes a figure a minute, with decimals where it is small.
func rate(perMinute float64) string {
	if perMinute >= 100 {
		return grouped(int64(perMinute + .5))
	}
	return strconv.FormatFloat(perMinute, 'g', 3, 64)
}

func lines(list []int, all int64) string {
	const shown = 10
	var b strings.Builder
	for i, n := range list[:min(shown, len(list))] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "line %d", n)
	}
	if all > shown {
		fmt.Fprintf(&b, " and %s more", grouped(all-shown))
	}
	return b.String()
}
