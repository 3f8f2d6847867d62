package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// running is a run that publishes after the first look and ends after n.
func running(n int) func() (*standing, error) {
	looks := 0
	return func() (*standing, error) {
		looks++
		st := &standing{Checkpoint: "x.llmbatch.db", Running: 7, Operations: 1000, Completed: looks, Failed: 1, InFlight: 8, Waiting: "rpm", Updated: time.Now()}
		switch {
		case looks == 1:
			return nil, fmt.Errorf("nothing published yet: %w", fs.ErrNotExist)
		case looks == n:
			st.Running, st.InFlight = 0, 0
		}
		return st, nil
	}
}

func TestWatchInLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		v := &watch{w: &out}
		began := time.Now()
		if err := v.until(t.Context(), running(26)); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(began); got != 25*time.Second {
			t.Errorf("took %v", got)
		}
		if n := strings.Count(out.String(), "limited by rpm\n"); n != 3 {
			t.Errorf("%d lines in 25 s", n)
		}
		if want := " 3/1,000 done (0%), 8 in flight, 1 failed, limited by rpm\n"; !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want %s", &out, want)
		}
		if strings.ContainsAny(out.String(), "\x1b\r") || strings.Count(out.String(), "operations  ") != 1 {
			t.Errorf("got %q", &out)
		}
	})
}

func TestWatchOnTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		v := &watch{w: &out, tty: true, size: func() (int, int) { return 20, 4 }}
		if err := v.until(t.Context(), running(5)); err != nil {
			t.Fatal(err)
		}
		before, end, _ := strings.Cut(out.String(), "\x1b[3A\x1b[Jcheckpoint  x.llmbatch.db\n")
		if n := strings.Count(before, "\x1b[3A\x1b[J"); n != 2 || end == "" {
			t.Errorf("drawn over %d times: %q", n, &out)
		}
		for line := range strings.Lines(strings.ReplaceAll(before, "\x1b[3A\x1b[J", "")) {
			if len(line) > 20 { // 19 and the newline
				t.Errorf("%q would wrap", line)
			}
		}
	})
}

func TestWatchStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2500*time.Millisecond, func() { cancel(withSignal{int(syscall.SIGTERM)}) })
		var out strings.Builder
		err := (&watch{w: &out, json: true}).until(ctx, running(100))
		var status statusError
		if !errors.As(err, &status) || status.status != 143 {
			t.Errorf("got %v", err)
		}
		if strings.Count(out.String(), "\n") != 1 || !strings.HasPrefix(out.String(), `{"input":`) {
			t.Errorf("got %s", &out)
		}
	})
}
