package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

var lockRows = []row{
	{"F14", "checkpoint held by another run, alive or stopped", "exit 11 within 2 s with the holder's pid, no call, the holder unharmed", held},
	{"F15", "two runs with checkpoints of their own and one output", "the second is refused", sameOutput},
	{"F21", "read-only file system, folder and files without permission", "exit 2 before the first call", forbidden},
}

func held(c *trial) {
	for _, stopped := range []bool{false, true} {
		c.sub(fmt.Sprintf("stopped: %t", stopped), 12, func(t *trial) {
			t.mock("--latency", "1s")
			p := t.start(how{}, "--concurrency", "4")
			t.until("the first calls", func() bool { return t.stats().Asked > 0 && t.exists("x.llmbatch.status.json") })
			if stopped {
				p.Signal(syscall.SIGSTOP)
			}
			idle := t.tell(0, "version").took() // what a process costs here and now
			second := t.spawn(how{}, t.command([]string{"--concurrency", "4"})...)
			status := second.Wait()
			took := second.took() - idle
			p.Signal(syscall.SIGCONT)
			t.want(status == 11, "exit status %d, want 11: %s", status, second.Tail())
			t.quick(took < 2*time.Second, "told after %s", took)
			t.says(second, fmt.Sprint(p.Cmd.Process.Pid), "hint:")
			t.want(p.Wait() == 0, "the holder: exit status %d: %s", p.Wait(), p.Tail())
			t.check(p.result())
			t.say("exit 11 after %.1f s", took.Seconds())
		})
	}
}

func sameOutput(c *trial) {
	c.sub("same output", 12, func(t *trial) {
		t.mock("--latency", "1s")
		p := t.start(how{}, "--concurrency", "4")
		t.until("the first calls", func() bool { return t.stats().Asked > 0 })
		asked := t.stats().Asked
		second := t.spawn(how{}, t.command([]string{"--checkpoint", "other.db", "--concurrency", "4"})...)
		t.want(second.Wait() == 11, "exit status %d, want 11: %s", second.Wait(), second.Tail())
		t.says(second, "x.results.jsonl", "hint:")
		t.want(!t.exists("other.db"), "the refused run left its checkpoint")
		t.want(p.Wait() == 0, "the first run: exit status %d: %s", p.Wait(), p.Tail())
		t.check(p.result())
		t.say("exit 11, %d calls before it", asked)
	})
}

// nobody is a user who may read the trial's folder and nothing more.
var nobody = []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}

func forbidden(c *trial) {
	refuse := func(t *trial, h how, words ...string) {
		p := t.runAs(h, 2)
		t.says(p, append(words, "hint:")...)
		t.want(t.stats().Asked == 0, "%d calls, want none", t.stats().Asked)
	}
	c.sub("read-only file system", 4, func(t *trial) {
		t.mock()
		t.small("1m")
		t.check(syscall.Mount("", t.dir+"/small", "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		t.args = []string{"--output", "small/x.results.jsonl"}
		refuse(t, how{}, "read-only")
	})
	c.sub("folder without permission", 4, func(t *trial) {
		t.mock()
		t.check(os.Chmod(t.dir, 0o755))
		t.check(os.Chmod(t.dir+"/x.jsonl", 0o644))
		refuse(t, how{wrap: nobody}, "permission denied")
	})
	for _, name := range []string{"x.results.jsonl", "x.errors.jsonl", "x.llmbatch.db"} {
		c.sub(name+" without permission", 4, func(t *trial) {
			t.mock()
			t.check(os.Chmod(t.dir, 0o777))
			t.check(os.Chmod(t.dir+"/x.jsonl", 0o644))
			t.write(name, "")
			defer func() { t.ids = nil }() // nothing ran: the files are no run's
			refuse(t, how{wrap: nobody}, "permission denied", name)
		})
	}
	c.sub("input without permission", 4, func(t *trial) {
		t.mock()
		t.check(os.Chmod(t.dir, 0o777))
		p := t.runAs(how{wrap: nobody}, 2)
		t.says(p, "x.jsonl")
		t.want(!strings.Contains(p.Errs.String(), "panic"), "a panic: %s", p.Tail())
	})
	c.say("6 places")
}
