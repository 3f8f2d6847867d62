// Package cmd is the command line: flags, files, the terminal and the
// signals. It parses, calls the packages that do the work, and prints.
package cmd

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Env is everything of the process that commands may touch, so that scripts
// and the program run the same code.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	IsTTY          func() bool // whether Stderr is a terminal
	StdoutIsTTY    func() bool
	Width          func() int                 // columns of Stderr's terminal; 0 = not known
	StdoutSize     func() (columns, rows int) // of Stdout's terminal; 0 = not known
}

// draws says that stderr is a terminal on which lines may be drawn over.
func (e Env) draws() bool {
	return e.IsTTY() && e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb"
}

// say prints one message, folded to the terminal.
func (e Env) say(format string, args ...any) {
	fmt.Fprintln(e.Stderr, fold("llmbatch: "+clean(fmt.Sprintf(format, args...)), 0, e.Width()))
}

// hint says what to do about it.
func (e Env) hint(text string) {
	fmt.Fprintln(e.Stderr, fold("hint: "+clean(text), 0, e.Width()))
}

// OSEnv is the environment of the process.
func OSEnv() Env {
	return Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
		IsTTY:       func() bool { return term.IsTerminal(int(os.Stderr.Fd())) },
		StdoutIsTTY: func() bool { return term.IsTerminal(int(os.Stdout.Fd())) },
		Width: func() int {
			w, _, err := term.GetSize(int(os.Stderr.Fd()))
			if err != nil {
				return 0
			}
			return w
		},
		StdoutSize: func() (int, int) {
			w, h, err := term.GetSize(int(os.Stdout.Fd()))
			if err != nil {
				return 0, 0
			}
			return w, h
		},
	}
}
