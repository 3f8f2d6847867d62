package cmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/llmbatch/llmbatch/runner/route"
)

// one wants exactly one argument, and says which when there is none.
func one(name, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		command := strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
		switch len(args) {
		case 0:
			return usagef(example(c), "%s needs %s: %s", command, name, what)
		case 1:
			return nil
		}
		hint := "a value that holds blanks needs quotes; " + example(c)
		if f := c.Flags().Lookup("retry-failed"); f != nil && f.Changed {
			hint = "classes follow --retry-failed with an equals sign: --retry-failed=rate_limited,timeout_mid_body"
		}
		return usagef(hint, "%s takes one %s, not %d: %s", command, name, len(args), strings.Join(args, " "))
	}
}

// oneInput is what commands that read a file of prompts take.
func oneInput() cobra.PositionalArgs { return one("INPUT", "a JSONL file, or - for standard input") }

// example is the first of a command's.
func example(c *cobra.Command) string {
	first, _, _ := strings.Cut(c.Example, "\n")
	return "for example " + strings.TrimSpace(first)
}

// noCommand is for arguments in a command's place: there is no such command.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, below := range c.Commands() {
		known = append(known, below.Name())
	}
	hint := flagsHint
	if near := route.Nearest(args[0], known); near != "" {
		hint = "did you mean " + c.CommandPath() + " " + near + "?"
	}
	return usagef(hint, "unknown command %q", args[0])
}

const flagsHint = "llmbatch --help, or --help after a command, lists the flags"

// flagError says of a flag's value what is wanted in its place.
func flagError(c *cobra.Command, err error) error {
	const hint = flagsHint
	if args := c.Flags().Args(); !c.HasParent() && len(args) > 0 {
		return noCommand(c, args) // the flags are those of a command that is misspelt
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		switch unknown.GetSpecifiedName() {
		case "api-key", "apikey", "api_key", "key", "token":
			return usagef("a key is no argument: --api-key-env NAME names the variable that holds it, --api-key-file FILE a file", "%s", err)
		}
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near := route.Nearest(unknown.GetSpecifiedName(), known); near != "" {
			return usagef("did you mean --"+near+"?", "%s", err)
		}
	}
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return usagef(hint, "%s", err)
	}
	want := map[string]string{
		"duration": "a time with its unit", "int": "a whole number", "int64": "a whole number", "uint64": "a whole number from 0",
		"float64": "a number", "bool": "true or false",
	}
	f := bad.GetFlag()
	kind := f.Value.Type()
	if want[kind] == "" {
		return usagef(hint, "%s", err)
	}
	msg := fmt.Sprintf("--%s %q: want %s", f.Name, bad.GetValue(), want[kind])
	if kind == "duration" {
		return usagef(fmt.Sprintf("for example --%s 90s, --%s 5m or --%s 1h30m", f.Name, f.Name, f.Name), "%s", msg)
	}
	return usagef(hint, "%s", msg)
}
