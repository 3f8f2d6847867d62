package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs one command line and returns the exit status.
func Main(env Env) int {
	// Calls wait for the network, so memory is dearer here than cycles.
	if env.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	ctx, stop := signals(env)
	defer stop()
	out := &watchedWriter{w: env.Stdout}
	env.Stdout = out
	root := newRoot(env)
	root.SetArgs(env.Args)
	ran, err := root.ExecuteContextC(ctx)
	if err != nil && isUnknownCommand(err) {
		err = usagef("llmbatch --help, or --help after a command, lists the flags", "%s", err)
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		printError(env, "interrupted; nothing was sent", "")
		return exitInterrupt + signalOf(ctx)
	}
	if err == nil {
		// Cobra's own printing, of help and completions, passes no error on.
		err = out.failed()
	}
	if errors.Is(err, syscall.EPIPE) && (ran.Name() != "run" || ran.Flags().Changed("dry-run")) {
		printError(env, err.Error(), "the reader of standard output has gone")
		return exitInternal
	}
	return explain(env, err)
}

// watchedWriter remembers the first error of its writes. Safe for concurrent
// use.
type watchedWriter struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.w.Write(p)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

func (w *watchedWriter) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// isUnknownCommand tells cobra's own complaint of a command, which has no type.
func isUnknownCommand(err error) bool {
	var told *usageError
	return !errors.As(err, &told) && strings.HasPrefix(err.Error(), "unknown command")
}

func newRoot(env Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "llmbatch",
		Short: "Push a JSONL file of prompts through an LLM API",
		Long: `llmbatch sends every prompt of a JSONL file to an LLM API, as fast as the
account's limits allow, without exceeding them, without paying twice and
without losing a paid answer. It can be stopped at any moment: the same
command goes on where it was.`,
		Example: `  llmbatch run testdata/tickets.jsonl --provider mock
  llmbatch run prompts.jsonl --model gpt-4o-mini --rpm 500 --tpm 200000
  llmbatch status prompts.jsonl
  llmbatch results prompts.jsonl --format text`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       build().String(),
		Args:          noCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print build information")
	root.SetFlagErrorFunc(flagError)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.AddCommand(newRun(env), newEstimate(env), newStatus(env), newResults(env), newReport(env), newConfig(env), newMock(env), newVersion(env))
	completeChoices(root)
	return root
}

func newVersion(env Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print build information",
		Example: "  llmbatch version\n  llmbatch version --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v := build()
			if asJSON {
				return printJSON(env.Stdout, v)
			}
			c.Println(v)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

type buildInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

func (v buildInfo) String() string {
	return fmt.Sprintf("llmbatch %s (%s, %s)", v.Version, v.Revision, v.Go)
}

func build() buildInfo {
	v := buildInfo{Version: "(devel)", Revision: "unknown revision", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	return v
}

// withSignal is the cause of a context that a signal ended.
type withSignal struct{ signal int }

func (withSignal) Error() string { return "interrupted" }

func signalOf(ctx context.Context) int {
	var s withSignal
	if errors.As(context.Cause(ctx), &s) {
		return s.signal
	}
	return 2
}
