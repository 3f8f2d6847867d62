package cmd

import "runtime/debug"

// The heap of a run is an index of about 58 bytes a line, without pointers, and
// 40 MB or so of all else. Collecting costs by what has pointers. So the heap may
// grow by the same between two collections however long the index is: by GOGC's
// share of the whole, a million lines would waste tens of megabytes, and ten
// million hundreds.
const (
	indexedLine = 58
	restOfHeap  = 40 << 20
	headroom    = 28 << 20
)

// collectFor sets how often memory is collected while a run of so many lines
// goes on, unless the user has set GOGC.
func collectFor(env Env, lines int) {
	if env.Getenv("GOGC") == "" {
		debug.SetGCPercent(max(1, 100*headroom/(restOfHeap+indexedLine*lines)))
	}
}
