package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// invariants asserts what must hold after every fault, from the outside: I1 to
// I11 of the catalogue, as far as the trial's laxity lets them.
func (c *trial) invariants() error {
	if c.err != nil || len(c.ids) == 0 || len(c.runs) == 0 {
		return c.err
	}
	last := c.runs[len(c.runs)-1]
	done, doneErr := harness.ReadLines(c.results())
	dead, deadErr := harness.ReadLines(c.errors())
	var faults []error
	if err := errors.Join(doneErr, deadErr); err != nil {
		faults = append(faults, fmt.Errorf("I2: %w", err))
	}
	faults = append(faults, c.partition(done, dead))
	for id, line := range c.acked { // I3
		if done[id] != line {
			c.lose(1)
			faults = append(faults, fmt.Errorf("I3: the line of %s was acknowledged and is gone or changed", id))
		}
	}
	if c.server != nil {
		faults = append(faults, c.ledgers())
	}
	faults = append(faults, c.leaks()) // I9
	if last.told {
		faults = append(faults, statusFits(last.report)) // I10
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	return errors.Join(c.again(last), c.sameAnswers(done))
}

func (c *trial) results() string {
	if c.output != "" {
		return filepath.Join(c.dir, c.output)
	}
	return c.dir + "/x.results.jsonl"
}

func (c *trial) errors() string {
	if c.errorsAt != "" {
		return filepath.Join(c.dir, c.errorsAt)
	}
	return strings.TrimSuffix(c.results(), ".results.jsonl") + ".errors.jsonl"
}

func (c *trial) checkpoint() string {
	if c.checkpointAt != "" {
		return filepath.Join(c.dir, c.checkpointAt)
	}
	return strings.TrimSuffix(c.results(), ".results.jsonl") + ".llmbatch.db"
}

// partition is I1: every operation is completed, dead, or still to be done, and
// the checkpoint and the last report count as the files do.
func (c *trial) partition(done, dead map[string]string) error {
	var faults []error
	input := map[string]bool{}
	rest := 0
	for _, id := range c.ids {
		input[id] = true
		switch {
		case done[id] != "" && dead[id] != "":
			faults = append(faults, fmt.Errorf("I1: %s is both completed and a dead letter", id))
		case done[id] == "" && dead[id] == "":
			rest++
		}
	}
	for _, lines := range []map[string]string{done, dead} {
		for id := range lines {
			if !input[id] && !strings.HasPrefix(id, "line-") {
				faults = append(faults, fmt.Errorf("I1: %s has a line but is not in the input", id))
			}
		}
	}
	if _, err := os.Stat(c.checkpoint()); err == nil && !c.lax.lines {
		faults = append(faults, c.counts(len(done), len(dead), rest))
	}
	if last := c.runs[len(c.runs)-1]; last.told && !c.lax.lines {
		r := last.report
		if got := r.Pending + r.Unknown + r.Skipped; len(done) != r.Completed || len(dead) != r.Failed || got != rest {
			c.lose(max(0, rest-got))
			faults = append(faults, fmt.Errorf("I1: files hold %d completed, %d dead, %d to do; the report says %d, %d, %d",
				len(done), len(dead), rest, r.Completed, r.Failed, got))
		}
	}
	return errors.Join(faults...)
}

// counts wants `llmbatch status` to say what the files hold.
func (c *trial) counts(done, dead, rest int) error {
	p := c.tell(0, "status", "x.jsonl", "--checkpoint", c.checkpoint(), "--json")
	var st struct{ Completed, Failed, Pending, Unknown int }
	if err := json.Unmarshal([]byte(p.Out.String()), &st); err != nil {
		return fmt.Errorf("status: %w in %.200q", err, p.Out.String())
	}
	if st.Completed != done || st.Failed != dead || st.Pending+st.Unknown != rest {
		c.lose(max(0, rest-st.Pending-st.Unknown))
		return fmt.Errorf("I1: files hold %d completed, %d dead, %d to do; status says %d, %d, %d+%d", done, dead, rest, st.Completed, st.Failed, st.Pending, st.Unknown)
	}
	return nil
}

// ledgers holds the runs' account against the server's: I4, I6, I7, I8, and
// that nothing is billed twice but what was in flight at a kill.
func (c *trial) ledgers() error {
	l, err := c.server.Ledger(c.ctx)
	if err != nil {
		return err
	}
	var faults []error
	calls, retries, metered, told, meters := 0, 0, 0, true, true
	for _, p := range c.runs {
		calls, retries, metered = calls+p.report.Calls, retries+p.report.Retries, metered+p.counted
		status := p.Cmd.ProcessState.ExitCode()
		told = told && (p.told || status == 2 || status == 11)
		meters = meters && (!p.told || p.prom != "")
	}
	if limit := len(c.ids) + retries + l.Refused + c.flying; l.Asked > limit && !c.lax.calls {
		faults = append(faults, fmt.Errorf("I4: the server was asked %d times, want at most %d", l.Asked, limit))
	}
	if told && calls != l.Asked && !c.lax.calls {
		faults = append(faults, fmt.Errorf("I8: the runs count %d calls, the server %d", calls, l.Asked))
	}
	if told && meters && metered != l.Asked && !c.lax.calls {
		faults = append(faults, fmt.Errorf("I8: llm_requests_total adds up to %d, the server counts %d", metered, l.Asked))
	}
	if l.Rekeyed > 0 && !c.lax.rekeys {
		faults = append(faults, fmt.Errorf("I6: %d bodies came under more than one key", l.Rekeyed))
	}
	if extra := l.Twice.Extra - c.flying; extra > 0 && !c.lax.twice {
		c.suite.mu.Lock()
		c.suite.twice += extra
		c.suite.mu.Unlock()
		faults = append(faults, fmt.Errorf("%d calls were billed twice with %d in flight at the kills", l.Twice.Extra, c.flying))
	}
	if rpm := c.number("--rpm"); rpm > 0 && l.PeakRequests > rpm {
		faults = append(faults, fmt.Errorf("I7: %d requests in a minute, want at most %d", l.PeakRequests, rpm))
	}
	if tpm := c.number("--tpm"); tpm > 0 && l.PeakTokens > tpm {
		faults = append(faults, fmt.Errorf("I7: %d tokens in a minute, want at most %d", l.PeakTokens, tpm))
	}
	return errors.Join(faults...)
}

// number is the value of a flag of every run; 0 = not given.
func (c *trial) number(flag string) (n int) {
	for i, a := range c.args {
		if a == flag && i+1 < len(c.args) {
			// A flag of ours that is no number shows in the run.
			_, _ = fmt.Sscan(c.args[i+1], &n)
		}
	}
	return n
}

// forms are the ways in which a key can get out.
var forms = []string{canary, canary[:12], base64.StdEncoding.EncodeToString([]byte(canary)), url.QueryEscape(canary)}

// leaks is I9: the key is in no byte that the runs left or printed.
func (c *trial) leaks() error {
	var faults []error
	look := func(where string, raw []byte) {
		for _, f := range forms {
			if bytes.Contains(raw, []byte(f)) {
				faults = append(faults, fmt.Errorf("I9: the key stands in %s", where))
				return
			}
		}
	}
	for _, p := range c.runs {
		look("standard output", []byte(p.Out.String()))
		look("standard error", []byte(p.Errs.String()))
	}
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), "core") {
			return err
		}
		raw, err := os.ReadFile(path)
		look(path, raw)
		return err
	})
	return errors.Join(append(faults, err)...)
}

// statusFits is the first half of I10: the status says what the report counts.
func statusFits(r harness.Report) error {
	want := r.Exit
	switch {
	case r.Exit != 0 && r.Exit != 3: // stopped
	case r.Pending > 0:
		return fmt.Errorf("I10: exit status %d with %d pending", r.Exit, r.Pending)
	case r.Failed+r.Unknown > 0:
		want = 3
	default:
		want = 0
	}
	if r.Exit != want {
		return fmt.Errorf("I10: exit status %d, want %d for %+v", r.Exit, want, r)
	}
	return nil
}

// again is the second half of I10, and I5: a finished run has nothing to do.
func (c *trial) again(last *process) error {
	if !last.told || last.report.Exit != 0 && last.report.Exit != 3 || c.lax.rerun {
		return nil
	}
	before, err := os.ReadFile(c.results())
	if err != nil {
		return err
	}
	p := c.spawn(how{}, c.tail(last)...)
	status := p.Wait()
	if err := p.result(); err != nil {
		return fmt.Errorf("I10: run again: %w", err)
	}
	after, err := os.ReadFile(c.results())
	if err != nil {
		return err
	}
	if status != last.report.Exit || p.report.Calls != 0 || !bytes.Equal(before, after) {
		return fmt.Errorf("I10: run again: exit status %d, want %d; %d calls, want 0; output the same: %t", status, last.report.Exit, p.report.Calls, bytes.Equal(before, after))
	}
	return nil
}

// tail is a run's command line behind the binary, without what wrapped it.
func (c *trial) tail(p *process) []string {
	for i, a := range p.Cmd.Args {
		if a == c.binary {
			return p.Cmd.Args[i+1:]
		}
	}
	return nil
}

// sameAnswers is I11: however often it was stopped, a run ends with the answers
// of one that was not.
func (c *trial) sameAnswers(done map[string]string) error {
	if _, ok := c.server.(*harness.Mock); !ok || c.lax.same {
		return nil
	}
	want, err := c.reference()
	if err != nil {
		return err
	}
	for id, line := range done {
		if got := answer(line); got != want[id] {
			return fmt.Errorf("I11: the answer of %s is not that of a run without faults: %.200s, want %.200s", id, got, want[id])
		}
	}
	return nil
}

// reference runs the trial's input without a fault, once for each input.
func (c *trial) reference() (map[string]string, error) {
	input, err := os.ReadFile(c.dir + "/x.jsonl")
	if err != nil {
		return nil, err
	}
	c.suite.mu.Lock()
	have := c.references[string(input)]
	c.suite.mu.Unlock()
	if have != nil {
		return have, nil
	}
	t := &trial{suite: c.suite, name: "reference"}
	t.guard(func(t *trial) {
		var err error
		t.dir, err = os.MkdirTemp(c.suite.dir, "reference-")
		t.check(err)
		t.check(os.WriteFile(t.dir+"/x.jsonl", input, 0o600))
		t.mock()
		t.run(0)
		lines, err := harness.ReadLines(t.results())
		t.check(err)
		have = map[string]string{}
		for id, line := range lines {
			have[id] = answer(line)
		}
	})
	c.suite.mu.Lock()
	defer c.suite.mu.Unlock()
	if t.err == nil {
		c.references[string(input)] = have
	}
	return have, t.err
}

// answer is what of a line does not depend on when and by which run it was made.
func answer(line string) string {
	var l struct {
		Response struct {
			StatusCode int `json:"status_code"`
			Body       struct {
				Choices json.RawMessage
				Usage   json.RawMessage
			}
		}
		LLM struct{ Op, Digest, Finish string } `json:"llmbatch"`
	}
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %s %s %d %s %s", l.LLM.Op, l.LLM.Digest, l.LLM.Finish, l.Response.StatusCode, l.Response.Body.Choices, l.Response.Body.Usage)
}

func (c *trial) lose(n int) {
	c.suite.mu.Lock()
	defer c.suite.mu.Unlock()
	c.suite.lost += n
}
