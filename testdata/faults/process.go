package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// canary is the key of every run. It may be in no artefact (invariant I9).
const canary = "sk-CANARY-7f3a9c0d5e"

func (s *suite) build() error {
	s.binary = filepath.Join(s.dir, "llmbatch")
	build := exec.CommandContext(s.ctx, "go", "build", "-trimpath", "-o", s.binary, "github.com/llmbatch/llmbatch")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	return build.Run()
}

// gotool runs the go command in the module.
func (s *suite) gotool(args ...string) (string, error) {
	out, err := exec.CommandContext(s.ctx, "go", args...).CombinedOutput()
	return string(out), err
}

// process is a running llmbatch, in a group of its own.
type process struct {
	cmd     *exec.Cmd
	out     buffer
	errs    buffer
	begun   time.Time
	exited  chan struct{}
	prom    string // file of its metrics; "" = none
	counted int    // llm_requests_total in it
	told    bool   // a report was read
	report  report
}

// buffer can be read while a process writes to it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// how says in what a process is wrapped and what its streams are.
type how struct {
	wrap           []string // such as strace
	env            []string
	stdin          io.Reader
	stdout, stderr *os.File // nil = kept
}

// spawn starts llmbatch in the trial's folder.
func (c *trial) spawn(h how, args ...string) *process {
	argv := append(append(append([]string{}, h.wrap...), c.binary), args...)
	p := &process{cmd: exec.CommandContext(c.ctx, argv[0], argv[1:]...), begun: time.Now(), exited: make(chan struct{})}
	p.cmd.Dir = c.dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "TMPDIR=" + c.dir, "OPENAI_API_KEY=" + canary}, h.env...)
	p.cmd.Stdin = h.stdin
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errs
	if h.stdout != nil {
		p.cmd.Stdout = h.stdout
	}
	if h.stderr != nil {
		p.cmd.Stderr = h.stderr
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.check(p.cmd.Start())
	go func() {
		// The status is read from ProcessState by whoever waits.
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	c.after = append(c.after, func() {
		// The whole group, since strace does not take its child along.
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.exited
	})
	return p
}

// start starts a run of x.jsonl against the trial's server. One that is not
// wrapped keeps its metrics too.
func (c *trial) start(h how, args ...string) *process {
	prom := ""
	if len(h.wrap) == 0 {
		prom = fmt.Sprintf("run%d.prom", len(c.runs)+1)
		args = append([]string{"--metrics-file", prom}, args...)
	}
	p := c.spawn(h, c.command(args)...)
	if prom != "" && args[len(args)-1] != "m.prom" {
		p.prom = c.dir + "/" + prom
	}
	c.runs = append(c.runs, p)
	return p
}

// counted is the sum of llm_requests_total in a file of metrics.
func counted(path string) (sum int, err error) {
	raw, err := os.ReadFile(path)
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "llm_requests_total{") {
			fields := strings.Fields(line)
			n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				return 0, err
			}
			sum += int(n)
		}
	}
	return sum, err
}

func (c *trial) command(args []string) []string {
	all := []string{"run", "x.jsonl"}
	switch {
	case c.config != "":
		all = append(all, "--config", c.config)
	case c.server != nil:
		all = append(all, "--base-url", c.server.url())
	}
	return append(append(append(all, "--json"), c.args...), args...)
}

// run runs to the end and wants an exit status.
func (c *trial) run(status int, args ...string) *process {
	return c.runAs(how{}, status, args...)
}

func (c *trial) runAs(h how, status int, args ...string) *process {
	p := c.start(h, args...)
	got := p.wait()
	c.want(got == status, "exit status %d, want %d: %s", got, status, p.tail())
	c.want(!strings.Contains(p.errs.String(), "panic:"), "a panic: %s", p.tail())
	if status != 2 && status != 11 {
		c.check(p.result())
	}
	return p
}

// tell runs another command than run and gives its standard output.
func (c *trial) tell(status int, args ...string) *process {
	p := c.spawn(how{}, args...)
	got := p.wait()
	c.want(got == status, "%s: exit status %d, want %d: %s", args[0], got, status, p.tail())
	return p
}

// says wants each of the words on standard error.
func (c *trial) says(p *process, words ...string) {
	said := p.errs.String()
	for _, word := range words {
		c.want(strings.Contains(said, word), "no %q in %q", word, p.tail())
	}
}

// wait returns the exit status, or -1 after a signal.
func (p *process) wait() int {
	<-p.exited
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(s syscall.Signal) {
	// A process that has ended meanwhile needs no signal.
	_ = p.cmd.Process.Signal(s)
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// took is how long the process has run.
func (p *process) took() time.Duration { return time.Since(p.begun) }

// peak watches the resident set of a running process and gives, after its end,
// the largest that was seen. What wait reports would include this program's own,
// from before the exec.
func (c *trial) peak(p *process) (mib func() float64) {
	var most atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p.running() {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
			if _, rest, ok := strings.Cut(string(raw), "VmHWM:"); ok && err == nil {
				var kib int64
				if _, err := fmt.Sscan(rest, &kib); err == nil {
					most.Store(max(most.Load(), kib))
				}
			}
			c.pause(10*time.Millisecond, p)
		}
	}()
	return func() float64 {
		<-done
		return float64(most.Load()) / 1024
	}
}

// report is the last object that `run --json` prints.
type report struct {
	Operations, Completed, Failed, Pending, Unknown, Skipped int
	Calls, Retries                                           int
	RateLimited                                              int `json:"rate_limited"`
	Exit                                                     int
	PossiblyTwice                                            int `json:"possibly_billed_twice"`
	Truncated                                                int
}

// result waits for the process and reads its report.
func (p *process) result() error {
	status := p.wait()
	lines := strings.Split(strings.TrimSpace(p.out.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &p.report); err != nil {
		return fmt.Errorf("exit status %d, no report: %s", status, p.tail())
	}
	r := &p.report
	p.told = true
	if r.Exit != status {
		return fmt.Errorf("exit status %d, but the report says %d", status, r.Exit)
	}
	if sum := r.Completed + r.Failed + r.Pending + r.Unknown + r.Skipped; sum != r.Operations {
		return fmt.Errorf("the report's parts add up to %d of %d operations", sum, r.Operations)
	}
	if p.prom == "" {
		return nil
	}
	var err error
	p.counted, err = counted(p.prom)
	return err
}

// tail is the end of what the process said.
func (p *process) tail() string {
	said := strings.TrimSpace(p.errs.String())
	return said[max(0, len(said)-600):]
}
