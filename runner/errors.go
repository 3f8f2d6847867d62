package runner

import (
	"fmt"

	"github.com/llmbatch/llmbatch/runner/input"
)

// Fault says what kind of thing made a run impossible, for the exit status.
type Fault uint8

// The faults that end a run before or beside its calls.
const (
	FaultInternal Fault = iota // I/O, full disk, a defect
	FaultUsage                 // flags, configuration or input
	FaultInUse                 // another process holds the checkpoint or the output
)

// Error is a failure with a way on.
type Error struct {
	Fault Fault
	Msg   string
	Hint  string // what to do; "" = nothing to add
	Err   error  // cause; nil = none
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Msg, e.Err)
	}
	return e.Msg
}

func (e *Error) Unwrap() error { return e.Err }

// InputError says that the pre-flight found faults; nothing was sent.
type InputError struct{ Report *input.Report }

func (e *InputError) Error() string {
	return Count(int64(e.Report.Invalid), "invalid line") + " in the input"
}

func usage(hint, format string, args ...any) error {
	return &Error{Fault: FaultUsage, Msg: fmt.Sprintf(format, args...), Hint: hint}
}
