package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Snapshot is what a run publishes beside its checkpoint each second while it holds the lock. Figures cover the whole
// checkpoint unless they say otherwise.
type Snapshot struct {
	PID        int            `json:"pid"` // of the run
	Started    time.Time      `json:"started"`
	Updated    time.Time      `json:"updated"`
	InputName  string         `json:"input_name"`
	InputSHA   string         `json:"input_sha256"`
	Operations int64          `json:"operations"` // of the input
	Counts     map[string]int `json:"counts"`     // operations by Status.String()
	Degraded   int            `json:"degraded"`   // completed operations that gave something up under pressure
	Classes    map[string]int `json:"classes"`    // dead letters, delayed and unknown operations by error class

	// Tokens that the providers say they billed, and those reserved by this run.
	InputTokens     int64 `json:"input_tokens"`
	OutputTokens    int64 `json:"output_tokens"`
	CachedTokens    int64 `json:"cached_tokens"`
	ReasoningTokens int64 `json:"reasoning_tokens"`
	TokensReserved  int64 `json:"tokens_reserved"`

	// Of this run.
	Calls       int `json:"calls"`
	Retries     int `json:"retries"`
	RateLimited int `json:"rate_limited"`

	// First and last moment of the recorded attempts; zero = none.
	FirstSent    time.Time `json:"first_sent"`
	LastFinished time.Time `json:"last_finished"`

	// Bytes of the output and errors files that were synced at Updated. What lies behind may be torn.
	OutputBytes int64 `json:"output_bytes"`
	ErrorsBytes int64 `json:"errors_bytes"`

	// What binds the pace now, and until when, in words; "" = nothing.
	Waiting string `json:"waiting,omitempty"`

	// What Note keeps, in few points and as the run that wrote it words it; nil = nothing.
	Series json.RawMessage `json:"series,omitempty"`
}

// SnapshotPath returns where the snapshot of a checkpoint lies: x.llmbatch.status.json for x.llmbatch.db.
func SnapshotPath(checkpoint string) string {
	return strings.TrimSuffix(checkpoint, ".db") + ".status.json"
}

// WriteSnapshot replaces the snapshot in one step, mode 0600. It is not synced: after a power cut the checkpoint itself
// is what counts. One process at a time may write it; the checkpoint's lock sees to that.
func WriteSnapshot(checkpoint string, snap *Snapshot) error {
	b, err := json.Marshal(snap)
	if err != nil {
		return err
	}
	path := SnapshotPath(checkpoint)
	temp := path + ".new"
	if err := os.WriteFile(temp, append(b, '\n'), 0o600); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// ReadSnapshot reads the snapshot that lies beside a checkpoint. The error is fs.ErrNotExist if there is none. Whether
// its run still lives is for the reader to see from Updated and from the checkpoint's lock.
func ReadSnapshot(checkpoint string) (*Snapshot, error) {
	path := SnapshotPath(checkpoint)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var snap Snapshot
	if err := json.Unmarshal(b, &snap); err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", path, err)
	}
	return &snap, nil
}

// RemoveSnapshot removes it at the end of a run; a missing one is no error.
func RemoveSnapshot(checkpoint string) error {
	err := os.Remove(SnapshotPath(checkpoint))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
