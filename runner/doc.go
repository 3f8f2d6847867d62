// Package runner pushes the operations of one input through one provider and
// makes every answer durable.
//
// Run is the whole of it: it pre-flights the input, reconciles the checkpoint
// with the output files, feeds counted jobs to a scheduler, and carries out
// what the scheduler decides, one goroutine for each attempt. Decisions are
// pure: scheduler.go holds them, takes the time as an argument and is driven
// alike by the run and by the dry run (simulate.go). attempt.go is the one
// place that orders reserve, record, send, write and commit.
//
// The package serves the llmbatch command; it makes no promise of a stable API.
package runner
