package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

var diskRows = []row{
	{"F09", "disk full: output, errors, checkpoint or log, each alone", "stops sending, exit 1, names the file; with space again the rerun completes", diskFull},
	{"F10", "disk full at the first start", "clear error, nothing left behind, next start works", fullAtFirst},
	{"F11", "EIO at a sync, once and always", "fatal, later success not trusted; verified on reopen", syncFails},
	{"F12", "short write on the output", "no torn line stays", shortWrite},
	{"F13", "each sync takes 200 ms", "bounded by group commit; nothing counted as the provider's timeout", slowSync},
}

// small mounts a file system of that size in the trial's folder.
func (c *trial) small(size string) {
	dir := c.dir + "/small"
	c.check(os.Mkdir(dir, 0o755))
	c.check(syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size))
	c.after = append(c.after, func() {
		// Whatever still uses it lets go of it when it ends.
		_ = syscall.Unmount(dir, syscall.MNT_DETACH)
	})
}

func (c *trial) grow() {
	c.check(syscall.Mount("tmpfs", c.dir+"/small", "tmpfs", syscall.MS_REMOUNT, "size=64m"))
}

func diskFull(c *trial) {
	lines := 600
	cases := []struct {
		name, size string
		flags      []string
		output     string
		marker     string
	}{
		{"output", "128k", []string{"--output", "small/x.results.jsonl", "--errors", "x.errors.jsonl", "--checkpoint", "x.llmbatch.db"}, "small/x.results.jsonl", ""},
		{"checkpoint", "128k", []string{"--checkpoint", "small/x.llmbatch.db"}, "", ""},
		{"errors", "64k", []string{"--errors", "small/x.errors.jsonl"}, "", "[[fault:invalid]]"},
		{"all", "512k", []string{"--output", "small/x.results.jsonl"}, "small/x.results.jsonl", ""},
		{"log", "16k", []string{"--log-file", "small/run.log", "--log-level", "debug"}, "", ""},
	}
	side(3, len(cases), func(i int) {
		d := cases[i]
		c.sub(d.name, lines, func(t *trial) {
			status := 0
			if d.marker != "" { // every other line fails, so that no bad template is suspected
				status = 3
				prompts := make([]string, lines)
				for i := range prompts {
					if prompts[i] = fmt.Sprintf("Case %d", i); i%2 == 1 {
						prompts[i] += d.marker
					}
				}
				t.input(prompts...)
				t.lax.same = true
			}
			t.small(d.size)
			t.mock("--latency", "30ms", "--honour-keys")
			t.args = append(d.flags, "--concurrency", "16")
			p := t.run(1)
			t.says(p, "no space", "small/", "hint:")
			full := t.stats().Asked
			t.want(full < lines, "sending did not stop: %d calls", full)
			t.say("%s: after %d calls of %d", d.name, full, lines)
			t.grow()
			t.moved(d.output, d.flags)
			r := t.run(status)
			t.want(t.stats().Twice.Extra == 0, "%d billed twice", t.stats().Twice.Extra)
			t.want(r.report.Completed+r.report.Failed == lines, "%d finished", r.report.Completed+r.report.Failed)
			t.lax.calls = true
		})
	})
	c.sub("ENOSPC at one write of the output", 40, func(t *trial) {
		t.mock("--latency", "30ms", "--honour-keys")
		t.args = []string{"--concurrency", "4"}
		p := t.runAs(how{wrap: t.inject("write", "error=ENOSPC:when=2", "x.results.jsonl")}, 1)
		t.says(p, "x.results.jsonl", "no space", "hint:")
		t.run(0)
		t.lax.calls = true
	})
}

// moved tells the invariants where files are that flags put apart.
func (c *trial) moved(output string, flags []string) {
	c.output = output
	for i, f := range flags {
		if i+1 == len(flags) {
			break
		}
		switch f {
		case "--checkpoint":
			c.checkpointAt = flags[i+1]
		case "--errors":
			c.errorsAt = flags[i+1]
		}
	}
}

func fullAtFirst(c *trial) {
	for _, left := range []int{0, 4, 12, 24} {
		c.sub(fmt.Sprintf("%d KiB left", left), 10, func(t *trial) {
			t.small("64k")
			t.check(os.WriteFile(t.dir+"/small/full", make([]byte, (64-left)<<10), 0o600))
			t.mock("--honour-keys")
			t.args = []string{"--output", "small/x.results.jsonl"}
			p := t.start(how{})
			status := p.Wait()
			t.want(status == 1 || status == 2, "exit status %d, want 1 or 2: %s", status, p.Tail())
			t.says(p, "no space")
			t.want(!strings.Contains(p.Errs.String(), "panic"), "a panic: %s", p.Tail())
			entries, err := os.ReadDir(t.dir + "/small")
			t.check(err)
			if t.stats().Asked == 0 {
				t.want(len(entries) == 1, "left behind: %v", entries)
			}
			t.grow()
			t.output = "small/x.results.jsonl"
			t.lax.calls = true
			t.run(0)
		})
	}
	c.say("4 sizes, nothing left behind")
}

func syncFails(c *trial) {
	cases := []struct{ path, when string }{
		{"x.results.jsonl", "1"}, {"x.results.jsonl", "1+"}, {"x.llmbatch.db", "2"}, {"x.llmbatch.db", "4"}, {"x.llmbatch.db", "2+"},
	}
	side(3, len(cases), func(i int) {
		f := cases[i]
		c.sub(fmt.Sprintf("%s, %s", f.path, f.when), 12, func(t *trial) {
			t.mock("--latency", "30ms", "--honour-keys")
			t.args = []string{"--concurrency", "3"}
			t.lax.calls = true
			t.run(0, "--limit", "3")
			p := t.start(how{wrap: t.inject("fdatasync", "error=EIO:when="+f.when, f.path)})
			status := p.Wait()
			t.want(status == 1 || status == 0 && len(f.when) == 1 && f.path == "x.llmbatch.db", "exit status %d, want 1: %s", status, p.Tail())
			if status == 1 {
				t.says(p, "input/output error", f.path)
			}
			t.run(0)
			t.want(t.stats().Twice.Extra == 0, "%d billed twice, though keys are honoured", t.stats().Twice.Extra)
		})
	})
	c.say("%d syncs failed", len(cases))
}

func shortWrite(c *trial) {
	// A limit on file sizes cuts the write that crosses it short.
	for _, size := range []int{20_001, 40_000, 70_123} {
		c.sub(fmt.Sprintf("files of at most %d bytes", size), 120, func(t *trial) {
			t.mock("--latency", "10ms", "--honour-keys")
			t.args = []string{"--concurrency", "4"}
			t.lax.calls = true
			p := t.start(how{wrap: []string{"prlimit", fmt.Sprintf("--fsize=%d", size)}})
			t.want(p.Wait() == 1, "exit status %d, want 1: %s", p.Wait(), p.Tail())
			t.says(p, "file too large")
			t.want(!strings.Contains(p.Errs.String(), "goroutine "), "a trace: %s", p.Tail())
			raw, err := os.ReadFile(t.results())
			t.want(err == nil || os.IsNotExist(err) && t.stats().Asked == 0, "%v after %d calls", err, t.stats().Asked)
			t.want(len(raw) == 0 || raw[len(raw)-1] == '\n', "a torn line stays: %q", raw[max(0, len(raw)-60):])
			t.run(0)
			t.want(t.stats().Twice.Extra == 0, "%d billed twice", t.stats().Twice.Extra)
		})
	}
	c.say("3 limits")
}

func slowSync(c *trial) {
	c.sub("200 ms", 300, func(t *trial) {
		t.mock()
		t.args = []string{"--concurrency", "64"}
		p := t.runAs(how{wrap: []string{"strace", "-f", "-qq", "-o", t.dir + ".trace", "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=200000"}}, 0)
		t.want(p.report.Retries == 0, "%d retries, want 0", p.report.Retries)
		// One sync after another for each of 300 operations would take seven minutes.
		t.quick(p.took() < 60*time.Second, "took %s", p.took())
		t.say("300 operations in %.0f s", p.took().Seconds())
	})
}
