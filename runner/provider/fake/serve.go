package fake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// grace is how long calls in flight may take to end once Serve is told to stop.
const grace = 2 * time.Second

// Serve answers on ln until ctx ends, then lets the calls in flight finish for two seconds and cuts the rest. It closes
// ln and returns nil after a stop, or what made the listener fail.
func Serve(ctx context.Context, ln net.Listener, s *Server) error {
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("mock provider on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(stop)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	<-failed // http.ErrServerClosed
	return err
}
