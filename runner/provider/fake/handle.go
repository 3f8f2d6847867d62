package fake

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// handle reads, judges and accounts for one call and sends its reply: when a client has the whole answer, the ledger has
// it too. The reply's bytes are valid until send returns; a stream's for ever.
func (s *Server) handle(r *http.Request, send func(*reply)) {
	sc := s.pool.Get().(*scratch)
	defer s.pool.Put(sc)
	sc.body.Reset()
	c := &call{key: r.Header.Get("Idempotency-Key")}
	c.route(r.URL.Path)
	_, err := sc.body.ReadFrom(io.LimitReader(r.Body, s.cfg.MaxBody+1))
	if err != nil {
		panic(http.ErrAbortHandler) // the request never arrived whole: no call
	}
	ok := c.read(sc.body.Bytes())

	s.mu.Lock()
	now := s.now()
	c.era = s.era
	c.serial = s.ledger.ask(now, c)
	c.group = s.group(c.model)
	since := time.Duration(now - s.ledger.first)
	if strings.HasPrefix(r.URL.Path, redirected) {
		s.ledger.st.Redirects++
	}
	s.mu.Unlock()
	c.dialect, c.hints = c.group.cfg.dialects(c.api)
	c.id = "req_" + hexID(mix(uint64(s.start.UnixNano()), c.serial))

	rep, rejected := s.reject(r, c, ok, since)
	if rejected {
		s.mu.Lock()
		s.ledger.st.Rejected++
		s.ledger.end(s.now(), c, rep.code(), 0, "")
		s.mu.Unlock()
	} else {
		rep = s.serve(r.Context(), sc, c)
	}
	if !rep.cut {
		rep.identify(c)
	}
	send(&rep)
}

// reject answers a call that does not come as far as the limits; since = time since the first call.
func (s *Server) reject(r *http.Request, c *call, isJSON bool, since time.Duration) (reply, bool) {
	invalid := func(status int, msg string) (reply, bool) {
		return c.fail(failure{status: status, typ: "invalid_request_error", text: msg}), true
	}
	cfg := &c.group.cfg
	down := cfg.down(c.serial, since)
	switch {
	case down && cfg.DownStatus == 0:
		return reply{cut: true}, true
	case down:
		return c.statusFailure(cfg.DownStatus), true
	case c.api == "":
		return invalid(404, "Invalid URL ("+r.Method+" "+r.URL.Path+")")
	case r.Method != http.MethodPost:
		return invalid(405, "Not allowed to "+r.Method+" on "+r.URL.Path)
	case !s.authorized(r):
		return c.unauthorized(), true
	case int64(len(c.body)) > s.cfg.MaxBody:
		return invalid(413, "Request body is too large")
	case strings.Contains(r.URL.Path, azurePath) && r.URL.Query().Get("api-version") == "":
		return invalid(404, "Resource not found")
	case !isJSON:
		return invalid(400, "We could not parse the JSON body of your request.")
	case c.model == "":
		return invalid(400, "you must provide a model parameter")
	case s.models != nil && !s.models[c.model]:
		return c.noModel(), true
	case c.choices > maxChoices || c.dims > maxDims:
		return invalid(400, "n or dimensions is above the maximum")
	}
	if msg := c.missing(r.Header, r.URL.Query()); msg != "" {
		return invalid(400, msg)
	}
	if m, found := scriptedFault(c.body, 1); found {
		if _, known := lookup(m); !known {
			return invalid(400, fmt.Sprintf("unknown fault %q", m.name))
		}
	}
	return reply{}, false
}

// missing names what the call's API wants and the call has not.
func (c *call) missing(h http.Header, q url.Values) string {
	switch {
	case c.api == apiMessages && c.hints != OpenRouter && h.Get("Anthropic-Version") == "":
		return "anthropic-version: header is required"
	case c.api == apiMessages && c.maxOut == 0:
		return "max_tokens: Field required"
	case c.api == apiGenerate && !bytes.Contains(c.body, []byte(`"contents"`)):
		return "* GenerateContentRequest.contents: contents is not specified\n"
	case c.api == apiGenerate && c.stream && q.Get("alt") != "sse":
		return "the mock provider streams with alt=sse only"
	}
	return ""
}

// serve judges a well-formed call: replay, refusal, fault or answer. The ledger is complete when it returns, but for a
// stream's, which settles itself.
func (s *Server) serve(ctx context.Context, sc *scratch, c *call) reply {
	s.size(c)
	keyed := s.cfg.HonourKeys && c.key != ""
	if keyed {
		if rep, settled := s.claim(ctx, sc, c); settled {
			return rep
		}
	}
	s.mu.Lock()
	now := s.now()
	c.at = now
	if c.era != s.era { // reset since it came: it is a call of the new account, and holds no key there
		c.era, keyed = s.era, false
	}
	g := s.group(c.model)
	c.group = g
	if g.cfg.QuotaAfter > 0 && g.billed >= g.cfg.QuotaAfter {
		rep := s.quota(c, "")
		s.endRefused(c, rep.status, "quota", keyed)
		return rep
	}
	if no := g.admit.ask(now, c.cost()); no != nil {
		st := g.admit.standings(now)
		rep := s.refuse(c, no)
		s.endRefused(c, rep.status, no.name, keyed)
		s.rates(c, &rep, &st)
		wait(ctx, g.cfg.RefuseDelay)
		return rep
	}
	s.ledger.admit(now, c)
	m, scripted := scriptedFault(c.body, s.numbered(c))
	if !scripted {
		m = s.drawn(c)
	}
	st := g.admit.standings(now) // headers say how things stood at admission, however late the answer
	s.mu.Unlock()

	rep, billed := s.perform(ctx, sc, c, m)
	if !rep.cut && rep.status != 0 {
		s.rates(c, &rep, &st)
	}
	if rep.stream != nil {
		c.body, c.text = nil, bytes.Clone(c.text) // it may end when another call has the buffer
		rep.stream.settle = func(e ending) { s.settle(c, e, keyed) }
		return rep
	}
	s.settle(c, rep.ending(ctx, c, billed), keyed)
	return rep
}

// claim takes hold of the call's key; settled = the reply is the stored answer, or the call ended while it waited.
func (s *Server) claim(ctx context.Context, sc *scratch, c *call) (rep reply, settled bool) {
	for {
		s.mu.Lock()
		what, first := s.keys.begin(c)
		if what == keyFresh {
			c.era = s.era
			s.mu.Unlock()
			return reply{}, false
		}
		if what == keyWait {
			s.mu.Unlock()
			select {
			case <-first:
				continue
			case <-ctx.Done():
				s.mu.Lock()
				rep.cut = true
				s.ledger.st.Rejected++
			}
		}
		switch what {
		case keyAgain:
			rep = s.whole(sc, c, 0)
			rep.set("Idempotent-Replayed", "true")
			s.ledger.st.Duplicates++
			s.ledger.answered(c)
		case keyAnother:
			s.ledger.st.Rejected++
			rep = c.fail(failure{
				status: 400, typ: "invalid_request_error", code: "idempotency_key_in_use",
				text: "Keys for idempotent requests can only be used with the same body.",
			})
		}
		s.ledger.end(s.now(), c, rep.code(), 0, "")
		s.mu.Unlock()
		return rep, true
	}
}

// endRefused accounts for a refusal; it is called with the lock held and gives it up.
func (s *Server) endRefused(c *call, status int, name string, keyed bool) {
	defer s.mu.Unlock()
	c.charge = 0
	s.ledger.refuse(c, name)
	s.ledger.end(s.now(), c, status, 0, name)
	if keyed {
		s.keys.end(c, false)
	}
}

// numbered counts the calls with a body that names faults; called with the lock held.
func (s *Server) numbered(c *call) uint64 {
	if !bytes.Contains(c.body, []byte(faultOpen)) {
		return 0
	}
	n, known := s.script[c.bodyID]
	if known || len(s.script) < s.cfg.MaxFaultBodies {
		s.script[c.bodyID] = n + 1
	}
	return n + 1
}

// fate is what became of an admitted call's answer.
type fate uint8

const (
	failed    fate = iota // there was none
	answered              // it went out whole
	lost                  // it was generated, at least in part, and did not go out whole
	abandoned             // it was generated, at least in part, for a client that had gone
)

// ending is how an admitted call ended.
type ending struct {
	fate fate
	code int // status; 0 = aborted
	out  int // tokens generated
}

// ending is how a call ends whose reply is not streamed.
func (r *reply) ending(ctx context.Context, c *call, billed bool) ending {
	e := ending{code: r.code()}
	if ctx.Err() != nil {
		e.code = 0
	}
	if !billed {
		return e
	}
	e.out, e.fate = c.out, answered
	switch {
	case ctx.Err() != nil:
		e.fate = abandoned
	case r.aborts() || r.status != 200:
		e.fate = lost
	}
	return e
}

// settle accounts for the end of an admitted call.
func (s *Server) settle(c *call, e ending, keyed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.era != s.era {
		return
	}
	now := s.now()
	used := int64(0)
	billed := e.fate != failed
	full := c.out
	c.out = e.out
	if billed {
		s.shelf.put(c, full, s.cfg.Seed)
		s.ledger.bill(now, c)
		c.group.billed++
		used = int64(c.prompt + c.out)
	}
	switch e.fate {
	case abandoned:
		s.ledger.st.Abandoned++
	case lost:
		s.ledger.st.Lost++
	case answered:
		s.ledger.answered(c)
	}
	unused := int64(0)
	if c.group.cfg.Refund {
		unused = c.charge - used
	}
	c.group.admit.done(now, c.at, int64(c.out), unused)
	s.ledger.st.InFlight--
	s.ledger.end(now, c, e.code, int(used), "")
	if keyed {
		s.keys.end(c, billed)
	}
}
