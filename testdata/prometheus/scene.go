package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// bench is a mock, a Prometheus, and a run that it scrapes.
type bench struct {
	dir, binary    string
	mock           *harness.Mock
	prometheus     string // URL
	processes      []*harness.Process
	started, ended time.Time // of the run
}

func (b *bench) start(ctx context.Context, name string, args ...string) (*harness.Process, error) {
	p, err := harness.Command{Argv: append([]string{name}, args...), Dir: b.dir, Env: []string{"OPENAI_API_KEY=sk-none"}}.Start(ctx)
	if err == nil {
		b.processes = append(b.processes, p)
	}
	return p, err
}

func (b *bench) end() {
	for _, p := range b.processes {
		p.Kill()
	}
}

// until waits for a condition, as long as a process runs.
func until(ctx context.Context, p *harness.Process, condition func() bool) error {
	if err := harness.Until(ctx, func() bool { return !p.Running() || condition() }); err != nil || !p.Running() {
		return fmt.Errorf("waited in vain: %s", p.Errs.String())
	}
	return nil
}

// Two of its models have limits: the first less than the run is told, so that it
// refuses, and the second more than enough.
const routes = `
providers:
  house: {kind: openai-compatible, base_url: "http://%[1]s/v1"}
  cloud: {kind: openai-compatible, base_url: "http://%[1]s/v1", limit_group: cloud}
  gone: {kind: openai-compatible, base_url: "http://%[2]s/v1"}
models:
  house/small: {rpm: 240, tpm: 100000, concurrency: 4, price: {input: 1, output: 2}}
  cloud/large: {rpm: 6000, tpm: 1000000, concurrency: 2, price: {input: 5, output: 15}}
  gone/small: {rpm: 600, concurrency: 2, price: {input: 1, output: 2}}
tasks:
  default:
    primary: {provider: house, model: small}
    fallbacks: [{provider: cloud, model: large, when: [rate_limited]}]
  elsewhere:
    primary: {provider: gone, model: small}
    fallbacks: [{provider: cloud, model: large, when: [primary_unavailable, circuit_open]}]
`

// begin starts mock and Prometheus, and keeps a few answers for --cache.
func (b *bench) begin(ctx context.Context) error {
	var err error
	b.mock, err = harness.StartMock(ctx, b.binary, b.dir, harness.Anywhere,
		"--model-limit", "small:rpm=20,headers=none,error-rate=0.3,lost-rate=0.1,latency=200ms", "--model-limit", "large:rpm=6000,error-rate=0.1,latency=200ms")
	if err != nil {
		return err
	}
	b.processes = append(b.processes, b.mock.Process)
	none, err := harness.FreeAddr()
	if err != nil {
		return err
	}
	files := map[string]string{"routes.yaml": fmt.Sprintf(routes, b.mock.Addr, none), "x.jsonl": input(160), "first.jsonl": input(4)}
	files["prometheus.yml"] = "global: {scrape_interval: 1s, evaluation_interval: 1s}\n" +
		"scrape_configs:\n  - {job_name: llmbatch, scrape_timeout: 900ms, file_sd_configs: [{files: [runs.json], refresh_interval: 1s}]}\n"
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	first, err := b.start(ctx, b.binary, "run", "first.jsonl", "--config", "routes.yaml", "--cache", "kept")
	if err != nil {
		return err
	}
	if status := first.Wait(); status != 0 {
		return fmt.Errorf("the first run ends with %d: %s", status, first.Errs.String())
	}
	if err := b.post(ctx, "/reset"); err != nil {
		return err
	}
	at, err := harness.FreeAddr()
	if err != nil {
		return err
	}
	b.prometheus = "http://" + at
	server, err := b.start(ctx, "prometheus", "--config.file", "prometheus.yml", "--storage.tsdb.path", "data", "--web.listen-address", at)
	if err != nil {
		return err
	}
	return until(ctx, server, func() bool {
		_, err := b.value(ctx, "vector(1)")
		return err == nil
	})
}

// input has lines of two tasks and two priorities, a few twins, and some that
// nothing can answer.
func input(lines int) string {
	var b strings.Builder
	for i := range lines {
		prompt, more := fmt.Sprintf("say %d", i), ""
		switch {
		case i > 10 && i < 40 && i%2 == 0:
			prompt = "[[fault:context]] too long"
		case i%45 == 44:
			prompt = fmt.Sprintf("say %d", i-20)
		case i > 40 && i%30 == 0:
			more = `,"task":"elsewhere"`
		case i%7 == 0:
			more = `,"priority":"high"`
		}
		fmt.Fprintf(&b, `{"id":"op-%d","prompt":%q,"max_tokens":60%s}`+"\n", i, prompt, more)
	}
	return b.String()
}

var metricsAt = regexp.MustCompile(`metrics at http://([^/\s]+)/metrics`)

// run starts the batch and tells Prometheus where it is.
func (b *bench) run(ctx context.Context) (*harness.Process, error) {
	b.started = time.Now()
	run, err := b.start(ctx, b.binary, "run", "x.jsonl", "--config", "routes.yaml", "--cache", "kept", "--dedupe",
		"--metrics-addr", ":0", "--metrics-linger", "30s")
	if err != nil {
		return nil, err
	}
	var at []string
	if err := until(ctx, run, func() bool { at = metricsAt.FindStringSubmatch(run.Errs.String()); return at != nil }); err != nil {
		return nil, err
	}
	temporary := filepath.Join(b.dir, "runs.tmp")
	if err := os.WriteFile(temporary, fmt.Appendf(nil, `[{"targets":[%q]}]`, at[1]), 0o600); err != nil {
		return nil, err
	}
	return run, os.Rename(temporary, filepath.Join(b.dir, "runs.json"))
}

func (b *bench) post(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.mock.Addr+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		err = errors.New(response.Status)
	}
	return errors.Join(err, response.Body.Close())
}
