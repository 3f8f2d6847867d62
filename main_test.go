package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/llmbatch/llmbatch/cmd"
)

// patience bounds every wait of a script; nothing takes nearly that long.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"llmbatch": func() { os.Exit(cmd.Main(cmd.OSEnv())) },
	})
}

// TestScript runs the command line as users do: each script is a story with
// processes of its own. What a command does is said at its function, here for
// processes and in script_test.go for files and figures.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			root, err := filepath.Abs("testdata")
			if err != nil {
				return err
			}
			// A key that any mock accepts; scripts about keys set their own.
			env.Setenv("OPENAI_API_KEY", "sk-script")
			env.Setenv("DATA", root)
			env.Values[processKey{}] = map[string]*process{}
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name == "root" {
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("no condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"start":    start,
			"mock":     startMock,
			"signal":   signalProcess,
			"exited":   exited,
			"stats":    stats,
			"lines":    lines,
			"ids":      ids,
			"json":     jsonFields,
			"waitfor":  waitfor,
			"generate": generate,
			"compress": compress,
			"truncate": truncate,
			"replace":  replace,
			"mode":     mode,
			"examples": examples,
			"shown":    shown,
			"scrape":   scrape,
			"sum":      sum,
		},
	})
}

// exits N [<FILE] COMMAND... runs a command, with FILE as its standard input, and
// wants that exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "exits n [<file] command...")
	want, args := args[0], args[1:]
	var input string
	if file, redirected := strings.CutPrefix(args[0], "<"); redirected {
		input, args = ts.ReadFile(file), args[1:]
	}
	c := command(ts, args)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(input), ts.Stdout(), ts.Stderr()
	ts.Check(c.Start())
	late := time.AfterFunc(patience, func() { _ = c.Process.Signal(syscall.SIGQUIT) })
	err := c.Wait()
	if !late.Stop() {
		ts.Fatalf("still runs after %v", patience)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%s: %v", args[0], err)
	}
	if got := strconv.Itoa(c.ProcessState.ExitCode()); got != want {
		ts.Fatalf("got exit status %s, want %s", got, want)
	}
}

// command has the script's folder and those of its variables that matter.
func command(ts *testscript.TestScript, args []string) *exec.Cmd {
	c := exec.Command(args[0], args[1:]...)
	c.Dir = ts.MkAbs(".")
	for _, key := range []string{"PATH", "HOME", "TMPDIR", "OPENAI_API_KEY", "HOUSE_KEY", "NO_COLOR", "GOCOVERDIR"} {
		if value := ts.Getenv(key); value != "" {
			c.Env = append(c.Env, key+"="+value)
		}
	}
	return c
}

type processKey struct{}

// process is one that a script started and that runs beside it; its streams go
// to NAME.out and NAME.err.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once the process was waited for
}

// start NAME COMMAND... starts a process beside the script.
func start(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "start name command...")
	name, c := args[0], command(ts, args[1:])
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	errs, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	c.Stdout, c.Stderr = out, errs
	ts.Check(c.Start())
	p := &process{cmd: c, done: make(chan struct{})}
	go func() {
		// The status is read from ProcessState by whoever asks for it.
		_ = c.Wait()
		_ = errors.Join(out.Close(), errs.Close())
		close(p.done)
	}()
	ts.Value(processKey{}).(map[string]*process)[name] = p
	ts.Defer(func() {
		_ = c.Process.Kill()
		<-p.done
	})
}

// mock NAME FLAGS... starts `llmbatch mock` in a process of its own and sets
// the variable NAME to its host and port.
func startMock(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 1, "mock name flags...")
	addr := args[0] + ".addr"
	start(ts, false, append([]string{args[0], "llmbatch", "mock", "--listen", "127.0.0.1:0", "--addr-file", addr}, args[1:]...))
	await(ts, "the mock's address", func() error {
		raw, err := os.ReadFile(ts.MkAbs(addr))
		if err == nil {
			ts.Setenv(args[0], strings.TrimSpace(string(raw)))
		}
		return err
	})
}

func named(ts *testscript.TestScript, name string) *process {
	p := ts.Value(processKey{}).(map[string]*process)[name]
	if p == nil {
		ts.Fatalf("no process %q was started", name)
	}
	return p
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

var signalsByName = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
}

// signal NAME INT|TERM|KILL|STOP|CONT
func signalProcess(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "signal name INT|TERM|KILL|STOP|CONT")
	signal, known := signalsByName[args[1]]
	usage(ts, known, "signal name INT|TERM|KILL|STOP|CONT")
	ts.Check(named(ts, args[0]).cmd.Process.Signal(signal))
}

// exited NAME STATUS waits for a process to end and wants that exit status, or
// "killed".
func exited(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "exited name status|killed")
	p := named(ts, args[0])
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("%s still runs after %v\n%s", args[0], patience, ts.ReadFile(args[0]+".err"))
	}
	got := strconv.Itoa(p.cmd.ProcessState.ExitCode())
	if got == "-1" {
		got = "killed"
	}
	if got != args[1] {
		ts.Fatalf("%s: got exit status %s, want %s\n%s", args[0], got, args[1], ts.ReadFile(args[0]+".err"))
	}
}

func await(ts *testscript.TestScript, what string, try func() error) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			ts.Fatalf("waited %v for %s: %v", patience, what, err)
		}
	}
}

func usage(ts *testscript.TestScript, ok bool, text string) {
	if !ok {
		ts.Fatalf("usage: %s", text)
	}
}
