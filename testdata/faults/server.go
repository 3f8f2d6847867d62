package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// provider is a server that runs ask, with its own account of what it saw.
type provider interface {
	url() string
	ledger(context.Context) (ledger, error)
}

// ledger is what a server saw, by its own account.
type ledger struct {
	Asked    int
	Refused  int `json:"refused_total"`
	Rejected int
	Answered int
	Billed   int `json:"billed_calls"`
	Twice    struct {
		Extra int `json:"extra_calls"`
	} `json:"billed_twice"`
	Rekeyed      int `json:"rekeyed_bodies"`
	Redirects    int `json:"redirects_followed"`
	PeakRequests int `json:"peak_minute_requests"`
	PeakTokens   int `json:"peak_minute_tokens"`
	InFlight     int `json:"in_flight"`
	MaxInFlight  int `json:"max_in_flight"`
}

// mock is llmbatch's own provider, in a process of its own.
type mock struct {
	*process
	addr string
}

// mock starts one as the trial's server.
func (c *trial) mock(args ...string) *mock {
	return c.mockAt("127.0.0.1:0", args...)
}

// mockAt is mock at an address, such as that of one that was killed.
func (c *trial) mockAt(addr string, args ...string) *mock {
	file, err := os.CreateTemp(c.dir, "mock-*.addr")
	c.check(err)
	c.check(file.Close())
	c.check(os.Remove(file.Name()))
	m := &mock{process: c.spawn(how{}, append([]string{"mock", "--listen", addr, "--addr-file", file.Name()}, args...)...)}
	c.until("the mock", func() bool {
		raw, err := os.ReadFile(file.Name())
		m.addr = strings.TrimSpace(string(raw))
		return err == nil || !m.running()
	})
	c.want(m.running(), "mock: %s", m.tail())
	c.server = m
	return m
}

func (m *mock) url() string { return "http://" + m.addr + "/v1" }

func (m *mock) ledger(ctx context.Context) (l ledger, err error) {
	raw, err := m.get(ctx, "/stats")
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, fmt.Errorf("stats: %w in %.200q", err, raw)
	}
	return l, nil
}

func (m *mock) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.addr+path, nil)
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

// stats is the server's account now.
func (c *trial) stats() ledger {
	l, err := c.server.ledger(c.ctx)
	c.check(err)
	return l
}
