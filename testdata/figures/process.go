package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// patience bounds every wait for a condition that should hold within moments.
const patience = 60 * time.Second

func (b *bench) build(ctx context.Context) error {
	b.binary = filepath.Join(b.dir, "llmbatch")
	build := exec.CommandContext(ctx, "go", "build", "-o", b.binary, "github.com/llmbatch/llmbatch")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	return build.Run()
}

// folder makes a new one for a case.
func (b *bench) folder(name string) (string, error) {
	return os.MkdirTemp(b.dir, strings.ReplaceAll(name, " ", "-")+"-")
}

// process is a running llmbatch. Its own group keeps a Ctrl-C at the terminal
// from reaching it before the case decides.
type process struct {
	cmd    *exec.Cmd
	out    bytes.Buffer
	errs   bytes.Buffer
	start  time.Time
	exited chan struct{}
}

// spawn starts a command in dir; prefix may wrap it, as strace does.
func (b *bench) spawn(ctx context.Context, dir string, prefix []string, args ...string) (*process, error) {
	return b.spawnOf(ctx, b.binary, dir, prefix, args...)
}

// spawnOf is spawn of another build.
func (b *bench) spawnOf(ctx context.Context, binary, dir string, prefix []string, args ...string) (*process, error) {
	argv := append(append(append([]string{}, prefix...), binary), args...)
	p := &process{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), start: time.Now(), exited: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "OPENAI_API_KEY=sk-figures"}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		// The status is read from ProcessState by whoever waits.
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
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

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// peakMiB is the largest resident set that the kernel saw.
func (p *process) peakMiB() float64 {
	usage, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return float64(usage.Maxrss) / 1024
}

// report is the last object that `run --json` prints.
type report struct {
	Operations, Completed, Failed, Pending, Unknown, Skipped int
	Calls, Retries                                           int
	RateLimited                                              int `json:"rate_limited"`
	TokensReserved                                           int `json:"tokens_reserved"`
	TokensUsed                                               int `json:"tokens_used"`
	Degraded                                                 int
	HeldBack                                                 int `json:"held_back"`
	Seconds                                                  float64
	Exit                                                     int
	PossiblyTwice                                            int      `json:"possibly_billed_twice"`
	UnknownOps                                               []string `json:"unknown_operations"`
}

// result waits for the process and reads its report.
func (p *process) result() (report, error) {
	status := p.wait()
	lines := bytes.Split(bytes.TrimSpace(p.out.Bytes()), []byte("\n"))
	var r report
	if err := json.Unmarshal(lines[len(lines)-1], &r); err != nil {
		return r, fmt.Errorf("exit status %d, no report: %s", status, p.tail())
	}
	if r.Exit != status {
		return r, fmt.Errorf("exit status %d, but the report says %d", status, r.Exit)
	}
	if sum := r.Completed + r.Failed + r.Pending + r.Unknown + r.Skipped; sum != r.Operations {
		return r, fmt.Errorf("the report's parts add up to %d of %d operations", sum, r.Operations)
	}
	return r, nil
}

// tail is the end of what the process said.
func (p *process) tail() string {
	said := strings.TrimSpace(p.errs.String())
	return said[max(0, len(said)-600):]
}

// run runs llmbatch to its end.
func (b *bench) run(ctx context.Context, dir string, args ...string) (*process, error) {
	p, err := b.spawn(ctx, dir, nil, args...)
	if err == nil {
		p.wait()
	}
	return p, err
}

// mock is a provider in a process of its own.
type mock struct {
	*process
	addr string
}

func (b *bench) mock(ctx context.Context, dir string, args ...string) (*mock, error) {
	return b.mockAt(ctx, dir, "127.0.0.1:0", args...)
}

// mockAt is mock at an address, such as that of one that was killed.
func (b *bench) mockAt(ctx context.Context, dir, addr string, args ...string) (*mock, error) {
	file, err := os.CreateTemp(dir, "mock-*.addr")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(file.Close(), os.Remove(file.Name())); err != nil {
		return nil, err
	}
	p, err := b.spawn(ctx, dir, nil, append([]string{"mock", "--listen", addr, "--addr-file", file.Name()}, args...)...)
	if err != nil {
		return nil, err
	}
	m := &mock{process: p}
	err = until(ctx, func() bool {
		raw, err := os.ReadFile(file.Name())
		m.addr = strings.TrimSpace(string(raw))
		return err == nil || !p.running()
	})
	if err == nil && !p.running() {
		err = fmt.Errorf("mock: %s", p.tail())
	}
	return m, err
}

func (m *mock) url() string { return "http://" + m.addr + "/v1" }

// ledger is what the mock saw, from /stats.
type ledger struct {
	Asked    int
	Rejected int // before the limits; also while it is down
	Refused  int `json:"refused_total"`
	Billed   int `json:"billed_calls"`
	Input    int `json:"billed_input_tokens"`
	Output   int `json:"billed_output_tokens"`
	Twice    struct {
		Extra int `json:"extra_calls"`
	} `json:"billed_twice"`
	Keys         int     `json:"distinct_keys"`
	PeakRequests int     `json:"peak_minute_requests"`
	PeakTokens   int     `json:"peak_minute_tokens"`
	PeakInFlight int     `json:"max_in_flight"`
	Makespan     float64 `json:"makespan_seconds"`  // first call to last answer
	LastSend     float64 `json:"last_send_seconds"` // first call to the last one admitted
}

func (m *mock) stats(ctx context.Context) (ledger, error) {
	var l ledger
	raw, err := m.get(ctx, "/stats")
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, fmt.Errorf("stats: %w in %.200q", err, raw)
	}
	return l, nil
}

// entry is one call in the mock's log.
type entry struct {
	Time   time.Time `json:"t"`
	Ended  time.Time
	Status int
}

// log lists the calls that have ended.
func (m *mock) log(ctx context.Context) (all []entry, err error) {
	raw, err := m.get(ctx, "/log")
	for line := range bytes.Lines(raw) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("log: %w in %.200q", err, line)
		}
		all = append(all, e)
	}
	return all, err
}

func (m *mock) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.addr+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// until waits for a condition, no longer than patience.
func until(ctx context.Context, condition func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain: %w", ctx.Err())
		}
	}
	return nil
}

// pause lets time pass, no longer than a process runs; nil = none.
func pause(ctx context.Context, d time.Duration, p *process) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var exited chan struct{}
	if p != nil {
		exited = p.exited
	}
	select {
	case <-timer.C:
	case <-exited:
	case <-ctx.Done():
	}
}
