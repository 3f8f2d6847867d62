package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// canary is the key of every run. It may be in no artefact (invariant I9).
const canary = "sk-CANARY-7f3a9c0d5e"

// gotool runs the go command in the module.
func (s *suite) gotool(args ...string) (string, error) {
	out, err := exec.CommandContext(s.ctx, "go", args...).CombinedOutput()
	return string(out), err
}

// process is a running llmbatch.
type process struct {
	*harness.Process
	prom    string // file of its metrics; "" = none
	counted int    // llm_requests_total in it
	told    bool   // a report was read
	report  harness.Report
}

// how says in what a process is wrapped and what its streams are.
type how struct {
	wrap           []string // such as strace
	env            []string
	stdin          io.Reader
	stdout, stderr io.Writer // nil = kept
}

// spawn starts llmbatch in the trial's folder.
func (c *trial) spawn(h how, args ...string) *process {
	p, err := harness.Command{
		Argv: append(append(append([]string{}, h.wrap...), c.binary), args...), Dir: c.dir, Env: append([]string{"OPENAI_API_KEY=" + canary}, h.env...),
		Stdin: h.stdin, Stdout: h.stdout, Stderr: h.stderr,
	}.Start(c.ctx)
	c.check(err)
	c.after = append(c.after, p.Kill)
	return &process{Process: p}
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
		all = append(all, "--base-url", c.server.URL())
	}
	return append(append(append(all, "--json"), c.args...), args...)
}

// run runs to the end and wants an exit status.
func (c *trial) run(status int, args ...string) *process {
	return c.runAs(how{}, status, args...)
}

func (c *trial) runAs(h how, status int, args ...string) *process {
	p := c.start(h, args...)
	got := p.Wait()
	c.want(got == status, "exit status %d, want %d: %s", got, status, p.Tail())
	c.want(!strings.Contains(p.Errs.String(), "panic:"), "a panic: %s", p.Tail())
	if status != 2 && status != 11 {
		c.check(p.result())
	}
	return p
}

// tell runs another command than run and gives its standard output.
func (c *trial) tell(status int, args ...string) *process {
	p := c.spawn(how{}, args...)
	got := p.Wait()
	c.want(got == status, "%s: exit status %d, want %d: %s", args[0], got, status, p.Tail())
	return p
}

// says wants each of the words on standard error.
func (c *trial) says(p *process, words ...string) {
	said := p.Errs.String()
	for _, word := range words {
		c.want(strings.Contains(said, word), "no %q in %q", word, p.Tail())
	}
}

// took is how long the process has run.
func (p *process) took() time.Duration { return time.Since(p.Began) }

// peak watches the resident set of a running process and gives, after its end,
// the largest that was seen. What wait reports would include this program's own,
// from before the exec.
func (c *trial) peak(p *process) (mib func() float64) {
	var most atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p.Running() {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
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

// result waits for the process and reads its report, and its metrics.
func (p *process) result() (err error) {
	if p.report, err = p.Report(); err != nil {
		return err
	}
	p.told = true
	if p.prom != "" {
		p.counted, err = counted(p.prom)
	}
	return err
}
