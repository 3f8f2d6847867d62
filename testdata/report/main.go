// Command report makes runs against the mock, one of them killed and resumed, and
// looks at their pages in headless Chromium: nothing on the console, no request, every
// chart drawn with its axes named, nothing that sticks out on a screen or a telephone,
// a dark look where that is wanted, and paper.
//
//	go run ./testdata/report [-out folder]
//
// It needs chromium. It exits 1 if something is amiss.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

func main() {
	out := flag.String("out", "", "`folder` that keeps the pages and pictures of them")
	flag.Parse()
	if err := look(*out); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func look(out string) error {
	if _, err := exec.LookPath("chromium"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "llmbatch-report-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if out == "" {
		out = dir
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	began := time.Now()
	r := &runs{dir: dir, binary: filepath.Join(dir, "llmbatch"), out: out}
	if err := r.make(ctx); err != nil {
		return err
	}
	fmt.Printf("%-36s %5.1f s\n", "pages", time.Since(began).Seconds())
	b := &browser{dir: dir}
	checks := []struct {
		name string
		do   func() error
	}{
		{"everything: console and network", func() error { return b.quiet(ctx, r.page("everything"), filepath.Join(out, "everything-1280.png")) }},
		{"everything: charts at 1280", func() error { return b.measure(ctx, r.page("everything"), 1280, everything) }},
		{"everything: charts at 390", func() error { return b.measure(ctx, r.page("everything"), 390, everything) }},
		{"everything: dark, on a telephone", func() error { return b.dark(ctx, r.page("everything"), filepath.Join(out, "everything-dark.png")) }},
		{"everything: paper", func() error { return b.paper(ctx, r.page("everything"), filepath.Join(out, "everything.pdf")) }},
		{"plain: charts at 1280", func() error { return b.measure(ctx, r.page("plain"), 1280, plain) }},
		{"a page that does harm is found", func() error { return b.control(ctx) }},
	}
	var mu sync.Mutex
	var failed []error
	var all sync.WaitGroup
	slots := make(chan struct{}, 2)
	for _, c := range checks {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			began := time.Now()
			err := c.do()
			mu.Lock()
			defer mu.Unlock()
			result := "ok"
			if err != nil {
				result = err.Error()
				failed = append(failed, fmt.Errorf("%s: %w", c.name, err))
			}
			fmt.Printf("%-36s %5.1f s  %s\n", c.name, time.Since(began).Seconds(), result)
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// plain and everything are the charts that the two pages must have.
var (
	plain      = []string{"Tokens a minute", "Requests a minute", "Queue wait", "Calls in flight", "Reserved and used tokens", "Latency", "Output length"}
	everything = []string{
		"Requests a minute of rented/large", "Tokens a minute of rented/large", "Queue wait", "Calls in flight", "Reserved and used tokens", "Refusals", "Retries", "Latency",
		"Output length", "Cost by model",
	}
)
