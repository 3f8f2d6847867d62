// Command terminal runs llmbatch in tmux, at 80 and at 40 columns, and looks at
// what stands on the screen and at every byte that went there: no line is wrapped
// or torn, the bar never leaves more than one, and nothing that a server says
// drives the terminal.
//
//	go run ./testdata/terminal [-short]
//
// It needs tmux. It exits 1 if something is amiss.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// operations of each run; one of them meets a hostile error.
const operations = 60

// hostile is what a server may say: it clears the screen, sets the title, goes
// back, and leaves its line.
const hostile = "no\x1b[2J\x1b]0;owned\x07\rsuch\nfield\u202e \x9b31m"

func main() {
	short := flag.Bool("short", false, "two of the cases")
	flag.Parse()
	if err := measure(*short); err != nil {
		fmt.Fprintln(os.Stderr, "terminal:", err)
		os.Exit(1)
	}
}

func measure(short bool) error {
	if _, err := exec.LookPath("tmux"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "llmbatch-terminal-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, binary: filepath.Join(dir, "llmbatch")}
	if err := harness.Build(ctx, b.binary); err != nil {
		return err
	}
	stop, err := b.serve(ctx)
	if err != nil {
		return err
	}
	defer stop()
	defer b.tmux(ctx, "kill-server")
	cases := []screen{
		{name: "80 columns", columns: 80},
		{name: "40 columns", columns: 40},
		{name: "from 80 to 40", columns: 80, then: 40},
		{name: "from 40 to 80", columns: 40, then: 80},
		{name: "NO_COLOR", columns: 80, env: "NO_COLOR=1", plain: true},
		{name: "results on the same terminal", columns: 80, args: "--output -", plain: true, tee: true},
		{name: "results in a pipe", columns: 80, args: "--output -", redirect: ">out"},
		{name: "stderr in a file", columns: 80, redirect: "2>log", silent: true},
	}
	if short {
		cases = []screen{cases[1], cases[2], cases[6]}
	}
	var all sync.WaitGroup
	for i := range cases {
		all.Go(func() { cases[i].check(ctx, b, fmt.Sprintf("s%d", i)) })
	}
	all.Wait()
	failed := 0
	for _, c := range cases {
		if len(c.faults) == 0 {
			fmt.Printf("ok    %s (%d drawings in %.1f s)\n", c.name, c.drawings, c.took.Seconds())
			continue
		}
		failed++
		fmt.Printf("FAIL  %s\n      %s\n", c.name, strings.Join(c.faults, "\n      "))
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cases failed", failed, len(cases))
	}
	return nil
}

// bench is what cases share.
type bench struct {
	dir, binary, url string
}

// serve starts the mock, and before it a server that answers one prompt with a
// hostile error.
func (b *bench) serve(ctx context.Context) (stop func(), err error) {
	mock, err := harness.StartMock(ctx, b.binary, b.dir, harness.Anywhere, "--latency", "200ms", "--error-rate", "0.05")
	if err != nil {
		return nil, err
	}
	to := &url.URL{Scheme: "http", Host: mock.Addr}
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Contains(body, []byte("hostile")) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			proxy.ServeHTTP(w, r)
			return
		}
		text, err := json.Marshal(map[string]any{"error": map[string]string{"message": hostile, "type": "invalid_request_error"}})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(text)
	}))
	b.url = server.URL
	return func() { server.Close(); mock.Kill() }, nil
}

// tmux runs one command of a server of our own.
func (b *bench) tmux(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "tmux", append([]string{"-S", filepath.Join(b.dir, "tmux"), "-f", "/dev/null"}, args...)...)
	c.Env = append(os.Environ(), "TERM=xterm-256color", "TMUX=")
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w: %s", args[0], err, out)
	}
	return string(out), nil
}
