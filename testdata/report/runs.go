package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// runs makes the pages.
type runs struct {
	dir, binary, out string
}

func (r *runs) page(name string) string { return filepath.Join(r.out, name+".html") }

const routes = `providers:
  house: {kind: openai-compatible, base_url: "http://%[1]s/v1"}
  rented: {kind: openai-compatible, base_url: "http://%[1]s/v1"}
models:
  house/small: {rpm: 1000, concurrency: 3, price: {input: 0.05, output: 0.10}}
  rented/large: {rpm: 400, tpm: 100000, concurrency: 4, price: {input: 2.5, output: 10}}
tasks:
  default:
    primary: {provider: house, model: small}
    fallbacks:
      - {provider: rented, model: large, when: [rate_limited]}
`

func (r *runs) make(ctx context.Context) error {
	if err := run(ctx, r.dir, "go", "build", "-o", r.binary, "github.com/llmbatch/llmbatch"); err != nil {
		return err
	}
	mock := exec.CommandContext(ctx, r.binary, "mock", "--listen", "127.0.0.1:0", "--addr-file", "addr", "--latency", "150ms", "--jitter", "100ms",
		"--output-tokens", "60", "--output-jitter", "40", "--error-rate", "0.04")
	mock.Dir = r.dir
	if err := mock.Start(); err != nil {
		return err
	}
	defer func() {
		_ = mock.Process.Kill()
		_ = mock.Wait()
	}()
	addr, err := r.await(ctx, "addr", func(b []byte) bool { return len(b) > 0 })
	if err != nil {
		return err
	}
	at := strings.TrimSpace(string(addr))
	for name, text := range map[string]string{"plain.jsonl": prompts(60, false), "everything.jsonl": prompts(150, true), "routes.yaml": fmt.Sprintf(routes, at)} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := run(ctx, r.dir, r.binary, "run", "plain.jsonl", "--provider", "openai-compatible", "--base-url", "http://"+at+"/v1", "--model", "big", "--tpm", "200000", "--concurrency", "6"); err != nil {
		return err
	}
	if err := r.killed(ctx); err != nil {
		return err
	}
	// What failed is meant to.
	var exit *exec.ExitError
	if err := run(ctx, r.dir, r.binary, "run", "everything.jsonl", "--config", "routes.yaml", "--max-attempts", "3"); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		return fmt.Errorf("the resumed run: %w, want exit status 3", err)
	}
	for _, name := range []string{"plain", "everything"} {
		if err := run(ctx, r.dir, r.binary, "report", name+".jsonl", "-o", r.page(name)); err != nil {
			return err
		}
	}
	return nil
}

// killed begins the second run and kills it.
func (r *runs) killed(ctx context.Context) error {
	c := exec.CommandContext(ctx, r.binary, "run", "everything.jsonl", "--config", "routes.yaml", "--max-attempts", "3")
	c.Dir = r.dir
	if err := c.Start(); err != nil {
		return err
	}
	_, err := r.await(ctx, "everything.results.jsonl", func(b []byte) bool { return bytes.Count(b, []byte("\n")) >= 40 })
	return errors.Join(err, c.Process.Kill(), ignoreExit(c.Wait()))
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// await reads a file until it is as wanted.
func (r *runs) await(ctx context.Context, name string, ok func([]byte) bool) ([]byte, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(filepath.Join(r.dir, name))
		if err == nil && ok(b) {
			return b, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w", name, ctx.Err())
		case <-tick.C:
		}
	}
}

// prompts is an input, with failures in it if they are wanted.
func prompts(n int, failing bool) string {
	faults := []string{"[[fault:policy]]", "[[fault:context]]", "[[fault:500x9]]", "[[fault:lostx1]]", "[[fault:retryafter=1x1]]"}
	var b strings.Builder
	for i := range n {
		fault := ""
		if failing && i%8 == 5 {
			fault = faults[i/8%len(faults)]
		}
		fmt.Fprintf(&b, `{"id":"<i>%d</i>","prompt":"Summarise: %s %s","max_tokens":200}`+"\n", i, strings.Repeat("the report of the quarter ", 3+i%9), fault)
	}
	return b.String()
}

// run runs a command and has its words in the error.
func run(ctx context.Context, dir, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	if name != "go" { // which builds this module
		c.Dir = dir
	}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return nil
}
