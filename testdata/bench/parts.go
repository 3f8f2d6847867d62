package main

import (
	"context"
	"encoding/json"
	"fmt"
	"go/build"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
	"github.com/tiktoken-go/tokenizer"

	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/input"
)

// parts measures what needs no server: pre-flight, counting, start, size.
func parts(ctx context.Context, b *bench) error {
	for _, part := range []func(context.Context, *bench) error{preflights, counts, starts} {
		if err := part(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// result is what a child prints: figures by name.
type result map[string]float64

// child runs this program's part name on one processor, -rounds times, and
// gives the median of each figure.
func (b *bench) child(ctx context.Context, name string, args ...string) (result, error) {
	all := map[string][]float64{}
	for range b.rounds {
		p, err := b.command(ctx, b.dir, []string{"GOMAXPROCS=1"}, b.self, append([]string{name}, args...)...)
		if err == nil {
			_, err = p.wait()
		}
		if err != nil {
			return nil, err
		}
		var r result
		if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", name, err, p.out.String())
		}
		for k, v := range r {
			all[k] = append(all[k], v)
		}
	}
	r := result{}
	for k, v := range all {
		r[k] = median(v)
	}
	return r, nil
}

// cpu is the processor time of this process so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// preflights reads files of batch lines of a kilobyte and of plain lines.
func preflights(ctx context.Context, b *bench) error {
	n := 200_000
	if b.short {
		n = 20_000
	}
	for _, shape := range []string{"batch", "plain"} {
		path := filepath.Join(b.dir, shape+".jsonl")
		if err := writeShape(path, shape, n); err != nil {
			return err
		}
		r, err := b.child(ctx, "preflight", path)
		if err != nil {
			return err
		}
		b.atLeast("pre-flight, "+shape+" lines of 1 KB, a core", r["MB/s"], 250, 25, " MB/s", fmt.Sprintf("json.Valid alone %.0f MB/s", r["valid"]))
	}
	return nil
}

// writeShape writes lines of a kilobyte, English with what JSON escapes.
func writeShape(path, shape string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	text := strings.Repeat("Where is the parcel that I \\\"ordered\\\" last week?\\nNobody at the shop – or here – can say. ", 9)
	var b strings.Builder
	for i := range n {
		switch b.Reset(); shape {
		case "batch":
			fmt.Fprintf(&b, `{"custom_id":"request-%d","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o-mini","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"%s"}],"max_tokens":100}}`, i, text)
		default:
			fmt.Fprintf(&b, `{"id":"request-%d","prompt":"%s","metadata":{"customer":%d}}`, i, text, i)
		}
		b.WriteByte('\n')
		if _, err := f.WriteString(b.String()); err != nil {
			return err
		}
	}
	return nil
}

// preflight is the child that checks a file once it is in memory; the time is
// the processor's, so that other programs do not count.
func preflight(args []string) error {
	raw, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	start, valid := cpu(), 0
	for line := range strings.Lines(string(raw)) {
		if json.Valid([]byte(line)) {
			valid++
		}
	}
	checked := cpu() - start
	raw = nil
	runtime.GC()
	ctx := context.Background()
	f, err := input.Open(ctx, args[0], nil, os.TempDir())
	if err != nil {
		return err
	}
	defer f.Close()
	start = cpu()
	_, report, err := input.Preflight(ctx, f, &input.Settings{Model: "gpt-4o-mini"})
	took := cpu() - start
	if err != nil {
		return err
	}
	if report.Operations != valid {
		return fmt.Errorf("%d operations of %d lines: %v", report.Operations, valid, report.Problems)
	}
	info, err := os.Stat(args[0])
	if err != nil {
		return err
	}
	mb := float64(info.Size()) / 1e6
	return json.NewEncoder(os.Stdout).Encode(result{"MB/s": mb / took.Seconds(), "valid": mb / checked.Seconds()})
}

// counts compares the token counter with the two Go tokenizers.
func counts(ctx context.Context, b *bench) error {
	r, err := b.child(ctx, "count")
	if err != nil {
		return err
	}
	for _, corpus := range []string{"english", "code"} {
		b.atLeast("counting "+corpus+" / tiktoken-go", r[corpus]/r[corpus+" tiktoken-go"], 20, 8, "",
			fmt.Sprintf("%.1f and %.2f MB/s; tiktoken-go/tokenizer %.2f", r[corpus], r[corpus+" tiktoken-go"], r[corpus+" tokenizer"]))
	}
	return nil
}

// countLoop is the child that counts real text in prompts of a kilobyte: Newton's
// Opticks and net/http, both from Go's own tree.
func countLoop([]string) error {
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	oracle, err := tiktoken.GetEncoding("o200k_base")
	if err != nil {
		return err
	}
	other, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		return err
	}
	counter := estimate.NewCounter()
	src, r := filepath.Join(build.Default.GOROOT, "src"), result{}
	for corpus, pattern := range map[string]string{"english": "testdata/Isaac.Newton-Opticks.txt", "code": "net/http/*.go"} {
		prompts, err := cut(filepath.Join(src, pattern))
		if err != nil {
			return err
		}
		few := prompts[:len(prompts)/8] // the slower ones' share
		ours := func(p string) error { counter.Text("gpt-4o-mini", p); return nil }
		if _, err := speed(prompts[:1], ours); err != nil { // loads the tables
			return err
		}
		for name, f := range map[string]func(string) error{
			"":             ours,
			" tiktoken-go": func(p string) error { oracle.EncodeOrdinary(p); return nil },
			" tokenizer":   func(p string) error { _, err := other.Count(p); return err },
		} {
			texts := few
			if name == "" {
				texts = prompts
			}
			if r[corpus+name], err = speed(texts, f); err != nil {
				return err
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// cut gives the text of files in prompts of a kilobyte, a megabyte at most.
func cut(pattern string) (prompts []string, err error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text.Write(raw)
	}
	all := text.String()
	for all = all[:min(len(all), 1<<20)]; len(all) > 1000; all = all[1000:] {
		prompts = append(prompts, strings.ToValidUTF8(all[:1000], ""))
	}
	if len(prompts) == 0 {
		err = fmt.Errorf("no text in %s", pattern)
	}
	return prompts, err
}

// speed is in megabytes a second of processor time.
func speed(texts []string, count func(string) error) (float64, error) {
	size, start := 0, cpu()
	for _, t := range texts {
		size += len(t)
		if err := count(t); err != nil {
			return 0, err
		}
	}
	return float64(size) / 1e6 / (cpu() - start).Seconds(), nil
}

// starts measures the start of the program and the size of its binary.
func starts(ctx context.Context, b *bench) error {
	var all, busy []float64
	for range 2*b.rounds + 1 {
		s, err := b.run(ctx, b.dir, b.product, "--help")
		if err != nil {
			return err
		}
		all, busy = append(all, s.wall.Seconds()*1000), append(busy, s.cpu.Seconds()*1000)
	}
	b.atMost("llmbatch --help", median(all), 30, 300, " ms", fmt.Sprintf("%.0f ms of processor time", median(busy)))
	info, err := os.Stat(b.product)
	if err != nil {
		return err
	}
	b.atMost("binary, stripped", float64(info.Size())/1e6, 30, 30, " MB", "")
	return nil
}
