package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// screen is one run on one terminal.
type screen struct {
	name          string
	columns, then int    // then = after a resize in the middle; 0 = none
	env, args     string // of the run
	redirect      string // of the shell
	plain         bool   // no bar, nothing but text
	tee           bool   // results stand on the screen
	silent        bool   // nothing stands on the screen

	faults   []string
	drawings int
	took     time.Duration
}

func (c *screen) fault(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); len(c.faults) < 8 {
		c.faults = append(c.faults, text)
	}
}

// bars are lines with a bar, or what is left of one.
var bars = regexp.MustCompile(`(?m)^ *\d+% .*$|\[[=>.]{10}\]`)

// check runs the case from an empty terminal to the summary.
func (c *screen) check(ctx context.Context, b *bench, session string) {
	if err := c.run(ctx, b, session); err != nil {
		c.fault("%s", err)
	}
}

func (c *screen) run(ctx context.Context, b *bench, session string) error {
	dir := filepath.Join(b.dir, session)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "x.jsonl"), input(), 0o600); err != nil {
		return err
	}
	// The shell waits for a key, so that not a byte is missed.
	script := fmt.Sprintf("cd %s; read key; clear; %s OPENAI_API_KEY=sk-none %s run x.jsonl --base-url %s/v1 --model small --concurrency 2 --max-tokens 20 %s %s; echo status=$?; read key",
		dir, c.env, b.binary, b.url, c.args, c.redirect)
	if _, err := b.tmux(ctx, "new-session", "-d", "-s", session, "-x", fmt.Sprint(c.columns), "-y", "40", "sh", "-c", script); err != nil {
		return err
	}
	raw := filepath.Join(dir, "raw")
	if _, err := b.tmux(ctx, "pipe-pane", "-t", session, "cat > "+raw); err != nil {
		return err
	}
	if _, err := b.tmux(ctx, "send-keys", "-t", session, "Enter"); err != nil {
		return err
	}
	if err := c.follow(ctx, b, session); err != nil {
		return err
	}
	bytes, err := os.ReadFile(raw)
	if err != nil {
		return err
	}
	c.bytes(bytes)
	return c.files(dir)
}

func input() []byte {
	var b bytes.Buffer
	for i := range operations {
		prompt := fmt.Sprintf("say %d", i)
		if i == 10 {
			prompt = "hostile"
		}
		fmt.Fprintf(&b, `{"id":"op-%d","prompt":"%s"}`+"\n", i, prompt)
	}
	return b.Bytes()
}

// follow looks at the screen until the run has ended, and resizes it on the way.
func (c *screen) follow(ctx context.Context, b *bench, session string) error {
	started, resized := time.Now(), time.Time{}
	seen := false
	for {
		now, err := b.tmux(ctx, "capture-pane", "-p", "-S", "-", "-t", session)
		if err != nil {
			return err
		}
		if strings.Contains(now, "\nstatus=") || strings.HasPrefix(now, "status=") {
			c.took = time.Since(started)
			return c.end(ctx, b, session, now)
		}
		if n := len(bars.FindAllString(now, -1)); n > 0 {
			seen = true
			// A terminal that has just become narrower is drawn anew within a tenth of a second.
			if lines := slices.Compact(matching(now)); len(lines) > 1 && time.Since(resized) > 500*time.Millisecond {
				c.fault("%d lines hold a bar:\n%s", len(lines), now)
			}
		}
		if c.then > 0 && resized.IsZero() && seen && time.Since(started) > 3*time.Second {
			resized = time.Now()
			if _, err := b.tmux(ctx, "resize-window", "-t", session, "-x", fmt.Sprint(c.then), "-y", "40"); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the run does not end: %s", now)
		}
		harness.Pause(ctx, 60*time.Millisecond, nil)
	}
}

// matching are the lines with a bar.
func matching(text string) (all []string) {
	for line := range strings.Lines(text) {
		if bars.MatchString(line) {
			all = append(all, line)
		}
	}
	return all
}

// end looks at what the run left behind.
func (c *screen) end(ctx context.Context, b *bench, session, now string) error {
	if rest := matching(now); len(rest) > 0 {
		c.fault("a bar is left: %q", rest)
	}
	if c.silent {
		if text := strings.TrimSpace(now); text != "status=3" {
			c.fault("something stands on the screen: %q", text)
		}
		return nil
	}
	_, summary, found := strings.Cut(now, "\noperations ")
	if !found {
		c.fault("no summary in\n%s", now)
	}
	for _, want := range []string{"\nthis run ", "\nfailed ", "1 invalid", "\ntokens ", "\nreached ", "\nresults ", "\nerrors ", "\nhint: ", "\nstatus=3"} {
		if !strings.Contains(summary, want) {
			c.fault("the summary lacks %q:\n%s", want, summary)
		}
	}
	if c.tee {
		return nil // results are as long as they are
	}
	joined, err := b.tmux(ctx, "capture-pane", "-p", "-J", "-S", "-", "-t", session)
	if err != nil {
		return err
	}
	if c.then > 0 { // what was there before the resize is the terminal's to wrap
		_, now, _ = strings.Cut(now, "\noperations ")
		_, joined, _ = strings.Cut(joined, "\noperations ")
	}
	if one, other := strings.Count(strings.TrimSpace(now), "\n"), strings.Count(strings.TrimSpace(joined), "\n"); one != other {
		c.fault("%d lines are wrapped:\n%s", one-other, now)
	}
	return nil
}

// drawing is one state of the bar, as it goes to the terminal.
var drawing = regexp.MustCompile(`\r([^\r\n\x1b]*)\x1b\[J\r`)

// bytes looks at all that went to the terminal since it was cleared.
func (c *screen) bytes(raw []byte) {
	if _, after, cleared := bytes.Cut(raw, []byte("\x1b[2J")); cleared {
		raw = after
	}
	if i := bytes.LastIndex(raw, []byte("\x1b[3J")); i >= 0 {
		raw = raw[i+4:]
	}
	text := strings.ReplaceAll(string(raw), "\r\n", "\n")
	all := drawing.FindAllStringSubmatch(text, -1)
	widest := max(c.columns, c.then)
	for _, d := range all {
		c.drawings++
		if n := utf8.RuneCountInString(d[1]); n >= widest {
			c.fault("a bar of %d columns on %d: %q", n, widest, d[1])
		}
	}
	if most := int(c.took.Seconds()*10) + 5; c.drawings > most {
		c.fault("%d drawings in %s", c.drawings, c.took)
	}
	if c.plain == (c.drawings > 0) && !c.silent {
		c.fault("%d drawings", c.drawings)
	}
	text = drawing.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "\r\x1b[J", "")
	if i := strings.IndexAny(text, "\r\x1b\x07\u009b\u202e"); i >= 0 {
		c.fault("a control character goes to the terminal: %q", text[max(0, i-60):min(len(text), i+60)])
	}
}

// files looks at what went elsewhere.
func (c *screen) files(dir string) error {
	switch c.redirect {
	case "2>log":
		log, err := os.ReadFile(filepath.Join(dir, "log"))
		if err != nil {
			return err
		}
		if bytes.ContainsAny(log, "\r\x1b") || bytes.Count(log, []byte("\n")) < 8 || !bytes.Contains(log, []byte("llmbatch: 60/60 done (100%)")) {
			c.fault("the log is not as it should be: %q", log)
		}
	case ">out":
		out, err := os.ReadFile(filepath.Join(dir, "out"))
		if err != nil {
			return err
		}
		n := 0
		for line := range bytes.Lines(out) {
			if !json.Valid(line) {
				c.fault("stdout holds %q", line)
			}
			n++
		}
		if n != operations-1 {
			c.fault("stdout holds %d lines, want %d", n, operations-1)
		}
	}
	return nil
}
