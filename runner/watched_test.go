package runner

import (
	"context"
	"sync"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// watched is a client that tells of its calls, numbered from 1. Functions
// that are nil are not called.
type watched struct {
	provider.Client
	before func(n int) // the row is recorded, nothing has been sent
	sent   func(n int) // the request is written
	after  func(n int) // the answer is there, nothing of it has been stored

	mu sync.Mutex
	n  int
}

func (w *watched) Do(ctx context.Context, r provider.Request) (*provider.Response, error) {
	w.mu.Lock()
	w.n++
	n := w.n
	w.mu.Unlock()
	tell := func(f func(n int)) {
		if f != nil {
			f(n)
		}
	}
	tell(w.before)
	onSent := r.OnSent
	r.OnSent = func(at time.Time) {
		tell(w.sent)
		onSent(at)
	}
	resp, err := w.Client.Do(ctx, r)
	tell(w.after)
	return resp, err
}
