package cmd

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/input"
)

// The exit statuses (spec §8).
const (
	exitOK        = 0
	exitInternal  = 1 // I/O or internal error, disk full
	exitUsage     = 2 // usage, configuration or input; nothing sent
	exitPartial   = 3 // finished, with dead letters or held unknowns
	exitProvider  = 4 // stopped by the provider; the rest is pending
	exitBound     = 5 // stopped at a bound; the rest is pending
	exitInUse     = 11
	exitInterrupt = 128 // plus the signal's number
)

// exitHelp ends the help of commands that run the job.
const exitHelp = `Exit status:
  0    everything is completed (with --limit, all of those)
  1    I/O or internal error, disk full
  2    usage, configuration or input: nothing was sent, or the input changed
  3    finished, with dead letters or held unknown outcomes
  4    stopped by the provider (key, spend, quota, model, unreachable)
  5    stopped at a bound (cost, deadline, daily limit, too long a wait)
  11   checkpoint or output in use by another run
  130  interrupted (143: terminated); run the same command again to go on`

// usageError is a mistake in flags or arguments.
type usageError struct{ msg, hint string }

func (e *usageError) Error() string { return e.msg }

func usagef(hint, format string, args ...any) error {
	return &usageError{msg: fmt.Sprintf(format, args...), hint: hint}
}

// statusError carries an exit status whose cause has been told already.
type statusError struct{ status int }

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// explain prints an error with what to do about it and gives its status.
func explain(env Env, err error) int {
	var told statusError
	var flags *usageError
	var fault *runner.Error
	var bad *runner.InputError
	var settings *input.SettingsError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &told):
		return told.status
	case errors.As(err, &bad):
		printProblems(env, bad.Report)
		return exitUsage
	case errors.As(err, &settings):
		printError(env, settings.Error(), "llmbatch run --help says what each flag takes")
		return exitUsage
	case errors.As(err, &flags):
		printError(env, flags.msg, flags.hint)
		return exitUsage
	case errors.As(err, &fault):
		printError(env, fault.Error(), fault.Hint)
		switch fault.Fault {
		case runner.FaultUsage:
			return exitUsage
		case runner.FaultInUse:
			return exitInUse
		default:
			return exitInternal
		}
	case errors.Is(err, syscall.ENOSPC):
		printError(env, err.Error(), "free some space, then run the same command again: what is finished stays finished")
		return exitInternal
	case errors.Is(err, syscall.EPIPE):
		printError(env, err.Error(), "the reader of standard output has gone; run the same command again to go on")
		return exitInternal
	default:
		printError(env, err.Error(), "")
		return exitInternal
	}
}

func printError(env Env, msg, hint string) {
	env.say("%s", msg)
	if hint != "" {
		env.hint(hint)
	}
}
