package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/llmbatch/llmbatch/testdata/harness"
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
	if err := harness.Build(ctx, r.binary); err != nil {
		return err
	}
	mock, err := harness.StartMock(ctx, r.binary, r.dir, harness.Anywhere, "--latency", "150ms", "--jitter", "100ms",
		"--output-tokens", "60", "--output-jitter", "40", "--error-rate", "0.04")
	if err != nil {
		return err
	}
	defer mock.Kill()
	for name, text := range map[string]string{"plain.jsonl": prompts(60, false), "everything.jsonl": prompts(150, true), "routes.yaml": fmt.Sprintf(routes, mock.Addr)} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := r.run(ctx, 0, "run", "plain.jsonl", "--provider", "openai-compatible", "--base-url", mock.URL(), "--model", "big", "--tpm", "200000", "--concurrency", "6"); err != nil {
		return err
	}
	if err := r.killed(ctx); err != nil {
		return err
	}
	// What failed is meant to.
	if err := r.run(ctx, 3, "run", "everything.jsonl", "--config", "routes.yaml", "--max-attempts", "3"); err != nil {
		return fmt.Errorf("the resumed run: %w", err)
	}
	for _, name := range []string{"plain", "everything"} {
		if err := r.run(ctx, 0, "report", name+".jsonl", "-o", r.page(name)); err != nil {
			return err
		}
	}
	return nil
}

// killed begins the second run and kills it.
func (r *runs) killed(ctx context.Context) error {
	p, err := r.start(ctx, "run", "everything.jsonl", "--config", "routes.yaml", "--max-attempts", "3")
	if err != nil {
		return err
	}
	defer p.Kill()
	return harness.Until(ctx, func() bool {
		done, err := harness.Acknowledged(filepath.Join(r.dir, "everything.results.jsonl"))
		return err == nil && len(done) >= 40
	})
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

// start starts llmbatch in the folder.
func (r *runs) start(ctx context.Context, args ...string) (*harness.Process, error) {
	return harness.Command{Argv: append([]string{r.binary}, args...), Dir: r.dir}.Start(ctx)
}

// run runs llmbatch to its end and wants an exit status.
func (r *runs) run(ctx context.Context, status int, args ...string) error {
	p, err := r.start(ctx, args...)
	if err != nil {
		return err
	}
	if got := p.Wait(); got != status {
		return fmt.Errorf("%s: exit status %d, want %d: %s", strings.Join(args, " "), got, status, p.Tail())
	}
	return nil
}
