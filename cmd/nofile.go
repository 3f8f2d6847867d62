package cmd

import (
	"fmt"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/limit"
)

// reservedFiles are the descriptors that a run keeps beside its connections:
// streams, its own files, the poller, scrapes, and look-ups of names.
const reservedFiles = 32

// fitFiles lowers the ceiling of calls on the wire to what the system's limit
// on open files has room for, and says so; files is that limit, 0 = none. A
// ceiling that was not given counts as the largest that a run goes to by itself.
func fitFiles(cfg *runner.Config, files int, notice func(string)) {
	if files == 0 {
		return
	}
	room, most := max(1, files-reservedFiles), 0
	for i := range cfg.Targets {
		t := &cfg.Targets[i]
		calls := t.Limits.Concurrency
		if calls == 0 {
			calls = limit.DefaultCeiling
		}
		if t.Provider == mockName || calls <= room {
			continue
		}
		t.Limits.Concurrency = room
		most = max(most, calls)
	}
	if most > 0 {
		notice(fmt.Sprintf("%s may be open at once (ulimit -n): at most %s on the wire, not %s; raise the limit for more",
			count(files, "file"), count(room, "call"), grouped(int64(most))))
	}
}
