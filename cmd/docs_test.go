package cmd

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var updateDocs = flag.Bool("update-docs", false, "write docs/cli.md anew")

// TestDocs compares docs/cli.md with what --help says.
func TestDocs(t *testing.T) {
	const path = "../docs/cli.md"
	var doc bytes.Buffer
	doc.WriteString("# The command line\n\nWhat `--help` says of each command. Written by `go test ./cmd -update-docs`.\n")
	for _, args := range commandLines(t) {
		fmt.Fprintf(&doc, "\n## %s\n\n```text\n%s```\n", strings.Join(append([]string{"llmbatch"}, args...), " "), helpOf(t, args))
	}
	if *updateDocs {
		if err := os.WriteFile(path, doc.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	have, want := strings.Split(string(got), "\n"), strings.Split(doc.String(), "\n")
	for i := range max(len(have), len(want)) {
		if i >= len(have) || i >= len(want) || have[i] != want[i] {
			t.Fatalf("docs/cli.md is stale from line %d on; go test ./cmd -update-docs writes it anew\n got %s\nwant %s", i+1, at(have, i), at(want, i))
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the end)"
}

// docEnv is a process without variables and terminal.
func docEnv(out *bytes.Buffer, args []string) Env {
	return Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: out, Stderr: out, Getenv: func(string) string { return "" },
		IsTTY: func() bool { return false }, StdoutIsTTY: func() bool { return false },
		Width: func() int { return 0 }, StdoutSize: func() (int, int) { return 0, 0 },
	}
}

func helpOf(t *testing.T, args []string) string {
	t.Helper()
	var out bytes.Buffer
	root := newRoot(docEnv(&out, nil))
	root.SetArgs(append(args[:len(args):len(args)], "--help"))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for line := range strings.Lines(out.String()) {
		text.WriteString(strings.TrimRight(line, " \t\n") + "\n")
	}
	return text.String()
}

// commandLines are those of all commands, each ahead of the ones below it.
func commandLines(t *testing.T) (all [][]string) {
	t.Helper()
	root := newRoot(docEnv(&bytes.Buffer{}, nil))
	root.InitDefaultCompletionCmd()
	var walk func(c *cobra.Command, args []string)
	walk = func(c *cobra.Command, args []string) {
		all = append(all, args)
		for _, below := range c.Commands() {
			if below.IsAvailableCommand() {
				walk(below, append(args[:len(args):len(args)], below.Name()))
			}
		}
	}
	walk(root, nil)
	return all
}
