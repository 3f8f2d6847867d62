package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// suite is what all trials share.
type suite struct {
	ctx         context.Context
	binary, dir string
	short       bool

	mu                            sync.Mutex
	verdicts                      []verdict
	kills, lost, twice            int
	leakedFiles, leakedGoroutines int
	references                    map[string]map[string]string // what a run without faults gives, by input
}

// pick is full, or fewer in the short form.
func (s *suite) pick(full, short int) int {
	if s.short {
		return short
	}
	return full
}

// trial is one fault played once: a folder with an input, a server, the
// processes that ran and what they left. As a test's, its methods end it at the
// first miss; they must be called from the goroutine that plays it.
type trial struct {
	*suite
	name string
	dir  string
	top  bool // stands for a row: its trials are those of sub

	ids                    []string // of x.jsonl
	lax                    laxity
	server                 provider
	output                 string   // results file, if it is not x.results.jsonl
	errorsAt, checkpointAt string   // the other files, if they are not beside it
	args                   []string // of every run, ahead of a run's own
	config                 string   // file of routes, in place of the address of the server

	runs   []*process // those that ended
	acked  map[string]string
	flying int // calls without a durable outcome at the kills
	asked  int // calls of the server at the last look
	lines  int // of the output and errors at the last look

	err      error
	late     bool // err is that something took too long
	after    []func()
	observed []string

	mu            sync.Mutex
	tried, missed int
}

// laxity says which invariants a fault makes void.
type laxity struct {
	calls  bool // retries of killed runs are in no report: the number of calls is free
	rerun  bool // a rerun has something to do: transient dead letters, or the run was stopped for good
	lines  bool // files were edited by hand: the row says itself what must be there
	rekeys bool // equal bodies, or retried dead letters
	twice  bool // more may be billed twice than was in flight: the server loses answers
	same   bool // answers differ from those of a run without faults
}

// guard runs a trial's play in a goroutine of its own, so that fatal can end it.
func (c *trial) guard(play func(*trial)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(c.after) - 1; i >= 0; i-- {
				c.after[i]()
			}
		}()
		play(c)
	}()
	<-done
	if c.top && c.err != nil { // outside of every sub
		c.tried++
		c.missed++
		fmt.Fprintf(os.Stderr, "  FAIL %s: %v\n", c.name, c.err)
		c.observed = append(c.observed, oneLine(c.err))
	}
}

// sub plays one trial of a row, with n lines of input, and then looks at what
// must always hold.
func (c *trial) sub(name string, n int, play func(*trial)) {
	t := c.once(name, n, play)
	if t.late {
		t = c.once(name, n, play) // a crowded machine is late once, a defect always
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried++
	if t.err != nil && c.ctx.Err() == nil {
		c.missed++
		fmt.Fprintf(os.Stderr, "  FAIL %s: %v\n", t.name, t.err)
		c.observed = append(c.observed, "FAIL "+name+": "+oneLine(t.err))
		return
	}
	c.observed = append(c.observed, t.observed...)
}

func (c *trial) once(name string, n int, play func(*trial)) *trial {
	t := &trial{suite: c.suite, name: c.name + " " + name}
	t.dir, t.err = os.MkdirTemp(c.suite.dir, strings.Map(plain, t.name)+"-")
	if t.err == nil && n > 0 {
		t.ids, t.err = write(t.dir, n, "")
	}
	if t.err == nil {
		t.guard(func(t *trial) {
			play(t)
			t.check(t.invariants())
		})
	}
	return t
}

// side plays several trials of a row side by side, width at once.
func side(width, n int, play func(i int)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, width)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			play(i)
		})
	}
	all.Wait()
}

// say puts a figure into the row's line of the table.
func (c *trial) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observed = append(c.observed, fmt.Sprintf(format, args...))
}

func (c *trial) fatal(format string, args ...any) {
	c.check(fmt.Errorf(format, args...))
}

// check ends the trial if there is an error.
func (c *trial) check(err error) {
	if err != nil {
		c.err = err
		runtime.Goexit()
	}
}

// want ends the trial if something does not hold.
func (c *trial) want(ok bool, format string, args ...any) {
	if !ok {
		c.fatal(format, args...)
	}
}

// quick is want for what takes too long.
func (c *trial) quick(ok bool, format string, args ...any) {
	c.late = !ok
	c.want(ok, format, args...)
}

// until waits for a condition that should hold within moments.
func (c *trial) until(what string, condition func() bool) {
	if err := harness.Until(c.ctx, condition); err != nil {
		c.fatal("%s: %w", what, err)
	}
}

// pause lets time pass, no longer than p runs.
func (c *trial) pause(d time.Duration, p *process) { harness.Pause(c.ctx, d, p.Process) }

func oneLine(err error) string {
	s := strings.Join(strings.Fields(err.Error()), " ")
	return s[:min(len(s), 400)]
}

func plain(r rune) rune {
	if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return '-'
}
