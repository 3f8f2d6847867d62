package main

import (
	"errors"
	"fmt"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// outcome is what a case left, seen from the outside.
type outcome struct {
	ids    []string          // of the input
	dir    string            // holds the files of x.jsonl
	acked  map[string]string // lines that earlier runs had written, by id
	report harness.Report    // of the last run
	ledger harness.Ledger    // of the mock
	flying int               // calls without a durable outcome when processes were killed
}

// verify asserts what must hold after every fault: no operation lost, one line
// for each, nothing that was acknowledged gone or changed, and no more calls
// than operations, retries and what was in flight at the kills.
func verify(o outcome) error {
	var faults []error
	done, err := harness.ReadLines(o.dir + "/x.results.jsonl")
	faults = append(faults, err)
	dead, err := harness.ReadLines(o.dir + "/x.errors.jsonl")
	faults = append(faults, err)

	// Every id is in the output, or dead, or still to be done: one of them.
	input := map[string]bool{}
	rest := 0
	for _, id := range o.ids {
		input[id] = true
		_, completed := done[id]
		_, failed := dead[id]
		if completed && failed {
			faults = append(faults, fmt.Errorf("%s is both completed and a dead letter", id))
		}
		if !completed && !failed {
			rest++
		}
	}
	for _, lines := range []map[string]string{done, dead} {
		for id := range lines {
			if !input[id] {
				faults = append(faults, fmt.Errorf("%s has a line but is not in the input", id))
			}
		}
	}
	r := o.report
	if len(done) != r.Completed || len(dead) != r.Failed || rest != r.Pending+r.Unknown+r.Skipped {
		faults = append(faults, fmt.Errorf("files hold %d completed, %d dead, %d to do; the report says %d, %d, %d",
			len(done), len(dead), rest, r.Completed, r.Failed, r.Pending+r.Unknown+r.Skipped))
	}
	// What was acknowledged stays, byte for byte.
	for id, line := range o.acked {
		if done[id] != line {
			faults = append(faults, fmt.Errorf("the line of %s was acknowledged and is gone or changed", id))
		}
	}
	// Calls: one for each operation, its retries, and what flew at the kills.
	if limit := len(o.ids) + r.Retries + o.ledger.Refused + o.flying; o.ledger.Asked > limit {
		faults = append(faults, fmt.Errorf("the mock was asked %d times, want at most %d", o.ledger.Asked, limit))
	}
	if o.ledger.Twice.Extra > o.flying {
		faults = append(faults, fmt.Errorf("%d billed twice with %d in flight at the kills", o.ledger.Twice.Extra, o.flying))
	}
	// One key for all attempts of an operation, also across restarts.
	if o.ledger.Keys > len(o.ids) {
		faults = append(faults, fmt.Errorf("the mock saw %d keys of %d operations", o.ledger.Keys, len(o.ids)))
	}
	return errors.Join(faults...)
}
