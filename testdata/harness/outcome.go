package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Report is the last object that `run --json` prints.
type Report struct {
	Operations, Completed, Failed, Pending, Unknown, Skipped int
	Calls, Retries, Degraded, Truncated                      int
	RateLimited                                              int `json:"rate_limited"`
	TokensReserved                                           int `json:"tokens_reserved"`
	HeldBack                                                 int `json:"held_back"`
	Seconds                                                  float64
	Exit                                                     int
	PossiblyTwice                                            int      `json:"possibly_billed_twice"`
	UnknownOps                                               []string `json:"unknown_operations"`
}

// Report waits for the process and reads its report. The exit status has to be
// the one that it tells, and its parts have to add up.
func (p *Process) Report() (r Report, err error) {
	status := p.Wait()
	lines := strings.Split(strings.TrimSpace(p.Out.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		return r, fmt.Errorf("exit status %d, no report: %s", status, p.Tail())
	}
	if r.Exit != status {
		return r, fmt.Errorf("exit status %d, but the report says %d", status, r.Exit)
	}
	if sum := r.Completed + r.Failed + r.Pending + r.Unknown + r.Skipped; sum != r.Operations {
		return r, fmt.Errorf("the report's parts add up to %d of %d operations", sum, r.Operations)
	}
	return r, nil
}

// ReadLines reads a results or errors file into lines by id: each parses, ends in
// a newline, and is the only one of its id. A missing file has no lines.
func ReadLines(path string) (map[string]string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(raw) > 0 && raw[len(raw)-1] != '\n' {
		return nil, fmt.Errorf("%s: the last line is torn", path)
	}
	return byID(path, raw)
}

// Acknowledged is ReadLines of what a killed run left, whose last line may be
// torn.
func Acknowledged(path string) (map[string]string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return byID(path, raw[:bytes.LastIndexByte(raw, '\n')+1])
}

// byID sorts lines by their ids; one that has none goes by its place in the input.
func byID(path string, raw []byte) (map[string]string, error) {
	all := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		var parsed struct {
			ID  any                `json:"custom_id"`
			LLM struct{ Line int } `json:"llmbatch"`
		}
		if err := json.Unmarshal([]byte(line), &parsed); err != nil {
			return nil, fmt.Errorf("%s: %w in %.100q", path, err, line)
		}
		id := fmt.Sprint(parsed.ID)
		if parsed.ID == nil {
			id = fmt.Sprintf("line-%d", parsed.LLM.Line)
		}
		if _, twice := all[id]; twice {
			return nil, fmt.Errorf("%s: two lines of %s", path, id)
		}
		all[id] = line
	}
	return all, nil
}
