package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// bench is a mock, a Prometheus, and a run that it scrapes.
type bench struct {
	dir, binary    string
	mock           string // host:port
	prometheus     string // URL
	processes      []*process
	started, ended time.Time // of the run
}

// process is one of ours; end ends it.
type process struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	errs bytes.Buffer
	done chan struct{}
}

// Write keeps what the process says.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errs.Write(b)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errs.String()
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (b *bench) start(ctx context.Context, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stderr = b.dir, p
	p.cmd.Env = append(os.Environ(), "OPENAI_API_KEY=sk-none")
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	b.processes = append(b.processes, p)
	go func() {
		_ = p.cmd.Wait() // ProcessState tells how it ended
		close(p.done)
	}()
	return p, nil
}

func (b *bench) end() {
	for _, p := range b.processes {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	}
}

// until waits for a condition.
func until(ctx context.Context, p *process, condition func() bool) error {
	for !condition() {
		if ctx.Err() != nil || !p.running() {
			return fmt.Errorf("waited in vain: %s", p.said())
		}
		wait(ctx, 50*time.Millisecond)
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
	addr := filepath.Join(b.dir, "addr")
	mock, err := b.start(ctx, b.binary, "mock", "--listen", "127.0.0.1:0", "--addr-file", addr,
		"--model-limit", "small:rpm=20,headers=none,error-rate=0.3,lost-rate=0.1,latency=200ms", "--model-limit", "large:rpm=6000,error-rate=0.1,latency=200ms")
	if err != nil {
		return err
	}
	if err := until(ctx, mock, func() bool {
		raw, err := os.ReadFile(addr)
		b.mock = strings.TrimSpace(string(raw))
		return err == nil && b.mock != ""
	}); err != nil {
		return err
	}
	none, err := freePort()
	if err != nil {
		return err
	}
	files := map[string]string{"routes.yaml": fmt.Sprintf(routes, b.mock, none), "x.jsonl": input(160), "first.jsonl": input(4)}
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
	<-first.done
	if status := first.cmd.ProcessState.ExitCode(); status != 0 {
		return fmt.Errorf("the first run ends with %d: %s", status, first.said())
	}
	if err := b.post(ctx, "/reset"); err != nil {
		return err
	}
	at, err := freePort()
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

// freePort is an address at which nothing listens.
func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
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
func (b *bench) run(ctx context.Context) (*process, error) {
	b.started = time.Now()
	run, err := b.start(ctx, b.binary, "run", "x.jsonl", "--config", "routes.yaml", "--cache", "kept", "--dedupe",
		"--metrics-addr", ":0", "--metrics-linger", "30s")
	if err != nil {
		return nil, err
	}
	var at []string
	if err := until(ctx, run, func() bool { at = metricsAt.FindStringSubmatch(run.said()); return at != nil }); err != nil {
		return nil, err
	}
	temporary := filepath.Join(b.dir, "runs.tmp")
	if err := os.WriteFile(temporary, fmt.Appendf(nil, `[{"targets":[%q]}]`, at[1]), 0o600); err != nil {
		return nil, err
	}
	return run, os.Rename(temporary, filepath.Join(b.dir, "runs.json"))
}

// asked is what the mock counted.
func (b *bench) asked(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.mock+"/stats", nil)
	if err != nil {
		return 0, err
	}
	var stats struct{ Asked float64 }
	err = fetch(request, &stats)
	return stats.Asked, err
}

func (b *bench) post(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.mock+path, nil)
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
