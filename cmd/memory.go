package cmd

import (
	"runtime/debug"

	"github.com/llmbatch/llmbatch/runner"
)

// The heap of a run is an index of about 58 bytes a line, without pointers, 40 MB
// or so of all else with 1,024 calls in flight, and 24 KB for each call above
// that, stacks included. Collecting costs by what has pointers. So the heap may
// grow by the same between two collections however long the index is: by GOGC's
// share of the whole, a million lines would waste tens of megabytes, and ten
// million hundreds.
const (
	indexedLine = 58
	restOfHeap  = 40 << 20
	manyCalls   = 1024
	callInAir   = 24 << 10
	headroom    = 28 << 20
	// Where few calls are in flight and the index is small, memory is there to
	// collect less often.
	roomy = 64 << 20
)

// collectFor sets how often memory is collected while a run of so many lines
// goes on, unless the user has set GOGC.
func collectFor(env Env, targets []runner.Target, lines int) {
	if env.Getenv("GOGC") != "" {
		return
	}
	calls := 0
	for _, t := range targets {
		calls += t.Limits.Concurrency
	}
	debug.SetGCPercent(gcPercent(calls, lines))
}

// gcPercent is by how much the heap may grow between two collections, with so
// many calls in flight and so many lines in the index.
func gcPercent(calls, lines int) int {
	air, index := callInAir*max(0, calls-manyCalls), indexedLine*lines
	room := max(headroom+air/10, roomy-air-index)
	return max(1, 100*room/(restOfHeap+air+index))
}
