package cmd

import (
	"bufio"
	"errors"
	"fmt"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner"
)

// doubt is an operation of which the provider may have billed a call that
// brought no answer.
type doubt struct {
	ID    string    `json:"id"`
	Line  int       `json:"line"`
	State string    `json:"state"`
	Key   string    `json:"idempotency_key"`
	Calls []attempt `json:"calls"` // those of unknown outcome
}

// listUnknown prints every such operation of a checkpoint. It holds none of
// them in memory.
func listUnknown(env Env, paths runner.Paths, asJSON bool) error {
	path := paths.Checkpoint
	store, err := checkpoint.OpenReadOnly(path)
	switch {
	case errors.Is(err, checkpoint.ErrLocked):
		return usagef("wait for its end; llmbatch status shows the first of them meanwhile", "checkpoint %s is in use by a run", path)
	case err != nil:
		return unreadable(paths, err)
	}
	defer store.Close()
	out := bufio.NewWriterSize(env.Stdout, 64<<10)
	err = store.All(func(op *checkpoint.Operation) error {
		d := doubt{ID: op.ID, Line: op.Line, State: op.Status.String(), Key: op.Key}
		for i, a := range op.Attempts {
			// The last call of a row in flight without a run was cut off by a crash.
			if a.Class == runner.ClassUnknown || op.Status == checkpoint.InFlight && i == len(op.Attempts)-1 {
				d.Calls = append(d.Calls, attempt{a.Provider, a.Model, a.At.UTC(), a.StatusCode, a.Class, a.LookedUp})
			}
		}
		switch {
		case d.Calls == nil && op.Status != checkpoint.InFlight:
			return nil
		case asJSON:
			return printJSON(out, d)
		}
		line := fmt.Sprintf("%s  %s  key %s", d.ID, d.State, d.Key)
		for _, a := range d.Calls {
			line += fmt.Sprintf("; %s to %s %s", a.At.Format(time.RFC3339), a.Provider, a.Model)
		}
		_, err := fmt.Fprintln(out, clean(line))
		return err
	})
	if err != nil {
		return unreadable(paths, err)
	}
	return out.Flush()
}
