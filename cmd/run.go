package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/money"
)

// runOptions are the flags of run that belong to no group of their own.
type runOptions struct {
	job    jobOptions
	pace   paceOptions
	retry  retryOptions
	target targetOptions
	files  fileOptions
	watch  observeOptions
	dry    dryOptions

	configFile  string
	limit       int
	dedupe      bool
	cache       string
	skipInvalid bool
	retryFailed string
	restart     bool
	onChanged   string
	onUnknown   string
	maxCost     string
	priceIn     string
	priceOut    string
	deadline    time.Duration
	grace       time.Duration
	json        bool
	progress    string
	noProgress  bool
	stream      bool
	keepNative  bool
}

func newRun(env Env) *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use:   "run INPUT",
		Short: "Send every operation of INPUT that has not finished",
		Long: `Run sends every line of INPUT (JSONL; gzip and zstd are read as such; - is
standard input) that has not finished yet, and appends each answer to
x.results.jsonl beside x.jsonl; failures go to x.errors.jsonl. Stopped at any
moment, the same command goes on where it was and pays for nothing twice.

A line is an OpenAI batch line, a plain line with prompt or messages, or a raw
request body. The whole file is checked before the first call.

` + exitHelp,
		Example: `  llmbatch run testdata/tickets.jsonl --provider mock
  llmbatch run prompts.jsonl --model gpt-4o-mini --rpm 500 --tpm 200000
  llmbatch run prompts.jsonl --provider openai-compatible --base-url http://127.0.0.1:8000/v1 --model qwen
  llmbatch run prompts.jsonl --model gpt-4o-mini --metrics-addr :9090 --log-file run.log
  zcat prompts.jsonl.gz | llmbatch run - --model gpt-4o-mini --limit 20`,
		Args: oneInput(),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if o.dry.on {
			return dryRun(c, env, o, args[0])
		}
		return runBatch(c, env, o, args[0])
	}
	o.flags(c.Flags())
	o.watch.flags(c.Flags())
	c.Flags().BoolVar(&o.dry.on, "dry-run", false, "send nothing and tell how long it would take (see llmbatch estimate)")
	o.complete(c, env)
	return c
}

// flags are those of run and estimate alike.
func (o *runOptions) flags(fl *pflag.FlagSet) {
	o.target.flags(fl)
	o.job.flags(fl)
	o.pace.flags(fl)
	o.retry.flags(fl)
	o.files.flags(fl)
	fl.StringVar(&o.configFile, "config", "", "`file` of providers, models and routes (default: $"+configEnv+")")
	fl.IntVar(&o.limit, "limit", 0, "only the first `N` operations; the full run later simply goes on")
	fl.BoolVar(&o.dedupe, "dedupe", false, "one call for lines whose request is the same")
	fl.StringVar(&o.cache, "cache", "", "`folder` of answers: what an earlier run was answered for the same request to the same model is taken, whatever its temperature (within a run: --dedupe)")
	fl.BoolVar(&o.skipInvalid, "skip-invalid", false, "run the good lines; invalid ones go to the errors file")
	fl.StringVar(&o.retryFailed, "retry-failed", "", "put dead letters back: all, or those of the named `classes` (comma-separated)")
	fl.Lookup("retry-failed").NoOptDefVal = "all"
	fl.BoolVar(&o.restart, "restart", false, "move the files of earlier runs aside and start over")
	fl.StringVar(&o.onChanged, "on-changed", "", "when settings changed: `rerun|keep` finished operations (default: refuse)")
	fl.StringVar(&o.onUnknown, "on-unknown", "retry", "calls whose outcome is unknown: `retry|hold`")
	fl.StringVar(&o.maxCost, "max-cost", "", "stop before the call that could pass this `amount`; needs the prices")
	fl.StringVar(&o.priceIn, "price-input", "", "`price` of a million input tokens")
	fl.StringVar(&o.priceOut, "price-output", "", "`price` of a million output tokens")
	fl.DurationVar(&o.deadline, "deadline", 0, "stop sending after this `time`; 0 = never")
	fl.DurationVar(&o.grace, "grace", time.Minute, "`time` that calls in flight get at the first Ctrl-C")
	fl.BoolVar(&o.stream, "stream", false, "stream each call inside (long answers outlive proxies that cut silent connections); the whole answer is stored")
	fl.BoolVar(&o.keepNative, "keep-native", false, "store the provider's own answer beside a translated one (llmbatch.native)")
	fl.BoolVar(&o.json, "json", false, "end with one JSON object on stdout")
	fl.StringVar(&o.progress, "progress", "", "how stderr shows the run: `bar|plain|json|none` (default: bar on a terminal, else plain); json is a line each second that begins with {")
	fl.BoolVar(&o.noProgress, "no-progress", false, "no bar; plain lines on stderr")
	o.dry.flags(fl)
}

// runBatch turns flags into a runner.Config, runs it and tells how it ended.
func runBatch(c *cobra.Command, env Env, o *runOptions, arg string) error {
	for _, name := range dryOnly {
		if c.Flags().Changed(name) {
			return usagef("", "--%s needs --dry-run", name)
		}
	}
	if err := o.target.check(arg); err != nil {
		return err
	}
	file, paths, err := openInput(c.Context(), env, &o.files, arg, "")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := errors.Join(paths.Check(), o.watch.check(paths)); err != nil {
		return err
	}
	cfg, err := o.config(c, env, file, paths)
	if err != nil {
		return err
	}
	if o.files.output == "-" && env.StdoutIsTTY() && o.progress == progressBar {
		o.progress = progressPlain // the results come on the same terminal
	}
	cfg.Sized = func(lines int) { collectFor(env, cfg.Targets, lines) }
	show := newProgress(env, o.progress)
	cfg.Notice, cfg.Progress = show.notice, show.update
	fitFiles(cfg, openFiles(), show.notice)
	stdout := env.Stdout
	if o.files.output == "-" {
		cfg.Tee, stdout = env.Stdout, env.Stderr
	}
	tellKept(show, arg, file, paths)
	ctx, stop := context.WithCancelCause(c.Context())
	defer stop(nil)
	watch, err := o.watch.open(cfg, stop)
	if err != nil {
		return err
	}
	defer func() { watch.scrapes.leave(c.Context(), o.watch.linger) }()
	sum, err := runner.Run(ctx, cfg)
	show.close()
	err = errors.Join(err, watch.close(sum, err))
	if sum == nil {
		if c.Context().Err() != nil {
			show.notice("interrupted before the first call")
			return statusError{exitInterrupt + signalOf(c.Context())}
		}
		if cause := context.Cause(ctx); cause != nil { // the log's failure, which ended it
			return cause
		}
		return err
	}
	return finishRun(c.Context(), env, o, stdout, file, sum, err)
}

// tellKept says how a run goes on from a stream once that is gone. The files of a
// pipe with a name are called after it, and not after what is kept.
func tellKept(show *progress, arg string, file *input.File, paths runner.Paths) {
	switch {
	case arg == "-":
		show.notice(fmt.Sprintf("standard input is kept as %s; to go on after a stop: llmbatch run %s with the same flags", file.Path(), shellWord(file.Path())))
	case file.Spooled() && file.Name() != arg:
		paths.Input = file.Path()
		show.notice(fmt.Sprintf("%s is kept as %s; to go on after a stop: llmbatch run %s with the other flags the same", arg, file.Path(), asGiven(paths)))
	}
}

// finishRun prints the summary and maps the end to an exit status.
func finishRun(ctx context.Context, env Env, o *runOptions, stdout io.Writer, file *input.File, sum *runner.Summary, err error) error {
	sum.Exit = statusOf(ctx, sum, err)
	gone := sum.Exit == exitOK && file.Spooled() && sum.Files.Input == file.Path()
	printSummary(env.Stderr, sum, env.Width(), gone, o.onUnknown == "hold")
	if o.json {
		if err := printJSON(stdout, sum); err != nil {
			return err
		}
	}
	if err != nil {
		explain(env, err)
	}
	if sum.Exit == exitOK {
		if err := file.RemoveSpool(); err != nil {
			return err
		}
	}
	return statusError{sum.Exit}
}

func statusOf(ctx context.Context, sum *runner.Summary, err error) int {
	var fault *runner.Error
	switch {
	case errors.Is(err, input.ErrChanged), errors.As(err, &fault) && fault.Fault == runner.FaultUsage:
		return exitUsage
	case err != nil:
		return exitInternal
	case sum.Stop != nil:
		switch sum.Stop.Kind {
		case runner.StopProvider:
			return exitProvider
		case runner.StopBound:
			return exitBound
		case runner.StopInterrupted:
			return exitInterrupt + signalOf(ctx)
		default:
			return exitInternal
		}
	case sum.Failed > 0 || sum.Unknown > 0:
		return exitPartial
	case sum.Pending > 0:
		return exitInternal
	default:
		return exitOK
	}
}

// config builds what the runner needs; every mistake in a flag is found here.
func (o *runOptions) config(c *cobra.Command, env Env, file *input.File, paths runner.Paths) (cfg *runner.Config, err error) {
	cfg = &runner.Config{
		Settings: &input.Settings{}, Targets: make([]runner.Target, 1),
		Input: file, Paths: paths, Counter: estimate.NewCounter(),
		Limit: o.limit, Dedupe: o.dedupe, Cache: o.cache, SkipInvalid: o.skipInvalid, Restart: o.restart, Stream: o.stream, KeepNative: o.keepNative, Deadline: o.deadline, Grace: o.grace,
	}
	if o.retryFailed != "" {
		cfg.RetryFailed = strings.Split(o.retryFailed, ",")
		for _, class := range cfg.RetryFailed {
			if !runner.IsClass(class) {
				return nil, usagef("llmbatch status shows the classes of the failures; --retry-failed alone takes all", "--retry-failed: no failures are of class %q", class)
			}
		}
	}
	switch o.onChanged {
	case "":
	case "rerun":
		cfg.Changed = runner.Rerun
	case "keep":
		cfg.Changed = runner.Keep
	default:
		return nil, usagef("", "--on-changed %q: want rerun or keep", o.onChanged)
	}
	switch o.onUnknown {
	case "retry":
	case "hold":
		cfg.Policy.HoldUnknown = true
	default:
		return nil, usagef("", "--on-unknown %q: want retry or hold", o.onUnknown)
	}
	if err := errors.Join(o.chooseProgress(), o.notNegative()); err != nil {
		return nil, err
	}
	if err = o.job.apply(cfg); err == nil {
		err = o.retry.apply(cfg)
	}
	if err == nil {
		cfg.Learned, err = o.pace.learned()
	}
	if err == nil && o.maxCost != "" {
		if cfg.MaxCost, err = money.Parse(o.maxCost); err != nil || cfg.MaxCost == 0 {
			err = usagef("", "--max-cost %q: want an amount above 0", o.maxCost)
		}
	}
	if err == nil {
		err = o.targets(c, env, cfg)
	}
	if err == nil {
		err = o.bound(cfg)
	}
	return cfg, err
}

// chooseProgress settles how the run is shown.
func (o *runOptions) chooseProgress() error {
	switch o.progress {
	case "":
		o.progress = progressBar
	case progressBar, progressPlain, progressJSON, progressNone:
		if o.noProgress && o.progress != progressPlain {
			return usagef("", "--no-progress and --progress %s exclude each other", o.progress)
		}
	default:
		return usagef("", "--progress %q: want bar, plain, json or none", o.progress)
	}
	if o.noProgress {
		o.progress = progressPlain
	}
	return nil
}

// notNegative refuses numbers and times below 0, which would mean something
// else than they say.
func (o *runOptions) notNegative() error {
	for _, f := range []struct {
		name string
		n    int64
	}{{"limit", int64(o.limit)}, {"assume-output-tokens", o.dry.output}} {
		if f.n < 0 {
			return usagef("", "--%s %d: want 0 or more", f.name, f.n)
		}
	}
	for _, f := range []struct {
		name string
		t    time.Duration
	}{
		{"timeout", o.target.timeout},
		{"deadline", o.deadline},
		{"grace", o.grace},
		{"max-wait", o.retry.maxWait},
		{"max-outage", o.retry.maxOutage},
		{"max-retry-time", o.retry.maxRetryTime},
		{"assume-latency", o.dry.latency},
	} {
		if f.t < 0 {
			return usagef("", "--%s %s: want 0 or more", f.name, f.t)
		}
	}
	return nil
}

// targets makes what the calls go to: those of the config file, or the one
// that the flags name.
func (o *runOptions) targets(c *cobra.Command, env Env, cfg *runner.Config) error {
	// Mistakes in flags are told ahead of a key that is missing.
	d, err := o.defaults(c)
	if err != nil {
		return err
	}
	path := o.configFile
	if path == "" {
		path = env.Getenv(configEnv)
	}
	if path == "" {
		p, err := o.target.apply(c, env, o, cfg)
		if err != nil {
			return err
		}
		cfg.Targets[0].Price = d.Price
		return o.pace.apply(c, cfg, p.Accounting)
	}
	rc, err := loadConfig(path, mendConfig(path))
	if err != nil {
		return err
	}
	f := &configured{env: env, file: rc, flags: d, target: &o.target, dry: o.dry.on}
	return f.apply(cfg)
}

// price is what the flags say a token costs.
func (o *runOptions) price() (p money.Price, err error) {
	if (o.priceIn == "") != (o.priceOut == "") {
		return p, usagef("", "--price-input and --price-output belong together")
	}
	if o.priceIn == "" {
		return p, nil
	}
	p.Known = true
	if p.Input, err = money.ParsePrice(o.priceIn); err != nil {
		return p, usagef("", "--price-input: %s", err)
	}
	if p.Output, err = money.ParsePrice(o.priceOut); err != nil {
		return p, usagef("", "--price-output: %s", err)
	}
	return p, nil
}

// bound refuses a bound on the cost without the price of every model that calls
// may go to.
func (o *runOptions) bound(cfg *runner.Config) error {
	if cfg.MaxCost == 0 {
		return nil
	}
	for _, t := range cfg.Targets {
		if t.Model == "" && cfg.ForModel != nil {
			continue // the prices of the models that lines keep are known with the input
		}
		if err := t.Priced(); err != nil {
			return err
		}
	}
	return nil
}
