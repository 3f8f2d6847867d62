// Package harness builds llmbatch, starts it and its mock as users do, each in a
// process of its own, and reads what they leave. It is what the programs beside
// it share; what a program makes of it is its own.
package harness

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Build makes the binary that is shipped.
func Build(ctx context.Context, binary string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "github.com/llmbatch/llmbatch")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	return build.Run()
}

// Command is how a process is started.
type Command struct {
	Argv           []string
	Dir            string   // also its home, and where its temporary files go
	Env            []string // all but PATH, HOME and TMPDIR
	Stdin          io.Reader
	Stdout, Stderr io.Writer // nil = kept, in Out and Errs
}

// Process is one that runs, or has ended. Its own group keeps a Ctrl-C at the
// terminal from reaching it before the case decides.
type Process struct {
	Cmd       *exec.Cmd
	Out, Errs Buffer
	Began     time.Time
	Exited    chan struct{} // closed at its end
}

// Start starts a process, which the end of ctx kills.
func (c Command) Start(ctx context.Context) (*Process, error) {
	p := &Process{Cmd: exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...), Began: time.Now(), Exited: make(chan struct{})}
	p.Cmd.Dir = c.Dir
	p.Cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.Dir, "TMPDIR=" + c.Dir}, c.Env...)
	p.Cmd.Stdin, p.Cmd.Stdout, p.Cmd.Stderr = c.Stdin, &p.Out, &p.Errs
	if c.Stdout != nil {
		p.Cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		p.Cmd.Stderr = c.Stderr
	}
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.Cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		// The status is read from ProcessState by whoever waits.
		_ = p.Cmd.Wait()
		close(p.Exited)
	}()
	return p, nil
}

// Wait returns the exit status, or -1 after a signal.
func (p *Process) Wait() int {
	<-p.Exited
	return p.Cmd.ProcessState.ExitCode()
}

// Signal sends a signal to the process alone.
func (p *Process) Signal(s syscall.Signal) {
	// A process that has ended meanwhile needs no signal.
	_ = p.Cmd.Process.Signal(s)
}

// Kill kills the whole group, since strace does not take its child along, and
// waits.
func (p *Process) Kill() {
	// The group may have ended.
	_ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL)
	<-p.Exited
}

// Running says whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.Exited:
		return false
	default:
		return true
	}
}

// Tail is the end of what the process said.
func (p *Process) Tail() string {
	said := strings.TrimSpace(p.Errs.String())
	return said[max(0, len(said)-600):]
}

// Buffer can be read while a process writes to it.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
