package runner

import (
	"slices"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// change is what a start makes of a row. All rows may change, of which there may
// be millions; so the change is noted, and rows are made a part at a time.
type change uint8

const (
	stays   change = iota // as it is
	anew                  // its line was edited, or was invalid and has been mended or taken out: nothing is known of it any more
	putBack               // a dead letter to be tried again, by a call with a key of its own
	cutOff                // the process died with the call recorded: it may have been sent
)

// changed is a row that changes.
type changed struct {
	seq uint32
	to  change
}

func (to change) apply(op *checkpoint.Operation, now time.Time) {
	switch to {
	case stays:
	case cutOff:
		op.Status = checkpoint.Unknown
		if n := len(op.Attempts); n > 0 {
			op.Attempts[n-1].Class, op.Attempts[n-1].Sent = ClassUnknown, true
		}
		op.NotBefore = lastAttempt(op).Add(retry.ReconcileDelay)
	default:
		next := op.Incarnation
		if to == putBack {
			next++
		}
		*op = checkpoint.Operation{
			Seq: op.Seq, ID: op.ID, Status: checkpoint.Delayed, Line: op.Line, Incarnation: next,
			Attempts: counting(op.Attempts, now), Created: now,
		}
	}
}

// counting are the attempts that may still fill a window. A row keeps them when
// it starts anew, for the run after the next.
func counting(all []checkpoint.Attempt, now time.Time) []checkpoint.Attempt {
	return slices.DeleteFunc(slices.Clone(all), func(a checkpoint.Attempt) bool { return !stillCounts(a, now) })
}

func lastAttempt(op *checkpoint.Operation) time.Time {
	if n := len(op.Attempts); n > 0 {
		return op.Attempts[n-1].At
	}
	return op.Created
}
