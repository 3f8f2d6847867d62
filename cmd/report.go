package cmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/report"
)

func newReport(env Env) *cobra.Command {
	var files fileOptions
	var to string
	var asJSON bool
	c := &cobra.Command{
		Use:   "report INPUT",
		Short: "Write a page on how the runs of INPUT went",
		Long: `Report writes one HTML file that needs no network: what ran, what limited it,
what failed and why, charts over time, and what would have made it faster, as
reckoned by the scheduler from what the run measured. It works after a run, after
one that was killed, and while one goes on.

What it shows over time are samples that runs keep in the checkpoint: at most 600
in all, so that those of a long run stand for more time each.`,
		Example: "  llmbatch report prompts.jsonl\n  llmbatch report prompts.jsonl -o page.html\n  llmbatch report prompts.jsonl --json",
		Args:    one("INPUT", "the file that was run"),
		RunE: func(c *cobra.Command, args []string) error {
			paths := files.paths(args[0])
			src, err := readReport(paths)
			if err != nil {
				return err
			}
			data := report.Build(src, time.Now())
			if asJSON && to == "" {
				return printJSON(env.Stdout, data)
			}
			return writeReport(env, paths, to, asJSON, data)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&to, "output", "o", "", "`file` that the page goes to (default x.report.html beside the results); - is stdout")
	fl.StringVar(&files.output, "results", "", "results `file` as given to run with --output")
	fl.StringVar(&files.errors, "errors", "", "errors `file` as given to run (default x.errors.jsonl beside the results)")
	fl.StringVar(&files.checkpoint, "checkpoint", "", "checkpoint `file` as given to run (default x.llmbatch.db beside the results)")
	fl.BoolVar(&asJSON, "json", false, "its data as one JSON object instead of the page, on stdout unless -o names a file")
	return c
}

func readReport(paths runner.Paths) (*report.Source, error) {
	src, err := report.Read(paths)
	switch {
	case errors.Is(err, checkpoint.ErrLocked):
		return nil, fmt.Errorf("checkpoint %s is in use, and its run has published nothing yet", paths.Checkpoint)
	case err != nil:
		return nil, unreadable(paths, err)
	}
	return src, nil
}

// writeReport writes the page, or the data, to a file in one step: whoever looks
// at it meanwhile has the one before.
func writeReport(env Env, paths runner.Paths, to string, asJSON bool, data *report.Data) error {
	write := data.WriteHTML
	if asJSON {
		write = data.WriteJSON
	}
	if to == "-" {
		return write(env.Stdout)
	}
	if to == "" {
		to = strings.TrimSuffix(strings.TrimSuffix(paths.Output, ".jsonl"), ".results") + ".report.html"
	}
	if err := paths.CheckOthers(runner.FileOf{What: "--output", Path: to}); err != nil {
		return err
	}
	if fi, err := os.Stat(to); err == nil && !fi.Mode().IsRegular() {
		return usagef("", "--output %s is no regular file", to)
	}
	if ours, err := report.IsReport(to); err == nil && !ours {
		return usagef("name a new file, or remove this one", "--output %s holds something else than a report", to)
	}
	f, err := os.CreateTemp(filepath.Dir(to), ".llmbatch-report-*")
	if err != nil {
		return usagef("choose another place with --output", "cannot write the report: %s", err)
	}
	if err = errors.Join(write(f), f.Close()); err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	fmt.Fprintf(env.Stderr, "report: %s\n", clean(to))
	return nil
}
