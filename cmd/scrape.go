package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmbatch/llmbatch/runner/metrics"
)

// scrapes serves metrics to who asks for them. A nil scrapes serves nothing.
type scrapes struct {
	notice func(string)
	server *http.Server
	over   atomic.Bool   // the run has ended
	last   chan struct{} // closed once a scrape has begun after that, and is served
	once   sync.Once
	gone   sync.WaitGroup
}

// serve answers scrapes until the end.
func serve(addr string, m *metrics.Metrics, notice func(string)) (*scrapes, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, usagef("for example --metrics-addr :9090, which is 127.0.0.1:9090", "--metrics-addr: %s", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, usagef("name another port; port 0 takes a free one", "--metrics-addr: %s", err)
	}
	s := &scrapes{notice: notice, last: make(chan struct{})}
	mux, handler := http.NewServeMux(), m.Handler()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		late := s.over.Load()
		handler.ServeHTTP(w, r)
		if late {
			s.once.Do(func() { close(s.last) })
		}
	})
	s.server = &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	notice("metrics at http://" + ln.Addr().String() + "/metrics")
	s.gone.Go(func() {
		if err := s.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			notice("metrics are no longer served: " + err.Error())
		}
	})
	return s, nil
}

// finish says that no figure changes any more.
func (s *scrapes) finish() {
	if s != nil {
		s.over.Store(true)
	}
}

// leave ends the server: once the final figures have been scraped, after linger,
// or when ctx ends, whichever is first. A scrape that is under way gets a second.
func (s *scrapes) leave(ctx context.Context, linger time.Duration) {
	if s == nil {
		return
	}
	if linger > 0 && s.over.Load() && ctx.Err() == nil {
		s.notice(fmt.Sprintf("metrics are served until their last scrape, at most %s", linger))
		timer := time.NewTimer(linger)
		defer timer.Stop()
		select {
		case <-s.last:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close()
	}
	s.gone.Wait()
}
