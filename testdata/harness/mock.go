package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Anywhere is an address on the loopback with a port that the system picks.
const Anywhere = "127.0.0.1:0"

// Mock is llmbatch's own provider, in a process of its own.
type Mock struct {
	*Process
	Addr string // host:port
}

// StartMock starts a mock at an address and waits until it listens. One that was
// killed can be started again at its own.
func StartMock(ctx context.Context, binary, dir, addr string, args ...string) (*Mock, error) {
	file, err := os.CreateTemp(dir, "mock-*.addr")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(file.Close(), os.Remove(file.Name())); err != nil {
		return nil, err
	}
	argv := append([]string{binary, "mock", "--listen", addr, "--addr-file", file.Name()}, args...)
	p, err := Command{Argv: argv, Dir: dir}.Start(ctx)
	if err != nil {
		return nil, err
	}
	m := &Mock{Process: p}
	err = Until(ctx, func() bool {
		raw, err := os.ReadFile(file.Name())
		m.Addr = strings.TrimSpace(string(raw))
		return err == nil || !p.Running()
	})
	if err != nil || !p.Running() {
		p.Kill()
		return nil, fmt.Errorf("mock: %w", errors.Join(err, errors.New(p.Tail())))
	}
	return m, nil
}

// URL is the base of its API.
func (m *Mock) URL() string { return "http://" + m.Addr + "/v1" }

// Ledger is what a server saw, by its own account.
type Ledger struct {
	Asked    int
	Rejected int // before the limits; also while it is down
	Refused  int `json:"refused_total"`
	Answered int
	Billed   int `json:"billed_calls"`
	Input    int `json:"billed_input_tokens"`
	Output   int `json:"billed_output_tokens"`
	Twice    struct {
		Extra int `json:"extra_calls"`
	} `json:"billed_twice"`
	Keys         int     `json:"distinct_keys"`
	Rekeyed      int     `json:"rekeyed_bodies"`
	Redirects    int     `json:"redirects_followed"`
	PeakRequests int     `json:"peak_minute_requests"`
	PeakTokens   int     `json:"peak_minute_tokens"`
	InFlight     int     `json:"in_flight"`
	PeakInFlight int     `json:"max_in_flight"`
	Makespan     float64 `json:"makespan_seconds"`  // first call to last answer
	LastSend     float64 `json:"last_send_seconds"` // first call to the last one admitted
}

// Ledger is the mock's account now.
func (m *Mock) Ledger(ctx context.Context) (l Ledger, err error) {
	raw, err := m.Get(ctx, "/stats")
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, fmt.Errorf("stats: %w in %.200q", err, raw)
	}
	return l, nil
}

// Get reads one of the mock's own pages.
func (m *Mock) Get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Addr+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Timeout: 20 * time.Second}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// FreeAddr is an address on the loopback at which nobody listens now, for
// servers that cannot say which port they took.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", Anywhere)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
