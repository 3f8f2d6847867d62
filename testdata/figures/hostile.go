package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// assault is one answer that is meant to do harm. A run of it and twenty good
// lines has to end with the good ones answered, the bad one a dead letter of the
// class (if it has one) or answered too, and its memory bounded.
type assault struct {
	name, class string
	flags       []string
	most        float64 // MiB above what a harmless run takes
	answer      func(w http.ResponseWriter)
}

const gigabyte = 1 << 30

func assaults() []assault {
	ok := `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"fine"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}`
	header := func(name string, n int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set(name, strings.Repeat("a", n))
			put(w, ok+"}")
		}
	}
	return []assault{
		{name: "harmless", answer: func(w http.ResponseWriter) { put(w, ok+"}") }},
		{name: "gzip, 20 MiB of blanks", class: "response_too_large", most: 64, answer: func(w http.ResponseWriter) { bomb(w, 20<<20) }},
		{name: "gzip, 2 GiB of blanks", class: "response_too_large", most: 64, answer: func(w http.ResponseWriter) { bomb(w, 2*gigabyte) }},
		{name: "2 GiB", class: "response_too_large", most: 320, answer: func(w http.ResponseWriter) { flood(w, ok, 2*gigabyte) }},
		{name: "2 GiB, streamed", class: "response_too_large", most: 256, flags: []string{"--stream"}, answer: func(w http.ResponseWriter) {
			flood(w, "data: ", 2*gigabyte)
		}},
		{name: "2 GiB under 500", class: "server", most: 64, answer: func(w http.ResponseWriter) {
			w.WriteHeader(500)
			flood(w, "{", 2*gigabyte)
		}},
		{name: "a header of 300 KiB", class: "response_too_large", most: 64, answer: header("X-A", 300<<10)},
		{name: "2 GiB of headers", class: "response_too_large", most: 64, answer: headers},
		{name: "nested a million deep", class: "bad_content_type", most: 64, answer: func(w http.ResponseWriter) { put(w, ok+`,"x":`+strings.Repeat("[", 1_000_000)) }},
		{name: "a million keys", most: 192, answer: func(w http.ResponseWriter) {
			out := bufio.NewWriter(w)
			put(out, ok+`,"x":{"k":0`)
			for i := range 1_000_000 {
				fmt.Fprintf(out, `,"%d":0`, i)
			}
			put(out, "}}")
			_ = out.Flush() // the client's side is what is measured
		}},
		{name: "a number of 10 MB", most: 192, answer: func(w http.ResponseWriter) { put(w, ok+`,"x":1`+strings.Repeat("0", 10_000_000)+"}") }},
	}
}

// put writes to a client that may leave at any time.
func put(w io.Writer, s string) { _, _ = io.WriteString(w, s) }

// flood sends n bytes of a string that never ends, or until the client leaves.
func flood(w io.Writer, begin string, n int) {
	put(w, begin+`,"x":"`)
	piece := strings.Repeat("y ", 32<<10)
	for sent := 0; sent < n; sent += len(piece) {
		if _, err := io.WriteString(w, piece); err != nil {
			return
		}
	}
}

func bomb(w http.ResponseWriter, n int) {
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	blanks := []byte(strings.Repeat(" ", 1<<20))
	for sent := 0; sent < n; sent += len(blanks) {
		if _, err := z.Write(blanks); err != nil {
			return
		}
	}
	_ = z.Close() // the client may have left
}

// headers sends header lines without an end.
func headers(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	put(c, "HTTP/1.1 200 OK\r\n")
	line := "X-Line: " + strings.Repeat("z", 1000) + "\r\n"
	for sent := 0; sent < 2*gigabyte; sent += len(line) {
		if _, err := io.WriteString(c, line); err != nil {
			return
		}
	}
}

// hostile measures, from outside, what answers and inputs that mean harm can do.
func hostile(ctx context.Context, b *bench) {
	base := 0.0
	for i, a := range assaults() {
		peak, err := a.try(ctx, b)
		switch {
		case err != nil:
			b.fail("hostile", "answer: "+a.name, err)
		case i == 0:
			base = peak
		default:
			b.atMost("hostile", "answer: "+a.name+": memory above a harmless run", peak-base, a.most, " MiB")
		}
	}
	for _, c := range []struct {
		name string
		try  func(context.Context, *bench) error
	}{
		{"model names", modelNames}, {"bad lines", badLines}, {"long lines", longLines},
	} {
		if err := c.try(ctx, b); err != nil {
			b.fail("hostile", c.name, err)
		}
	}
}

// try runs one bad line among twenty good ones.
func (a assault) try(ctx context.Context, b *bench) (float64, error) {
	dir, err := b.folder("hostile")
	if err != nil {
		return 0, err
	}
	ok := assaults()[0]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && strings.Contains(string(body), "attack") {
			a.answer(w)
			return
		}
		ok.answer(w)
	})}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer server.Close()
	var lines strings.Builder
	for i := range 21 {
		text := "good"
		if i == 7 {
			text = "attack"
		}
		fmt.Fprintf(&lines, `{"id":"l%d","prompt":"%s","model":"m","max_tokens":5}`+"\n", i, text)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.jsonl"), []byte(lines.String()), 0o600); err != nil {
		return 0, err
	}
	p, err := b.run(ctx, dir, append([]string{"run", "x.jsonl", "--json", "--max-attempts", "1", "--base-url", "http://" + listener.Addr().String() + "/v1"}, a.flags...)...)
	if err != nil {
		return 0, err
	}
	r, err := p.Report()
	if err != nil {
		return 0, err
	}
	if a.name == "2 GiB, streamed" {
		return peakMiB(p), a.buried(dir) // its good answers are no streams: all are dead letters
	}
	want := 21
	if a.class != "" {
		want = 20
		err = a.buried(dir)
	}
	if r.Completed != want {
		err = errors.Join(err, fmt.Errorf("%d of %d completed: %s", r.Completed, want, p.Tail()))
	}
	return peakMiB(p), err
}

// buried wants the bad line's dead letter to be of its class.
func (a assault) buried(dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "x.errors.jsonl"))
	if err == nil && !strings.Contains(string(raw), `"class":"`+a.class+`"`) {
		err = fmt.Errorf("no dead letter of class %s in %.300s", a.class, raw)
	}
	return err
}

// modelNames has each line name a model of its own.
func modelNames(ctx context.Context, b *bench) error {
	n := 1_000_000
	if b.short {
		n = 20_000
	}
	dir, err := b.folder("models")
	if err != nil {
		return err
	}
	if err := fill(filepath.Join(dir, "x.jsonl"), n, func(w io.Writer, i int) {
		fmt.Fprintf(w, `{"id":"l%d","prompt":"hi","model":"model-%d","max_tokens":2}`+"\n", i, i)
	}); err != nil {
		return err
	}
	m, err := b.mock(ctx, dir, "--output-tokens", "2")
	if err != nil {
		return err
	}
	defer m.Kill()
	p, err := b.run(ctx, dir, "run", "x.jsonl", "--json", "--base-url", m.URL(), "--metrics-file", "m.prom", "--log-file", "run.log", "--log-level", "warn")
	if err != nil {
		return err
	}
	r, err := p.Report()
	if err != nil {
		return err
	}
	prom, err := os.ReadFile(filepath.Join(dir, "m.prom"))
	if err != nil {
		return err
	}
	name := fmt.Sprintf("input: %d model names", n)
	b.equal("hostile", name+": completed", r.Completed, n)
	b.atMost("hostile", name+": series of metrics", float64(strings.Count(string(prom), "\nllm_")), 6000, "")
	b.atMost("hostile", name+": peak memory", peakMiB(p), 400, " MiB")
	b.atMost("hostile", name+": lines on stderr", float64(strings.Count(p.Errs.String(), "\n")), 400, "")
	return nil
}

// badLines has a million lines that are no JSON, then a million dead letters.
func badLines(ctx context.Context, b *bench) error {
	n := 1_000_000
	if b.short {
		n = 50_000
	}
	dir, err := b.folder("bad")
	if err != nil {
		return err
	}
	if err := fill(filepath.Join(dir, "x.jsonl"), n, func(w io.Writer, i int) { fmt.Fprintf(w, "{\"id\":%d,\x1b[2J\n", i) }); err != nil {
		return err
	}
	name := fmt.Sprintf("input: %d bad lines", n)
	for _, c := range []struct {
		what  string
		exit  int
		flags []string
	}{{"refused", 2, nil}, {"left out", 3, []string{"--skip-invalid"}}} {
		p, err := b.run(ctx, dir, append([]string{"run", "x.jsonl", "--provider", "mock", "--model", "m"}, c.flags...)...)
		if err != nil {
			return err
		}
		if got := p.Wait(); got != c.exit {
			return fmt.Errorf("%s: exit status %d: %s", c.what, got, p.Tail())
		}
		b.atMost("hostile", name+", "+c.what+": lines printed", float64(strings.Count(p.Errs.String(), "\n")), 120, "")
		b.atMost("hostile", name+", "+c.what+": peak memory", peakMiB(p), 400, " MiB")
	}
	return nil
}

// longLines has lines of 3.6 MB, and one just below the cap of 64 MiB.
func longLines(ctx context.Context, b *bench) error {
	for _, c := range []struct {
		n, size int
		most    float64
		flags   []string
	}{{160, 3_600_000, 320, []string{"--concurrency", "4"}}, {1, 64<<20 - 100, 640, nil}} {
		if b.short {
			c.n = min(c.n, 40)
		}
		dir, err := b.folder("long")
		if err != nil {
			return err
		}
		prompt := strings.Repeat("some words that go on ", c.size/22)
		if err := fill(filepath.Join(dir, "x.jsonl"), c.n, func(w io.Writer, i int) {
			fmt.Fprintf(w, `{"id":"l%d","prompt":"%s","model":"m","max_tokens":2}`+"\n", i, prompt)
		}); err != nil {
			return err
		}
		m, err := b.mock(ctx, dir)
		if err != nil {
			return err
		}
		p, err := b.run(ctx, dir, append([]string{"run", "x.jsonl", "--json", "--base-url", m.URL()}, c.flags...)...)
		m.Kill()
		if err != nil {
			return err
		}
		r, err := p.Report()
		if err != nil {
			return err
		}
		name := fmt.Sprintf("input: %d lines of %.1f MB", c.n, float64(c.size)/1e6)
		b.equal("hostile", name+": completed", r.Completed, c.n)
		b.atMost("hostile", name+": peak memory", peakMiB(p), c.most, " MiB")
	}
	return nil
}

// fill writes a file of n lines.
func fill(path string, n int, line func(w io.Writer, i int)) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for i := range n {
		line(w, i)
	}
	return errors.Join(w.Flush(), f.Close())
}
