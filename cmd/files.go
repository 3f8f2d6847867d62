package cmd

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/input"
)

// fileOptions name the files of a run.
type fileOptions struct{ output, errors, checkpoint string }

func (o *fileOptions) flags(fl *pflag.FlagSet) {
	fl.StringVarP(&o.output, "output", "o", "", "results `file` (default x.results.jsonl beside x.jsonl); - copies each line to stdout as well")
	fl.StringVar(&o.errors, "errors", "", "errors `file` (default x.errors.jsonl beside the output)")
	fl.StringVar(&o.checkpoint, "checkpoint", "", "checkpoint `file` (default x.llmbatch.db beside the output)")
}

// readFlags are those of commands that read what a run wrote.
func (o *fileOptions) readFlags(fl *pflag.FlagSet) {
	fl.StringVarP(&o.output, "output", "o", "", "results `file` as given to run (default x.results.jsonl beside x.jsonl)")
	fl.StringVar(&o.errors, "errors", "", "errors `file` as given to run (default x.errors.jsonl beside the output)")
	fl.StringVar(&o.checkpoint, "checkpoint", "", "checkpoint `file` as given to run (default x.llmbatch.db beside the output)")
}

// paths derives the names from the input's, as far as no flag gives them.
func (o *fileOptions) paths(inputName string) runner.Paths {
	stem := inputName
	for again := true; again; {
		again = false
		for _, ext := range []string{".jsonl", ".ndjson", ".json", ".gz", ".zst"} {
			if s, ok := strings.CutSuffix(stem, ext); ok && filepath.Base(s) != "" && !strings.HasSuffix(s, string(filepath.Separator)) && s != "" {
				stem, again = s, true
			}
		}
	}
	p := runner.Paths{Input: inputName, Output: stem + ".results.jsonl"}
	if o.output != "" && o.output != "-" {
		p.Output = o.output
		stem = filepath.Join(filepath.Dir(o.output), filepath.Base(stem))
	}
	p.Errors, p.Checkpoint = stem+".errors.jsonl", stem+".llmbatch.db"
	p.Superseded = strings.TrimSuffix(strings.TrimSuffix(p.Output, ".jsonl"), ".results") + ".superseded.jsonl"
	if o.errors != "" {
		p.Errors = o.errors
	}
	if o.checkpoint != "" {
		p.Checkpoint = o.checkpoint
	}
	return p
}

// asGiven is the input with the flags that make a command find the files of its
// run, as a shell takes them.
func asGiven(p runner.Paths) string {
	in := p.Input
	if strings.HasPrefix(in, "-") {
		in = "./" + in // else it would be taken for a flag
	}
	return strings.Join(append([]string{shellWord(in)}, flagsOf(p)...), " ")
}

// asPiped is the same for an input that was piped in, and is once more: its name
// comes from its content, in the working folder as far as no flag says otherwise.
func asPiped(p runner.Paths) string {
	p.Input = filepath.Base(p.Input)
	return strings.Join(append([]string{"-"}, flagsOf(p)...), " ")
}

// flagsOf are the flags for those of the files that the input's name does not give.
func flagsOf(p runner.Paths) (words []string) {
	o := fileOptions{}
	for _, f := range []struct {
		name, path string
		of         func(runner.Paths) string
		set        *string
	}{
		{"--output", p.Output, func(p runner.Paths) string { return p.Output }, &o.output},
		{"--errors", p.Errors, func(p runner.Paths) string { return p.Errors }, &o.errors},
		{"--checkpoint", p.Checkpoint, func(p runner.Paths) string { return p.Checkpoint }, &o.checkpoint},
	} {
		if f.of(o.paths(p.Input)) != f.path {
			*f.set = f.path
			words = append(words, f.name, shellWord(f.path))
		}
	}
	return words
}

// shellWord quotes what a shell would take apart.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// openInput opens the input and names the files that go with it. Standard
// input is spooled first, since its name comes from its content.
// spool is where a stream is kept; "" = beside the output.
func openInput(ctx context.Context, env Env, o *fileOptions, arg, spool string) (*input.File, runner.Paths, error) {
	dir := "."
	if arg != "-" {
		dir = filepath.Dir(o.paths(arg).Output)
	} else if o.output != "" && o.output != "-" {
		dir = filepath.Dir(o.output)
	}
	if spool == "" {
		spool = dir
		if arg == "-" || o.output != "" && o.output != "-" { // else it is the input's own
			if err := runner.CheckFolder(runner.FileOf{What: "--output", Path: filepath.Join(dir, "x")}); err != nil {
				return nil, runner.Paths{}, err
			}
		}
	}
	f, err := input.Open(ctx, arg, env.Stdin, spool)
	if stopped := ctx.Err(); err != nil && stopped != nil {
		return nil, runner.Paths{}, stopped
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, runner.Paths{}, usagef("name a JSONL file, by its path from here, or - for standard input", "input: %s", err)
	}
	if err != nil {
		hint := ""
		if fi, statErr := os.Stat(arg); statErr == nil && fi.IsDir() {
			hint = "name one JSONL file of it; several become one by a pipe: cat " + shellWord(filepath.Join(arg, "a.jsonl")) + " … | llmbatch run -"
		}
		return nil, runner.Paths{}, usagef(hint, "input: %s", err)
	}
	if arg != "-" {
		return f, o.paths(arg), nil
	}
	sha := f.SHA()
	return f, o.paths(filepath.Join(dir, "stdin-"+hex.EncodeToString(sha[:6])+".jsonl")), nil
}
