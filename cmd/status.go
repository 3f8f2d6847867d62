package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/result"
)

// standing is what a checkpoint holds, or what the run that holds it has
// published.
type standing struct {
	Input      string                  `json:"input"`
	Checkpoint string                  `json:"checkpoint"`
	Running    int                     `json:"running_pid,omitempty"` // process of the run that holds the checkpoint
	Operations int64                   `json:"operations"`            // of the input, at the last start
	Completed  int                     `json:"completed"`
	Failed     int                     `json:"failed"`
	Pending    int                     `json:"pending"`
	InFlight   int                     `json:"in_flight"`                    // only while a run goes on
	Unknown    int                     `json:"unknown"`                      // their call may have been billed
	Counts     map[string]int          `json:"counts"`                       // rows by state, as they are stored
	Classes    map[string]int          `json:"classes"`                      // dead letters by class
	Retry      map[string]runner.Again `json:"retry,omitempty"`              // what sending a class once more takes
	Listed     []string                `json:"unknown_operations,omitempty"` // operations that had a call of unknown outcome, the first 100
	Unknowns   int                     `json:"possibly_billed_twice"`        // calls of unknown outcome
	Degraded   int                     `json:"degraded"`                     // results that gave something up under pressure
	InputTok   int64                   `json:"input_tokens"`
	Output     int64                   `json:"output_tokens"`
	Cached     int64                   `json:"cached_tokens"`
	Reasoning  int64                   `json:"reasoning_tokens"`
	First      time.Time               `json:"first,omitzero"`
	Last       time.Time               `json:"last,omitzero"`
	Updated    time.Time               `json:"updated,omitzero"` // of the published snapshot
	Waiting    string                  `json:"waiting,omitempty"`

	again bool // a call was made after one of unknown outcome
}

func newStatus(env Env) *cobra.Command {
	var files fileOptions
	var asJSON, watching, unknown bool
	c := &cobra.Command{
		Use:   "status INPUT",
		Short: "Show what the checkpoint of INPUT holds",
		Long: `Status counts the operations by state and error class, and lists the calls
whose outcome is unknown. It works while a run goes on: it then shows what the
run published within the last second.

With --watch it stays until the run ends: a terminal is drawn anew each second,
elsewhere a line is printed each 10 s, and at the end the status as it is then.

With --unknown it lists every operation that had a call whose outcome is unknown,
for a comparison with the provider's own account: ID, state, idempotency key, and
for each such call its time, provider and model.`,
		Example: `  llmbatch status prompts.jsonl
  llmbatch status prompts.jsonl --watch
  llmbatch status prompts.jsonl --json
  llmbatch status prompts.jsonl --unknown`,
		Args: one("INPUT", "the file that was run"),
		RunE: func(c *cobra.Command, args []string) error {
			read := func() (*standing, error) {
				st, err := readStanding(files.paths(args[0]))
				if err == nil {
					st.Input = args[0]
				}
				return st, err
			}
			if unknown && watching {
				return usagef("", "--unknown and --watch exclude each other")
			}
			if unknown {
				return listUnknown(env, files.paths(args[0]), asJSON)
			}
			if watching {
				return newWatch(env, asJSON).until(c.Context(), read)
			}
			st, err := read()
			if err != nil {
				return err
			}
			return st.show(env.Stdout, asJSON)
		},
	}
	fl := c.Flags()
	files.readFlags(fl)
	fl.BoolVar(&asJSON, "json", false, "print one JSON object (with --watch one each time, with --unknown one for each operation)")
	fl.BoolVar(&unknown, "unknown", false, "list every operation that had a call of unknown outcome")
	fl.BoolVar(&watching, "watch", false, "go on showing it until the run ends")
	return c
}

// readStanding adds up the rows, or takes the snapshot while a run holds them.
func readStanding(paths runner.Paths) (*standing, error) {
	path := paths.Checkpoint
	store, err := checkpoint.OpenReadOnly(path)
	switch {
	case errors.Is(err, checkpoint.ErrLocked):
		snap, err := checkpoint.ReadSnapshot(path)
		if err != nil {
			return nil, fmt.Errorf("checkpoint %s is in use, and its run has published nothing yet: %w", path, err)
		}
		st := &standing{
			Operations: snap.Operations, Checkpoint: path, Running: snap.PID, Counts: snap.Counts, Classes: snap.Classes, Degraded: snap.Degraded,
			InputTok: snap.InputTokens, Output: snap.OutputTokens, Cached: snap.CachedTokens, Reasoning: snap.ReasoningTokens,
			First: snap.FirstSent, Last: snap.LastFinished, Updated: snap.Updated, Waiting: snap.Waiting,
		}
		st.derive()
		return st, nil
	case err != nil:
		return nil, unreadable(paths, err)
	}
	defer store.Close()
	st := &standing{Checkpoint: path, Counts: map[string]int{}, Classes: map[string]int{}}
	if err := store.All(func(op *checkpoint.Operation) error { st.add(op); return nil }); err != nil {
		return nil, unreadable(paths, err)
	}
	meta, err := store.Meta()
	if err != nil {
		return nil, unreadable(paths, err)
	}
	st.Operations = meta.Operations
	st.derive()
	return st, nil
}

// unreadable says what to do about a checkpoint that cannot be read.
func unreadable(paths runner.Paths, err error) error {
	path := paths.Checkpoint
	if errors.Is(err, fs.ErrNotExist) {
		for _, file := range []string{paths.Output, paths.Errors} {
			if holdsResults(file) {
				return usagef("llmbatch run with the same flags rebuilds it without paying again; if it is elsewhere, name it with --checkpoint",
					"the checkpoint %s is missing, but there are results in %s", path, file)
			}
		}
		return usagef("run it first, or name its --checkpoint", "no checkpoint %s: nothing has been run", path)
	}
	e := &runner.Error{Msg: "checkpoint " + path, Err: err}
	if strings.HasPrefix(err.Error(), e.Msg) { // it names the file itself
		e = &runner.Error{Msg: err.Error()}
	}
	if errors.Is(err, checkpoint.ErrDamaged) {
		e.Hint = "llmbatch run with the same flags keeps it aside and rebuilds it from the output and errors files"
	}
	return e
}

// holdsResults says that a file has a line that a run wrote.
func holdsResults(path string) (found bool) {
	enough := errors.New("one is enough")
	_ = result.Scan(path, result.ScanOptions{}, func(s result.Scanned) error {
		if s.Err != nil {
			return nil
		}
		found = true
		return enough
	})
	return found
}

// derive adds the rows up to the figures that run prints as well. A row in
// flight without a run belongs to one that was killed.
func (st *standing) derive() {
	at := func(s checkpoint.Status) int { return st.Counts[s.String()] }
	st.Completed, st.Failed, st.Unknown = at(checkpoint.Completed), at(checkpoint.DeadLetter), at(checkpoint.Unknown)
	if st.Running > 0 {
		st.InFlight = at(checkpoint.InFlight)
	} else {
		st.Unknown += at(checkpoint.InFlight)
	}
	st.Retry = map[string]runner.Again{}
	for class := range st.Classes {
		st.Retry[class], _ = runner.Remedy(class)
	}
	st.Pending = max(0, int(st.Operations)-st.Completed-st.Failed-st.Unknown-st.InFlight)
}

// maxUnknown bounds the operation IDs that are listed.
const maxUnknown = 100

func (st *standing) add(op *checkpoint.Operation) {
	st.Counts[op.Status.String()]++
	if op.Status == checkpoint.DeadLetter {
		st.Classes[op.Class]++
	}
	if op.Status == checkpoint.Completed && len(op.Degraded) > 0 {
		st.Degraded++
	}
	st.InputTok += op.Usage.Input
	st.Output += op.Usage.Output
	st.Cached += op.Usage.Cached
	st.Reasoning += op.Usage.Reasoning
	unknown := 0
	if op.Status == checkpoint.InFlight {
		unknown++
	}
	st.again = st.again || runner.SentAgain(op)
	for _, a := range op.Attempts {
		if a.Class == runner.ClassUnknown {
			unknown++
		}
		if st.First.IsZero() || a.At.Before(st.First) {
			st.First = a.At
		}
	}
	if op.Finished.After(st.Last) {
		st.Last = op.Finished
	}
	if unknown == 0 {
		return
	}
	st.Unknowns += unknown
	if len(st.Listed) < maxUnknown {
		st.Listed = append(st.Listed, op.ID)
	}
}

// remedy says in words whether sending a class once more may help.
func remedy(class string) string {
	again, advice := runner.Remedy(class)
	switch again {
	case runner.AgainByItself:
		return "a rerun sends them again by itself; " + advice
	case runner.AgainAsked:
		return "another try may help; " + advice
	default:
		return "another try alone does not help; " + advice
	}
}

func (st *standing) show(w io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(w, st)
	}
	return st.print(w)
}

func (st *standing) print(w io.Writer) error {
	t := &table{}
	row := func(name, value string) { t.row(name, "%s", value) }
	row("checkpoint", st.Checkpoint)
	if st.Running > 0 {
		row("running", fmt.Sprintf("process %d, as of %s", st.Running, st.Updated.Local().Format(time.TimeOnly)))
	}
	row("operations", fmt.Sprintf("%s: %s completed, %s failed, %s pending, %s in flight, %s unknown", grouped(st.Operations),
		grouped(int64(st.Completed)), grouped(int64(st.Failed)), grouped(int64(st.Pending)), grouped(int64(st.InFlight)), grouped(int64(st.Unknown))))
	classes := make([]string, 0, len(st.Classes))
	for c := range st.Classes {
		classes = append(classes, c)
	}
	slices.Sort(classes)
	for _, c := range classes {
		row("failed", fmt.Sprintf("%s %s: %s", grouped(int64(st.Classes[c])), c, remedy(c)))
	}
	if st.Degraded > 0 {
		row("degraded", count(st.Degraded, "result")+" (llmbatch results --format csv --fields custom_id,degraded lists them)")
	}
	if st.Unknowns > 0 {
		name := "possibly billed"
		if st.again {
			name += " twice"
		}
		row(name, fmt.Sprintf("%s: %s", count(st.Unknowns, "call"), listed(st.Listed)))
	}
	row("tokens", fmt.Sprintf("%s in (%s cached), %s out (%s reasoning)", grouped(st.InputTok), grouped(st.Cached), grouped(st.Output), grouped(st.Reasoning)))
	if !st.First.IsZero() && !st.Last.IsZero() {
		row("from", st.First.Local().Format(time.DateTime))
		row("to", st.Last.Local().Format(time.DateTime))
	}
	if st.Waiting != "" {
		row("limited by", st.Waiting)
	}
	return t.print(w, 0)
}
