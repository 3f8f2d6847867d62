package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/result"
	"github.com/llmbatch/llmbatch/runner/series"
)

// Source is what a report is made from.
type Source struct {
	Paths    runner.Paths
	Series   series.Series
	Rows     Rows
	Failures []Failure
	Running  int // process of the run that goes on; 0 = none does
}

// Rows is what the rows of a checkpoint add up to, or what the run that holds them
// has published.
type Rows struct {
	Operations, Completed, Failed, Unknown, InFlight int64

	Degraded int64 // completed operations that gave something up under pressure

	Latency  series.Histogram // of answered calls, milliseconds
	Output   series.Histogram // of answers, tokens
	CutOff   int64            // answers that ended at the cap
	Doubtful int64            // calls of unknown outcome, those of killed runs too
	Counted  bool             // the four above are known
}

// Read gathers what a checkpoint and its files hold. The error is fs.ErrNotExist if
// nothing was run, and checkpoint.ErrLocked if a run has just begun and published
// nothing yet.
func Read(paths runner.Paths) (*Source, error) {
	s := &Source{Paths: paths}
	store, err := checkpoint.OpenReadOnly(paths.Checkpoint)
	if errors.Is(err, checkpoint.ErrLocked) {
		err = s.published(err)
	} else if err == nil {
		err = errors.Join(s.stored(store), store.Close())
	}
	if err != nil {
		return nil, err
	}
	s.Failures, err = readFailures(paths.Errors)
	return s, err
}

// published takes what the run that holds the checkpoint tells of itself.
func (s *Source) published(locked error) error {
	snap, err := checkpoint.ReadSnapshot(s.Paths.Checkpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return locked
	}
	if err != nil {
		return err
	}
	at := func(st checkpoint.Status) int64 { return int64(snap.Counts[st.String()]) }
	s.Running = snap.PID
	s.Rows = Rows{
		Operations: snap.Operations, Completed: at(checkpoint.Completed), Failed: at(checkpoint.DeadLetter), Unknown: at(checkpoint.Unknown), InFlight: at(checkpoint.InFlight),
		Degraded: int64(snap.Degraded),
	}
	if snap.Series == nil {
		return nil
	}
	err = json.Unmarshal(snap.Series, &s.Series)
	if err == nil && !s.Series.Whole() {
		err = errors.New("points of no run")
	}
	if err != nil {
		return fmt.Errorf("snapshot of %s: %w", s.Paths.Checkpoint, err)
	}
	return nil
}

// stored adds up the rows and takes the series.
func (s *Source) stored(store *checkpoint.Store) error {
	meta, err := store.Meta()
	if err != nil {
		return err
	}
	r := &s.Rows
	r.Operations, r.Counted = meta.Operations, true
	err = store.All(func(op *checkpoint.Operation) error {
		for _, a := range op.Attempts {
			if a.Class == runner.ClassUnknown {
				r.Doubtful++
			}
		}
		switch op.Status {
		case checkpoint.Completed:
			r.Completed++
			if len(op.Degraded) > 0 {
				r.Degraded++
			}
			if op.CopyOf != "" {
				return nil
			}
			r.Latency.Add(op.LatencyMS)
			if op.Usage.Known || op.Usage.Output > 0 {
				r.Output.Add(op.Usage.Output)
			}
			if op.Finish == "length" {
				r.CutOff++
			}
		case checkpoint.DeadLetter:
			r.Failed++
		case checkpoint.InFlight: // without a run: it was killed
			r.Unknown++
			r.Doubtful++
		case checkpoint.Unknown:
			r.Unknown++
		}
		return nil
	})
	if err != nil {
		return err
	}
	rec := &series.Recorder{}
	err = store.Samples(func(key uint64, value []byte) error { rec.Load(key, value); return nil })
	s.Series = rec.Series
	return err
}

// Failure is one class of operations that ended without an answer.
type Failure struct {
	Class   string `json:"class"`
	Count   int64  `json:"count"`
	Line    int    `json:"line"` // of the input, of the first one
	ID      string `json:"operation"`
	Example string `json:"example"` // its message, cut and cleaned
	Target  string `json:"target"`  // provider/model that it was sent to last
	Status  int    `json:"status_code,omitempty"`
	Advice  string `json:"advice"`
}

// readFailures counts the lines of an errors file by class. A missing file has none,
// and a torn line at the end is one that is being written.
func readFailures(path string) ([]Failure, error) {
	f := failures{}
	err := result.Scan(path, result.ScanOptions{}, func(sc result.Scanned) error {
		if sc.Err == nil && sc.Line.Error != nil {
			f.add(sc.Line)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return f.sorted(), nil
}
