package fake

import (
	"context"
	"math"
	"time"
)

// perform plays what the call's fault, the rates and the clock have in store for it. billed = an answer was computed.
func (s *Server) perform(ctx context.Context, sc *scratch, c *call, m scripted, isScripted bool) (rep reply, billed bool) {
	var f fault
	switch draw := mix(s.cfg.Seed^c.bodyID, c.attempt); {
	case isScripted:
		f, _ = lookup(m)
	case s.cfg.ErrorRate > 0 && unit(draw) < s.cfg.ErrorRate:
		c.fault = "error"
		wait(ctx, s.latency(c))
		return s.statusFailure(s.cfg.ErrorStatus[mix(draw, 1)%uint64(len(s.cfg.ErrorStatus))]), false
	case s.cfg.LostRate > 0 && unit(mix(draw, 2)) < s.cfg.LostRate:
		f, _ = lookup(scripted{name: "lost"})
	}
	c.fault = f.name
	delay := s.latency(c)
	switch f.name {
	case "":
		f.billed = true
	case "hang":
		<-ctx.Done()
		return reply{cut: true}, false
	case "slow":
		d, err := time.ParseDuration(m.arg)
		if err != nil {
			return s.failure(400, "invalid_request_error", "", "slow: "+err.Error(), nil), false
		}
		delay += d
	case "length":
		c.finish = "length"
	case "filter":
		c.finish = "content_filter"
	case "choice_error":
		c.finish = "error"
	}
	if f.billed {
		wait(ctx, delay) // the client may go: an answer that was begun is billed all the same
		rep = reply{status: 200, body: s.build(sc, c)}
	}
	if f.play != nil {
		f.play(s, c, &rep, m.arg)
	}
	return rep, f.billed
}

// build writes the complete answer into the scratch buffer.
func (s *Server) build(sc *scratch, c *call) []byte {
	sc.out = s.answer(sc.out[:0], c)
	return sc.out
}

// size reckons a call's tokens: what it asks for, what it is charged and what its answer will hold.
func (s *Server) size(c *call) {
	estimate := (c.chars+3)/4 + 1
	c.prompt = estimate
	if s.cfg.Count != nil {
		c.prompt = s.cfg.Count(c.api, c.model, c.body)
	}
	reserve := 0
	if c.api == apiChat || c.api == apiResponses || c.api == apiCompletions {
		each := s.cfg.Output
		if j := s.cfg.OutputJitter; j > 0 {
			each += int(mix(mix(s.cfg.Seed, c.bodyID), 3)%uint64(2*j+1)) - j
		}
		each = max(1, each)
		c.finish = "stop"
		if c.maxOut > 0 && each > c.maxOut {
			each, c.finish = c.maxOut, "length"
		}
		c.out = each * c.choices
		switch {
		case c.maxOut > 0:
			reserve = c.maxOut * c.choices
		case s.cfg.DefaultOutput > 0:
			reserve = s.cfg.DefaultOutput * c.choices
		default:
			reserve = c.out
		}
	}
	switch s.cfg.Accounting {
	case Sum:
		c.charge = int64(c.prompt + reserve)
	case Max:
		c.charge = int64(max(estimate, reserve))
	case In:
		c.charge = int64(c.prompt)
	}
}

// latency draws the call's service time.
func (s *Server) latency(c *call) time.Duration {
	d := s.cfg.Latency
	h := mix(mix(s.cfg.Seed, c.bodyID), c.attempt+4)
	if sigma := s.cfg.LatencySigma; sigma > 0 {
		normal := math.Sqrt(-2*math.Log(1-unit(h))) * math.Cos(2*math.Pi*unit(mix(h, 1))) // Box-Muller
		d = time.Duration(float64(d) * math.Exp(sigma*normal))
	}
	if j := s.cfg.LatencyJitter; j > 0 {
		d += time.Duration((2*unit(mix(h, 2)) - 1) * float64(j))
	}
	return max(0, d)
}

// wait sleeps for d or until the client has gone.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
