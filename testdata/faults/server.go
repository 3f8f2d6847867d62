package main

import (
	"context"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// provider is a server that runs ask, with its own account of what it saw.
type provider interface {
	URL() string
	Ledger(context.Context) (harness.Ledger, error)
}

// mock starts one as the trial's server.
func (c *trial) mock(args ...string) *harness.Mock {
	return c.mockAt(harness.Anywhere, args...)
}

// mockAt is mock at an address, such as one at which nobody listened.
func (c *trial) mockAt(addr string, args ...string) *harness.Mock {
	m, err := harness.StartMock(c.ctx, c.binary, c.dir, addr, args...)
	c.check(err)
	c.after = append(c.after, m.Kill)
	c.server = m
	return m
}

// stats is the server's account now.
func (c *trial) stats() harness.Ledger {
	l, err := c.server.Ledger(c.ctx)
	c.check(err)
	return l
}
