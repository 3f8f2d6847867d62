package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/input"
)

// attempt is one wire request as results prints it.
type attempt struct {
	Provider string    `json:"provider"`
	Model    string    `json:"model"`
	At       time.Time `json:"at"`
	Status   int       `json:"status"`              // 0 = no answer
	Class    string    `json:"class"`               // "" = answered
	LookedUp bool      `json:"looked_up,omitempty"` // its answer was lost, and fetched by its id
}

func attemptsOf(op *checkpoint.Operation) []attempt {
	out := make([]attempt, 0, len(op.Attempts))
	for _, a := range op.Attempts {
		out = append(out, attempt{a.Provider, a.Model, a.At.UTC(), a.StatusCode, a.Class, a.LookedUp})
	}
	return out
}

// attemptLog finds the attempts of operations in the checkpoint, which it
// keeps open for reading. A nil log has none.
type attemptLog struct {
	store *checkpoint.Store
	rows  []uint32 // of the index's entries: the sequence number; 0 = no row
}

// openLog opens the log if --attempts asks for it, and says why it cannot.
func (o *resultsOptions) openLog(env Env, index *input.Index, path string) (*attemptLog, error) {
	if !o.attempts {
		return nil, nil
	}
	log, why, err := openAttempts(index, path)
	if why != "" {
		env.say("attempts are left out: %s", why)
	}
	return log, err
}

// openAttempts opens the log; nil, with a reason, where there is none or a run
// holds it.
func openAttempts(index *input.Index, path string) (log *attemptLog, why string, err error) {
	store, err := checkpoint.OpenReadOnly(path)
	switch {
	case errors.Is(err, checkpoint.ErrLocked):
		return nil, "a run holds the checkpoint", nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, "there is no checkpoint " + path, nil
	case err != nil:
		return nil, "", fmt.Errorf("checkpoint %s: %w", path, err)
	}
	log = &attemptLog{store, make([]uint32, index.Len())}
	near := index.Cursor()
	err = store.All(func(op *checkpoint.Operation) error {
		if i, ok := near.Find(op.ID); ok {
			log.rows[i] = uint32(op.Seq)
		}
		return nil
	})
	if err != nil {
		return nil, "", errors.Join(err, store.Close())
	}
	return log, "", nil
}

// of gives the attempts that led to the line at a place; nil if nothing is
// known of them.
func (l *attemptLog) of(i int, p place) ([]attempt, error) {
	if l == nil || l.rows[i] == 0 {
		return nil, nil
	}
	op, ok, err := l.store.Get(uint64(l.rows[i]))
	if err != nil || !ok || op.Offset != p.span.Offset || p.dead != (op.Status == checkpoint.DeadLetter) {
		return nil, err
	}
	return attemptsOf(&op), nil
}

func (l *attemptLog) close() {
	if l != nil {
		l.store.Close()
	}
}
