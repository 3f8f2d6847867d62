package runner

import (
	"context"
	"sync"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// watched is a client that tells of its calls, numbered from 1.
type watched struct {
	provider.Client
	before func(n int) // the row is recorded, nothing has been sent
	after  func(n int) // the answer is there, nothing of it has been stored

	mu   sync.Mutex
	n    int
	keys []string
}

func (w *watched) Do(ctx context.Context, r provider.Request) (*provider.Response, error) {
	w.mu.Lock()
	w.n++
	n := w.n
	w.keys = append(w.keys, r.Key)
	w.mu.Unlock()
	if w.before != nil {
		w.before(n)
	}
	resp, err := w.Client.Do(ctx, r)
	if w.after != nil {
		w.after(n)
	}
	return resp, err
}
