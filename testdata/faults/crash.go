package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

var crashRows = []row{
	{"F01", "kill -9 at a random time", "nothing lost, one line each, at most what was in flight is unknown; resume ends the run", randomKills},
	{"F02", "kill -9 at the nth sync, write, rename", "the same; torn tail repaired", nthKills},
	{"F03", "killed again during recovery; no space during tail repair", "the same", compound},
	{"F04", "kill -9 at each named point of an attempt and of a rewrite", "not sent: sent once; sent: same key; paid: not paid again; never lost", namedPoints},
}

// flights is the concurrency of trials with kills: the most that one can leave
// in flight.
const flights = 8

// randomKills kills runs until there were 200 kills. A run that is through
// starts the next input.
func randomKills(c *trial) {
	lanes := 4
	each := c.pick(50, 4)
	side(lanes, lanes, func(lane int) {
		for left := each; left > 0 && c.ctx.Err() == nil; {
			c.sub(fmt.Sprintf("lane %d, %d left", lane, left), 250, func(t *trial) {
				flags := []string{"--latency", "150ms", "--jitter", "100ms"}
				if lane%2 == 1 {
					flags = append(flags, "--honour-keys")
				}
				t.mock(flags...)
				t.args = []string{"--concurrency", fmt.Sprint(flights)}
				t.lax.calls = true
				for ; left > 0; left-- {
					p := t.start(how{})
					t.pause(time.Duration(40+rand.IntN(700))*time.Millisecond, p)
					if !p.Running() {
						break
					}
					p.Signal(syscall.SIGKILL)
					p.Wait()
					before := t.flying
					t.died()
					t.want(t.flying-before <= flights, "%d calls were in flight at a kill, want at most %d", t.flying-before, flights)
				}
				t.run(0)
				if lane%2 == 1 {
					t.want(t.stats().Twice.Extra == 0, "%d billed twice, though keys are honoured", t.stats().Twice.Extra)
				}
			})
			left = max(left, 0)
			if left == each { // a machine so slow that no kill lands
				break
			}
		}
	})
	c.say("%d kills", lanes*each)
}

// inject is strace's prefix that spoils the nth call, of those that touch a path
// if there is one. strace counts by thread.
func (c *trial) inject(calls, what string, paths ...string) []string {
	argv := []string{"strace", "-f", "-qq", "-o", c.dir + ".trace", "-e", "trace=" + calls, "-e", "inject=" + calls + ":" + what}
	for _, p := range paths {
		argv = append(argv, "-P", c.dir+"/"+p)
	}
	return argv
}

// kill is inject with a kill at the nth call.
func (c *trial) kill(calls string, nth int, paths ...string) []string {
	return c.inject(calls, fmt.Sprintf("signal=SIGKILL:when=%d", nth), paths...)
}

// dies runs until a kill and notes what that left; false if it ended by itself.
func (c *trial) dies(wrap []string, args ...string) bool {
	p := c.start(how{wrap: wrap}, args...)
	if status := p.Wait(); status == 0 {
		c.check(p.result())
		return false
	}
	c.want(!strings.Contains(p.Errs.String(), "panic:"), "a panic: %s", p.Tail())
	c.died()
	return true
}

var writes = []string{"fdatasync", "pwrite64", "write", "rename,renameat,renameat2", "fsync", "ftruncate"}

func nthKills(c *trial) {
	last := c.pick(12, 2)
	side(6, len(writes)*last, func(i int) {
		calls, n := writes[i/last], i%last+1
		c.sub(fmt.Sprintf("%s %d", strings.Split(calls, ",")[0], n), 10, func(t *trial) {
			t.mock("--latency", "20ms", "--honour-keys")
			t.args = []string{"--concurrency", "3"}
			t.lax.calls = true
			t.dies(t.kill(calls, n))
			t.run(0)
			t.want(t.stats().Twice.Extra == 0, "%d billed twice, though keys are honoured", t.stats().Twice.Extra)
		})
	})
	c.say("%d points swept", len(writes)*last)
}

// half leaves what a kill leaves at worst: two operations done, one paid whose
// line no row knows, and the beginning of a fourth line.
func (c *trial) half() {
	c.mock("--latency", "20ms", "--honour-keys")
	c.args = []string{"--concurrency", "2"}
	c.lax.calls = true
	c.run(0, "--limit", "2")
	c.want(c.dies(c.kill("fdatasync", 1, "x.results.jsonl"), "--limit", "3"), "no kill at the line's sync")
	c.change("x.results.jsonl", func(b []byte) []byte { return append(b, `{"id":"llmbatch-0000","custom_id":"op-00003","resp`...) })
}

// compound kills during recovery, and fails it.
func compound(c *trial) {
	last := c.pick(6, 2)
	points := []struct{ calls, path string }{
		{"ftruncate", "x.results.jsonl"},
		{"fsync,fdatasync", "x.results.jsonl"},
		{"pwrite64,write", "x.results.jsonl"},
		{"pwrite64", "x.llmbatch.db"},
		{"fdatasync", "x.llmbatch.db"},
	}
	side(4, len(points)*last, func(i int) {
		p, n := points[i/last], i%last+1
		c.sub(fmt.Sprintf("%s %d on %s", p.calls, n, p.path), 6, func(t *trial) {
			t.half()
			t.dies(t.kill(p.calls, n, p.path))
			t.run(0)
			t.want(t.stats().Twice.Extra == 0, "%d billed twice, though keys are honoured", t.stats().Twice.Extra)
		})
	})
	for _, calls := range []string{"ftruncate", "fdatasync,fsync", "pwrite64"} {
		for _, name := range []string{"ENOSPC", "EIO"} {
			c.sub(name+" at "+calls, 6, func(t *trial) {
				t.half()
				p := t.start(how{wrap: t.inject(calls, "error="+name+":when=1", "x.results.jsonl")})
				t.want(p.Wait() == 1, "exit status %d, want 1: %s", p.Wait(), p.Tail())
				t.says(p, "x.results.jsonl")
				t.run(0)
				t.want(t.stats().Twice.Extra == 0, "%d billed twice, though keys are honoured", t.stats().Twice.Extra)
			})
		}
	}
	// A last line that lacks its newline, on a disk that has no room for one.
	c.sub("no room for the newline", 6, func(t *trial) {
		t.half()
		t.change("x.results.jsonl", func(b []byte) []byte { return b[:strings.LastIndexByte(string(b), '\n')] })
		p := t.start(how{wrap: t.inject("write", "error=ENOSPC:when=1", "x.results.jsonl")})
		t.want(p.Wait() == 1, "exit status %d, want 1: %s", p.Wait(), p.Tail())
		t.says(p, "no space", "x.results.jsonl")
		t.run(0)
		t.want(t.stats().Twice.Extra == 0, "%d billed twice, though keys are honoured", t.stats().Twice.Extra)
	})
	c.say("%d kills and 7 errors while recovering", len(points)*last)
}

// namedPoints kills once at each point of one attempt's life, then at each of a
// rewrite. Two operations are done before, so that the files stand.
func namedPoints(c *trial) {
	type point struct {
		name string
		wrap func(*trial) []string
		more int // calls beyond one an operation
	}
	on := func(calls string, nth int, path string) func(*trial) []string {
		return func(t *trial) []string { return t.kill(calls, nth, path) }
	}
	points := []point{
		{"recorded, not sent", func(t *trial) []string { return t.kill("connect", 1) }, 0},
		{"answered, no byte of the line", on("write", 1, "x.results.jsonl"), 1},
		{"line appended, not synced", on("fdatasync", 1, "x.results.jsonl"), 0},
	}
	for n := 1; n <= c.pick(6, 2); n++ {
		points = append(points,
			point{fmt.Sprintf("write %d of the checkpoint", n), on("pwrite64", n, "x.llmbatch.db"), 1},
			point{fmt.Sprintf("sync %d of the checkpoint", n), on("fdatasync", n, "x.llmbatch.db"), 1})
	}
	side(4, len(points), func(i int) {
		p := points[i]
		c.sub(p.name, 3, func(t *trial) {
			t.mock("--latency", "20ms", "--honour-keys")
			t.args = []string{"--concurrency", "1"}
			t.lax.calls = true
			t.run(0, "--limit", "2")
			killed := t.dies(p.wrap(t))
			t.want(killed || strings.Contains(p.name, "checkpoint"), "no kill")
			t.run(0)
			l := t.stats()
			t.want(l.Asked <= 3+p.more && l.Twice.Extra == 0, "%d calls, want at most %d; %d billed twice", l.Asked, 3+p.more, l.Twice.Extra)
		})
	})
	phases := []string{"dialled", "request read", "answer written", "line synced, row not committed"}
	side(4, len(phases), func(i int) {
		c.sub(phases[i], 3, func(t *trial) {
			if i == 3 {
				killedAfterSync(t)
				return
			}
			killedByServer(t, phases[i])
		})
	})
	rewrites(c)
	c.say("%d points, 9 of a rewrite", len(points)+len(phases))
}

// killedByServer kills the run from within its server, at a phase of one call.
func killedByServer(t *trial, at string) {
	var victim *process
	var armed atomic.Bool
	started := make(chan struct{}, 1)
	strike := func(phase string) {
		if phase == at && armed.CompareAndSwap(true, false) {
			<-started
			victim.Signal(syscall.SIGKILL)
			<-victim.Exited
		}
	}
	h := t.hostile(func(x *exchange) {
		if x.n > 2 {
			strike("request read")
		}
		x.ok()
		if x.n > 2 {
			strike("answer written")
		}
	})
	h.dialled = func() bool {
		h.mu.Lock()
		n := len(h.calls)
		h.mu.Unlock()
		if n != 2 || at != "dialled" || !armed.Load() {
			return true
		}
		strike("dialled")
		return false
	}
	t.args = []string{"--concurrency", "1"}
	t.lax.calls, t.lax.twice = true, true
	t.run(0, "--limit", "2")
	armed.Store(true)
	victim = t.start(how{})
	started <- struct{}{}
	victim.Wait()
	t.want(!armed.Load(), "the run was not killed: %s", victim.Tail())
	t.died()
	t.run(0)
	want := 4
	if at == "dialled" {
		want = 3
	}
	l := t.stats()
	t.want(l.Asked == want && l.Rekeyed == 0, "%d calls, want %d; %d under another key", l.Asked, want, l.Rekeyed)
}

// killedAfterSync holds the line's sync back once it is done, and kills then.
func killedAfterSync(t *trial) {
	t.mock("--honour-keys")
	t.args = []string{"--concurrency", "1"}
	t.lax.calls = true
	t.run(0, "--limit", "2")
	size := len(t.read("x.results.jsonl"))
	p := t.start(how{wrap: t.inject("fdatasync", "delay_exit=3000000:when=1", "x.results.jsonl")})
	t.until("the line", func() bool {
		fi, err := os.Stat(t.results())
		return err == nil && fi.Size() > int64(size)
	})
	t.pause(300*time.Millisecond, p) // the sync itself
	t.killChild(p)
	t.died()
	r := t.run(0)
	t.says(r, "adopted 1 line")
	l := t.stats()
	t.want(l.Asked == 3, "%d calls, want 3: the line was paid for", l.Asked)
}

// killChild kills what strace runs, so that strace ends by itself.
func (c *trial) killChild(p *process) {
	pid := p.Cmd.Process.Pid
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	c.check(err)
	for field := range strings.FieldsSeq(string(raw)) {
		child, err := strconv.Atoi(field)
		c.check(err)
		c.check(syscall.Kill(child, syscall.SIGKILL))
	}
	p.Wait()
}

// rewrites kills at each step of the end of a run that replaces a superseded
// line: files and checkpoint are written anew and renamed.
func rewrites(c *trial) {
	type point struct{ calls, path string }
	points := []point{
		{"write,pwrite64,copy_file_range,sendfile", "x.superseded.jsonl"},
		{"fdatasync,fsync", "x.superseded.jsonl"},
		{"write,pwrite64,copy_file_range,sendfile", "x.results.jsonl.new"},
		{"fdatasync,fsync", "x.results.jsonl.new"},
		{"rename,renameat,renameat2", "x.results.jsonl.new"},
		{"fsync", ""}, // the folder
		{"ftruncate,pwrite64", "x.llmbatch.db.new"},
		{"fdatasync", "x.llmbatch.db.new"},
		{"rename,renameat,renameat2", "x.llmbatch.db.new"},
	}
	last := c.pick(2, 1)
	side(4, len(points)*last, func(i int) {
		p, n := points[i/last], i%last+1
		c.sub(fmt.Sprintf("rewrite: %s %d on %s", strings.Split(p.calls, ",")[0], n, p.path), 4, func(t *trial) {
			t.mock("--honour-keys")
			t.args = []string{"--concurrency", "1"}
			t.lax.calls = true
			t.run(0)
			t.change("x.jsonl", func(b []byte) []byte { return []byte(strings.Replace(string(b), "Case 00001", "Case 10001", 1)) })
			wrap := t.kill(p.calls, n, p.path)
			old := t.acknowledged()["op-00001"]
			if p := t.start(how{wrap: wrap}); p.Wait() != 0 {
				t.suite.mu.Lock()
				t.suite.kills++
				t.suite.mu.Unlock()
			}
			t.run(0)
			l := t.stats()
			t.want(l.Twice.Extra == 0 && l.Billed == 5, "%d billed, %d twice; want 5 and 0", l.Billed, l.Twice.Extra)
			now, err := harness.ReadLines(t.results())
			t.check(err)
			t.want(now["op-00001"] != old, "the superseded line is still there")
			kept, err := os.ReadFile(t.dir + "/x.superseded.jsonl")
			t.check(err)
			t.want(strings.Contains(string(kept), strings.TrimSpace(old)), "the superseded result, which is paid for, is gone")
		})
	})
}
