package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// build makes llmbatch as it is released, without records, and without results too.
func (b *bench) build(ctx context.Context) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/llmbatch/llmbatch").Output()
	if err != nil {
		return fmt.Errorf("run it as go run -C testdata/bench . (%w)", err)
	}
	b.root = strings.TrimSpace(string(root))
	for out, tags := range map[string]string{b.product: "", b.without: "norecords", b.nothing: "nofiles"} {
		c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", tags, "-o", out, ".")
		c.Dir, c.Stderr = b.root, os.Stderr
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if err := c.Run(); err != nil {
			return err
		}
	}
	return nil
}

// buildSDK makes the peer that uses OpenAI's SDK.
func (b *bench) buildSDK(ctx context.Context) (string, error) {
	out := filepath.Join(b.dir, "sdk")
	c := exec.CommandContext(ctx, "go", "build", "-o", out, "./sdk")
	c.Dir, c.Stderr = filepath.Join(b.root, "testdata", "bench"), os.Stderr
	return out, c.Run()
}

// spent is what one process took, by the system's own accounts.
type spent struct {
	wall, cpu time.Duration
	peakMB    float64
}

// process is a running program.
type process struct {
	cmd   *exec.Cmd
	start time.Time
	out   bytes.Buffer
	errs  bytes.Buffer
}

// command starts a program in dir.
func (b *bench) command(ctx context.Context, dir string, env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Dir = dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "OPENAI_API_KEY=sk-bench"}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.start = time.Now()
	return p, p.cmd.Start()
}

// wait waits for the end of a process that is to succeed.
func (p *process) wait() (s spent, err error) {
	err = p.cmd.Wait()
	s.wall = time.Since(p.start)
	if err != nil {
		said := strings.TrimSpace(p.errs.String())
		err = fmt.Errorf("%s: %w: %s", filepath.Base(p.cmd.Path), err, said[max(0, len(said)-600):])
	}
	s.cpu = p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	if u, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.peakMB = float64(u.Maxrss) * 1024 / 1e6
	}
	return s, err
}

// run runs a program to its end.
func (b *bench) run(ctx context.Context, dir string, name string, args ...string) (spent, error) {
	p, err := b.command(ctx, dir, nil, name, args...)
	if err != nil {
		return spent{}, err
	}
	return p.wait()
}

// complete runs llmbatch, which has to complete n operations.
func (b *bench) complete(ctx context.Context, dir, binary, url string, n int, more ...string) (spent, error) {
	p, err := b.command(ctx, dir, nil, binary, runArgs(url, more...)...)
	if err != nil {
		return spent{}, err
	}
	s, err := p.wait()
	if err != nil {
		return s, err
	}
	var report struct{ Completed int }
	if err := json.Unmarshal(p.out.Bytes(), &report); err != nil {
		return s, err
	}
	if report.Completed != n {
		return s, fmt.Errorf("completed %d of %d", report.Completed, n)
	}
	return s, nil
}

func runArgs(url string, more ...string) []string {
	return append([]string{"run", "x.jsonl", "--model", "gpt-4o-mini", "--base-url", url, "--json", "--no-progress"}, more...)
}

// zero is a server without latency in a process of its own.
type zero struct {
	cmd *exec.Cmd
	url string
	in  *bufio.Reader // behind the address: when calls came, as far as that was asked for
}

// zero starts the server; args are those of serve.
func (b *bench) zero(ctx context.Context, args ...string) (*zero, error) {
	c := exec.CommandContext(ctx, b.self, append([]string{"serve"}, args...)...)
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	z := &zero{cmd: c, in: bufio.NewReader(out)}
	addr, err := z.in.ReadString('\n')
	if err != nil {
		return nil, errors.Join(err, z.end())
	}
	z.url = "http://" + strings.TrimSpace(addr) + "/v1"
	return z, nil
}

// came is when the next call came.
func (z *zero) came() (time.Time, error) {
	var ns int64
	_, err := fmt.Fscanln(z.in, &ns)
	return time.Unix(0, ns), err
}

// cpu is what the server has spent so far; 0 where the system does not tell.
func (z *zero) cpu() time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", z.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	var skip string
	var user, system int64
	_, _ = fmt.Sscan(rest, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &user, &system)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// end stops the server.
func (z *zero) end() error {
	// One that has ended already needs no signal.
	_ = z.cmd.Process.Signal(syscall.SIGTERM)
	_, _ = io.Copy(io.Discard, z.in)
	return z.cmd.Wait()
}

// folder makes one for a case, with the input of n lines.
func (b *bench) folder(n int) (string, error) {
	dir, err := os.MkdirTemp(b.dir, "case-")
	if err == nil {
		err = write(filepath.Join(dir, "x.jsonl"), 0, n)
	}
	return dir, err
}

// write appends plain lines of about 100 bytes.
func write(path string, from, n int) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for i := from; i < from+n; i++ {
		fmt.Fprintf(w, `{"id":"op-%08d","prompt":"Say hello to customer number %08d in one short sentence."}`+"\n", i, i)
	}
	return errors.Join(w.Flush(), f.Close())
}

// median of a few figures.
func median(all []float64) float64 {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

// load is the load average of the last minute; 0 where the system does not tell.
func load() (one float64) {
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		// What cannot be read is not told.
		_, _ = fmt.Sscan(string(raw), &one)
	}
	return one
}
