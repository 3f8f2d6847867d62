package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// toxic is one fault that toxiproxy makes between a run and the mock.
type toxic struct {
	name       string
	kind       string // toxiproxy's word; "down" = the proxy is away for 2 s
	stream     string
	toxicity   float64
	attributes map[string]int
	flags      []string
}

// toxics are all that it has: each kind, in both directions where that differs.
// Kinds that end a connection hit a part of them, or nothing could ever pass.
var toxics = []toxic{
	{"none", "", "", 0, nil, nil},
	{"latency of answers", "latency", "downstream", 1, map[string]int{"latency": 300, "jitter": 250}, nil},
	{"latency of requests", "latency", "upstream", 1, map[string]int{"latency": 300, "jitter": 250}, nil},
	{"narrow answers", "bandwidth", "downstream", 1, map[string]int{"rate": 8}, nil},
	{"narrow requests", "bandwidth", "upstream", 1, map[string]int{"rate": 8}, nil},
	{"slow close", "slow_close", "downstream", 1, map[string]int{"delay": 1000}, nil},
	{"answers swallowed, then closed", "timeout", "downstream", 0.3, map[string]int{"timeout": 500}, nil},
	{"requests swallowed, then closed", "timeout", "upstream", 0.3, map[string]int{"timeout": 500}, nil},
	{"answers swallowed for ever", "timeout", "downstream", 0.2, map[string]int{"timeout": 0}, []string{"--timeout", "3s"}},
	{"requests swallowed for ever", "timeout", "upstream", 0.2, map[string]int{"timeout": 0}, []string{"--timeout", "3s"}},
	{"reset at once", "reset_peer", "downstream", 0.3, map[string]int{"timeout": 0}, nil},
	{"reset after 200 ms", "reset_peer", "upstream", 0.3, map[string]int{"timeout": 200}, nil},
	{"answers in slices", "slicer", "downstream", 1, map[string]int{"average_size": 16, "size_variation": 8, "delay": 100}, nil},
	{"requests in slices", "slicer", "upstream", 1, map[string]int{"average_size": 16, "size_variation": 8, "delay": 100}, nil},
	{"cut in the headers", "limit_data", "downstream", 0.3, map[string]int{"bytes": 60}, nil},
	{"cut in a body", "limit_data", "downstream", 0.3, map[string]int{"bytes": 900}, nil},
	{"cut in a request", "limit_data", "upstream", 0.3, map[string]int{"bytes": 300}, nil},
	{"down for 2 s", "down", "", 1, nil, nil},
}

// toxiproxy runs a batch through each of its faults. All operations complete,
// none is lost or doubled, and the mock never sees more requests than the run
// counts attempts: nothing below it sends a request again.
func toxiproxy(ctx context.Context, b *bench) {
	dir, err := b.folder("toxiproxy")
	var api string
	if err == nil {
		api, err = harness.FreeAddr()
	}
	if err != nil {
		b.fail("toxiproxy", "start", err)
		return
	}
	host, port, _ := net.SplitHostPort(api)
	stop, err := daemon(ctx, dir, "toxiproxy-server", "-host", host, "-port", port)
	if err != nil {
		b.fail("toxiproxy", "start", err)
		return
	}
	defer stop()
	if err := listening(ctx, api); err != nil {
		b.fail("toxiproxy", "start", err)
		return
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, 6)
	for i := range toxics {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			b.try("toxiproxy", toxics[i].name, func() error { return toxics[i].try(ctx, b, "http://"+api, fmt.Sprintf("p%d", i)) })
		})
	}
	all.Wait()
}

// try runs a batch through one fault.
func (x *toxic) try(ctx context.Context, b *bench, api, name string) error {
	n := 60
	s, err := b.scene(ctx, "toxic", same(n, 60), 20, "--latency", "100ms", "--honour-keys", "--log-max", "0")
	if err != nil {
		return err
	}
	defer s.mock.Kill()
	var made struct{ Listen string }
	if err := call(ctx, api+"/proxies", map[string]any{"name": name, "listen": "127.0.0.1:0", "upstream": s.mock.Addr, "enabled": true}, &made); err != nil {
		return err
	}
	if x.kind != "" && x.kind != "down" {
		if err := call(ctx, api+"/proxies/"+name+"/toxics", map[string]any{"type": x.kind, "stream": x.stream, "toxicity": x.toxicity, "attributes": x.attributes}, nil); err != nil {
			return err
		}
	}
	s.url = "http://" + made.Listen + "/v1"
	p, err := s.start(ctx, append(x.flags, "--concurrency", "12", "--max-attempts", "20")...)
	if err != nil {
		return err
	}
	defer p.Kill()
	if x.kind == "down" {
		if err := x.downFor(ctx, 2*time.Second, p, s.mock, api+"/proxies/"+name, made.Listen); err != nil {
			return err
		}
	}
	o, err := s.ended(ctx, p)
	if err != nil {
		return err
	}
	r, l := o.report, o.ledger
	whole := r.Completed == n && r.Failed == 0 && l.Twice.Extra == 0 && l.Asked <= r.Calls
	b.add("toxiproxy", x.name, fmt.Sprintf("%d completed, none billed twice, requests <= attempts", n), whole,
		"%d completed, %d billed twice, %d <= %d, in %.1f s", r.Completed, l.Twice.Extra, l.Asked, r.Calls, r.Seconds)
	return verify(o)
}

// downFor takes the proxy away in the middle of the run.
func (x *toxic) downFor(ctx context.Context, d time.Duration, p *harness.Process, m *harness.Mock, proxy, listen string) error {
	if err := harness.Until(ctx, func() bool {
		l, err := m.Ledger(ctx)
		return err == nil && l.Billed >= 10 || !p.Running()
	}); err != nil {
		return err
	}
	err := call(ctx, proxy, map[string]any{"enabled": false}, nil)
	harness.Pause(ctx, d, nil)
	return errors.Join(err, call(ctx, proxy, map[string]any{"enabled": true, "listen": listen}, nil))
}

// call asks toxiproxy for something.
func call(ctx context.Context, url string, body, answer any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err = io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode/100 != 2:
		return fmt.Errorf("%s: %s: %s", url, response.Status, raw)
	case answer == nil:
		return nil
	}
	return json.Unmarshal(raw, answer)
}

// listening waits until somebody else's server is there.
func listening(ctx context.Context, addr string) error {
	return harness.Until(ctx, func() bool {
		c, err := net.Dial("tcp", addr)
		return err == nil && c.Close() == nil
	})
}

// daemon starts somebody else's server and returns what ends it.
func daemon(ctx context.Context, dir, name string, args ...string) (stop func(), err error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%w (.ci/thirdparty installs it)", err)
	}
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, path, args...)
	c.Dir, c.Stdout, c.Stderr = dir, log, log
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return func() {
		// It was told to end: how it does is not looked at.
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
		_ = log.Close()
	}, nil
}
