package harness

import (
	"context"
	"fmt"
	"time"
)

// Patience bounds every wait for a condition that should hold within moments.
const Patience = time.Minute

// Until waits for a condition, no longer than Patience.
func Until(ctx context.Context, condition func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain: %w", ctx.Err())
		}
	}
	return nil
}

// Pause lets time pass, no longer than a process runs; nil = none.
func Pause(ctx context.Context, d time.Duration, p *Process) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var exited chan struct{}
	if p != nil {
		exited = p.Exited
	}
	select {
	case <-timer.C:
	case <-exited:
	case <-ctx.Done():
	}
}
