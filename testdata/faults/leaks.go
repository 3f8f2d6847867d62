package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var leakRows = []row{
	{"L1", "descriptors and goroutines after many failures of each kind", "as many as a run that has just begun", leaks},
}

// leaks runs through faults of each kind until one call is left on the wire, and
// counts descriptors and goroutines then, beside a run with one call only.
func leaks(c *trial) {
	count := func(t *trial, prompts ...string) (files, goroutines int) {
		t.input(prompts...)
		t.mock("--honour-keys")
		t.lax.same, t.lax.calls, t.lax.rekeys = true, true, true
		p := t.start(how{}, "--concurrency", "24", "--max-attempts", "3")
		t.until("the last call", func() bool {
			t.want(p.Running(), "the run ended: %s", p.Tail())
			done, _ := os.ReadFile(t.results()) // not there at first
			dead, _ := os.ReadFile(t.errors())
			return bytes.Count(done, []byte("\n"))+bytes.Count(dead, []byte("\n")) == len(prompts)-1 && t.stats().InFlight == 1
		})
		// Idle connections are kept, for 45 s: they are the pool, not a leak.
		t.pause(2*time.Second, p)
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Cmd.Process.Pid))
		t.check(err)
		sockets := 0
		for _, e := range entries {
			to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", p.Cmd.Process.Pid, e.Name()))
			if err == nil && strings.HasPrefix(to, "socket:") {
				sockets++
			}
		}
		p.Signal(syscall.SIGQUIT) // its dump lists the goroutines
		p.Wait()
		dump := p.Errs.String()
		t.runs = nil // what was killed for its dump is looked at no more
		// Two for each idle connection.
		return len(entries) - sockets, len(regexp.MustCompile(`(?m)^goroutine \d+ `).FindAllString(dump, -1)) - 2*sockets
	}
	var files, goroutines [2]int
	c.sub("one call", 0, func(t *trial) { files[0], goroutines[0] = count(t, "Slow [[fault:slow=20s]]") })
	c.sub("many failures", 0, func(t *trial) {
		var prompts []string
		kinds := []string{"500x1", "dropx1", "truncatedx1", "htmlx1", "emptyx1", "invalid", "bomb", "shortx1", "400"}
		for i := range t.pick(400, 100) {
			prompts = append(prompts, "Number "+strconv.Itoa(i), fmt.Sprintf("Bad %d [[fault:%s]]", i, kinds[i%len(kinds)]))
		}
		files[1], goroutines[1] = count(t, append(prompts, "Slow [[fault:slow=60s]]")...)
	})
	c.say("descriptors %d, %d; goroutines %d, %d", files[0], files[1], goroutines[0], goroutines[1])
	// The runtime's own threads and the pool come and go: a handful is no leak.
	c.suite.mu.Lock()
	defer c.suite.mu.Unlock()
	c.suite.leakedFiles += max(0, files[1]-files[0]-3)
	c.suite.leakedGoroutines += max(0, goroutines[1]-goroutines[0]-6)
}
