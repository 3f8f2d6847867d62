package fake

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// perform plays what the call's fault and the clock have in store for it. billed = an answer was computed; one that is
// streamed is yet to be.
func (s *Server) perform(ctx context.Context, sc *scratch, c *call, m scripted) (rep reply, billed bool) {
	f, known := lookup(m)
	late := !known && m.name != "" // drawn, not named: it fails when an answer would have come
	if late {
		status, _ := strconv.Atoi(m.arg) // drawn writes a number
		f = failing(m.name, status)
	}
	c.fault, c.arg = f.name, m.arg
	if f.name == "hang" {
		<-ctx.Done()
		return reply{cut: true}, false
	}
	delay, err := c.shape(s.latency(c))
	if err != nil {
		return c.fail(failure{status: 400, typ: "invalid_request_error", text: err.Error()}), false
	}
	billed = f.billed || m.name == ""
	switch {
	case billed && (c.stream && c.streamed(f) || c.fault == "keepalive"):
		rep = s.whole(sc, c, delay)
	case billed:
		wait(ctx, delay) // the client may go: an answer that was begun is billed all the same
		rep = reply{status: 200, body: s.build(sc, c)}
	case late:
		wait(ctx, delay)
	}
	if f.name == "hint" {
		rep.set("Retry-After", m.arg)
	}
	if f.play != nil && rep.stream == nil {
		f.play(s, c, &rep, m.arg)
	}
	if c.stream && rep.status == 200 && rep.ctype == "" && !billed { // an error or a blocked prompt, as the stream's only event
		rep.ctype = eventStream
		rep.body = slices.Concat([]byte("data: "), bytes.TrimSpace(rep.body), []byte("\n\n"))
	}
	return rep, billed
}

const eventStream = "text/event-stream"

// streamed says whether the answer goes out as a stream under this fault.
func (c *call) streamed(f fault) bool {
	return f.play == nil || f.name == "truncated" || f.name == "short" || f.name == "empty"
}

// whole is the complete answer: as a stream that takes delay, or whole at once. A stream is no part of the scratch.
func (s *Server) whole(sc *scratch, c *call, delay time.Duration) reply {
	if c.stream {
		return reply{status: 200, ctype: eventStream, stream: s.plan(c, delay)}
	}
	body := s.build(sc, c)
	if c.fault == "keepalive" {
		return reply{status: 200, stream: blanks(c, delay, body)}
	}
	return reply{status: 200, body: body}
}

// build writes the complete answer into the scratch buffer.
func (s *Server) build(sc *scratch, c *call) []byte {
	sc.out = s.answer(sc.out[:0], c)
	return sc.out
}

// empty is an answer without content, in the shape of the API.
func (c *call) empty() []byte {
	switch c.api {
	case apiMessages:
		return encode(c.messageObject(0, []any{}, "end_turn", 0))
	case apiGenerate:
		return encode(c.geminiAnswer(0, []any{}, 0))
	}
	return fmt.Appendf(nil, `{"id":"chatcmpl-empty","object":"chat.completion","created":%d,"model":"%s","choices":[],"output":[],"data":[],"usage":{"prompt_tokens":%d,"completion_tokens":0,"total_tokens":%d}}`,
		created, c.model, c.prompt, c.prompt)
}

// size reckons a call's tokens: what it asks for, what it is charged and what its answer will hold.
func (s *Server) size(c *call) {
	cfg := &c.group.cfg
	estimate := (c.chars+3)/4 + 1
	c.prompt = estimate
	if cfg.Count != nil {
		if n := cfg.Count(c.api, c.model, c.body); n > 0 {
			c.prompt = n
		}
	}
	c.cached = min(cfg.Cached, c.prompt-1)
	reserve := 0
	if c.generates() {
		each := cfg.Output
		if j := cfg.OutputJitter; j > 0 {
			each += int(mix(mix(cfg.Seed, c.bodyID), 3)%uint64(2*j+1)) - j
		}
		each = max(1, each)
		c.finish = "stop"
		if c.maxOut > 0 && each > c.maxOut {
			each, c.finish = c.maxOut, "length"
		}
		c.out = each * c.choices
		c.reason = min(cfg.Reasoning, c.out-c.choices)
		switch {
		case c.maxOut > 0:
			reserve = c.maxOut * c.choices
		case cfg.DefaultOutput > 0:
			reserve = cfg.DefaultOutput * c.choices
		default:
			reserve = c.out
		}
	}
	c.charge = int64(c.prompt + reserve)
	switch {
	case cfg.Accounting == None:
		c.charge = 0
	case cfg.Accounting == In || c.dialect == Gemini && !cfg.OneDialect: // Gemini limits the input alone
		c.charge = int64(c.prompt)
	case cfg.Accounting == Max:
		c.charge = int64(max(estimate, reserve))
	}
}

// latency draws the call's service time.
func (s *Server) latency(c *call) time.Duration {
	cfg := &c.group.cfg
	d := cfg.Latency
	h := mix(mix(cfg.Seed, c.bodyID), c.attempt+4)
	if sigma := cfg.LatencySigma; sigma > 0 {
		normal := math.Sqrt(-2*math.Log(1-unit(h))) * math.Cos(2*math.Pi*unit(mix(h, 1))) // Box-Muller
		d = time.Duration(float64(d) * math.Exp(sigma*normal))
	}
	if j := cfg.LatencyJitter; j > 0 {
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
