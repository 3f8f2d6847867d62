package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

// watchEvery is how often a watched run is looked at.
const watchEvery = time.Second

// watch shows how a run of another process stands, until it ends.
type watch struct {
	w     io.Writer
	json  bool
	tty   bool                       // draw over what was drawn before
	size  func() (columns, rows int) // of the terminal
	drawn int                        // lines to go over
}

func newWatch(env Env, asJSON bool) *watch {
	tty := !asJSON && env.StdoutIsTTY() && env.Getenv("NO_COLOR") == "" && env.Getenv("TERM") != "dumb"
	return &watch{w: env.Stdout, json: asJSON, tty: tty, size: env.StdoutSize}
}

// until shows what read finds, and returns when no run holds the checkpoint or
// ctx ends.
func (v *watch) until(ctx context.Context, read func() (*standing, error)) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var last time.Time
	for {
		st, err := read()
		switch now := time.Now(); {
		case errors.Is(err, fs.ErrNotExist):
			err = nil // the run has just begun, and has published nothing yet
		case err != nil:
			return err
		case st.Running == 0:
			v.erase()
			return st.show(v.w, v.json)
		case v.tty:
			err = v.draw(st)
		case last.IsZero() || now.Sub(last) >= plainEvery:
			last = now
			err = v.line(st)
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return statusError{exitInterrupt + signalOf(ctx)}
		case <-tick.C:
		}
	}
}

// draw puts the status over the one before. Lines are cut to the terminal,
// since those that wrap or scroll away cannot be gone over.
func (v *watch) draw(st *standing) error {
	var b bytes.Buffer
	if err := st.print(&b); err != nil {
		return err
	}
	v.erase()
	columns, rows := v.size()
	for line := range strings.Lines(b.String()) {
		if rows > 0 && v.drawn >= rows-1 {
			break
		}
		text := []rune(strings.TrimSuffix(line, "\n"))
		if columns > 0 && len(text) > columns-1 {
			text = text[:max(0, columns-1)]
		}
		if _, err := fmt.Fprintln(v.w, string(text)); err != nil {
			return err
		}
		v.drawn++
	}
	return nil
}

// erase goes back to where the drawing began and clears what follows.
func (v *watch) erase() {
	if v.drawn > 0 {
		fmt.Fprintf(v.w, "\x1b[%dA\x1b[J", v.drawn)
		v.drawn = 0
	}
}

// line tells the status in one line.
func (v *watch) line(st *standing) error {
	if v.json {
		return printJSON(v.w, st)
	}
	var b strings.Builder
	finished, percent := int64(st.Completed+st.Failed), int64(100)
	if st.Operations > 0 {
		percent = finished * 100 / st.Operations
	}
	fmt.Fprintf(&b, "%s %s/%s done (%d%%), %d in flight", st.Updated.Local().Format(time.TimeOnly), grouped(finished), grouped(st.Operations), percent, st.InFlight)
	if st.Failed > 0 {
		fmt.Fprintf(&b, ", %s failed", grouped(int64(st.Failed)))
	}
	if st.Unknown > 0 {
		fmt.Fprintf(&b, ", %s unknown", grouped(int64(st.Unknown)))
	}
	if st.Waiting != "" {
		fmt.Fprintf(&b, ", limited by %s", clean(st.Waiting))
	}
	_, err := fmt.Fprintln(v.w, b.String())
	return err
}
