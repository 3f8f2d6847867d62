package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Server is the mock provider: an http.Handler that is safe for concurrent use and starts no goroutine.
type Server struct {
	cfg    Config
	models map[string]bool
	start  time.Time
	pool   sync.Pool // *scratch

	bombOnce sync.Once
	bombBody []byte

	mu     sync.Mutex // guards all below
	era    uint64     // resets so far
	admit  admission
	ledger ledger
	keys   keyring
	script map[uint64]uint64 // calls seen of each body that names a fault
}

// scratch is what a call needs and the next one can use again.
type scratch struct {
	body bytes.Buffer
	out  []byte
}

// New returns a server whose windows start now.
func New(c Config) *Server {
	c = c.withDefaults()
	s := &Server{cfg: c, start: time.Now()}
	s.pool.New = func() any { return new(scratch) }
	if len(c.Models) > 0 {
		s.models = make(map[string]bool, len(c.Models))
		for _, m := range c.Models {
			s.models[m] = true
		}
	}
	s.Reset()
	return s
}

// Reset forgets everything: limits, ledger, log, keys and the counts of faults. Calls in flight are answered and enter
// no account.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.era++
	s.keys.drop()
	s.admit = newAdmission(&s.cfg, s.now())
	s.ledger = newLedger(&s.cfg)
	s.keys = newKeyring(s.cfg.TrackMax)
	s.script = map[uint64]uint64{}
}

// Stats returns the ledger as it stands.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.stats()
}

// Log returns the calls that have ended, in the order in which they did, up to Config.LogMax.
func (s *Server) Log() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.log[:len(s.ledger.log):len(s.ledger.log)]
}

// now is the wall clock at the start plus monotonic time: clock-aligned windows, and no step back.
func (s *Server) now() int64 { return s.start.Add(time.Since(s.start)).UnixNano() }

// ServeHTTP answers the APIs under any prefix, and /stats, /log, /reset and /v1/models.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch p := r.URL.Path; {
	case p == "/stats":
		r := reply{status: 200, body: encode(s.Stats())}
		r.write(w)
	case p == "/log":
		w.Header().Set("Content-Type", "application/jsonl")
		e := json.NewEncoder(w)
		for _, entry := range s.Log() {
			if e.Encode(entry) != nil {
				return
			}
		}
	case p == "/reset" && r.Method == http.MethodPost:
		s.Reset()
		r := reply{status: 200, body: []byte("{}\n")}
		r.write(w)
	case strings.HasSuffix(p, "/models") && r.Method == http.MethodGet:
		r := s.modelList(r)
		r.write(w)
	default:
		s.serveCall(w, r)
	}
}

func (s *Server) modelList(r *http.Request) reply {
	if !s.authorized(r) {
		return s.unauthorized()
	}
	names := s.cfg.Models
	if len(names) == 0 {
		names = []string{"mock"}
	}
	list := make([]map[string]any, len(names))
	for i, m := range names {
		list[i] = map[string]any{"id": m, "object": "model", "created": created, "owned_by": "mock"}
	}
	return reply{status: 200, body: encode(map[string]any{"object": "list", "data": list})}
}

func (s *Server) authorized(r *http.Request) bool {
	if s.cfg.APIKey == "" {
		return true
	}
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return s.cfg.APIKey == bearer || s.cfg.APIKey == r.Header.Get("X-Api-Key") || s.cfg.APIKey == r.Header.Get("Api-Key")
}

// serveCall reads, judges and accounts for one call, then writes its reply: when a client has the answer, the ledger has it too.
func (s *Server) serveCall(w http.ResponseWriter, r *http.Request) {
	sc := s.pool.Get().(*scratch)
	defer s.pool.Put(sc)
	sc.body.Reset()
	c := &call{api: apiOf(r.URL.Path), key: r.Header.Get("Idempotency-Key")}
	_, err := sc.body.ReadFrom(io.LimitReader(r.Body, s.cfg.MaxBody+1))
	if err != nil {
		panic(http.ErrAbortHandler) // the request never arrived whole: no call
	}
	ok := c.read(sc.body.Bytes())

	s.mu.Lock()
	c.era = s.era
	c.serial = s.ledger.ask(s.now())
	if strings.HasPrefix(r.URL.Path, redirected) {
		s.ledger.st.Redirects++
	}
	s.mu.Unlock()

	rep, rejected := s.reject(r, c, ok)
	if rejected {
		s.mu.Lock()
		s.ledger.st.Rejected++
		s.ledger.end(s.now(), c, rep.code(), 0, "")
		s.mu.Unlock()
	} else {
		rep = s.serve(r.Context(), sc, c)
	}
	if !rep.cut {
		rep.set("X-Request-Id", "req_"+hexID(mix(uint64(s.start.UnixNano()), c.serial)))
	}
	rep.write(w)
}

// code is the reply's status as the ledger counts it.
func (r *reply) code() int {
	if r.aborts() {
		return 0
	}
	return r.status
}

// reject answers a call that does not come as far as the limits.
func (s *Server) reject(r *http.Request, c *call, isJSON bool) (reply, bool) {
	down := s.cfg.DownFrom > 0 && c.serial >= uint64(s.cfg.DownFrom) && (s.cfg.DownUntil == 0 || c.serial < uint64(s.cfg.DownUntil))
	invalid := func(status int, msg string) (reply, bool) {
		return s.failure(status, "invalid_request_error", "", msg, nil), true
	}
	switch {
	case down && s.cfg.DownStatus == 0:
		return reply{cut: true}, true
	case down:
		return s.statusFailure(s.cfg.DownStatus), true
	case c.api == "":
		return invalid(404, "Invalid URL ("+r.Method+" "+r.URL.Path+")")
	case r.Method != http.MethodPost:
		return invalid(405, "Not allowed to "+r.Method+" on "+r.URL.Path)
	case !s.authorized(r):
		return s.unauthorized(), true
	case int64(len(c.body)) > s.cfg.MaxBody:
		return invalid(413, "Request body is too large")
	case !isJSON:
		return invalid(400, "We could not parse the JSON body of your request.")
	case c.model == "":
		return invalid(400, "you must provide a model parameter")
	case s.models != nil && !s.models[c.model]:
		return s.noModel(c.model), true
	case c.choices > maxChoices || c.dims > maxDims:
		return invalid(400, "n or dimensions is above the maximum")
	case c.stream:
		return invalid(400, "stream: the mock provider does not stream")
	}
	if m, found := scriptedFault(c.body, 1); found {
		if _, known := lookup(m); !known {
			return invalid(400, fmt.Sprintf("unknown fault %q", m.name))
		}
	}
	return reply{}, false
}

// serve judges a well-formed call: replay, refusal, fault or answer. The ledger is complete when it returns.
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
	if s.cfg.QuotaAfter > 0 && s.ledger.st.Billed >= int64(s.cfg.QuotaAfter) {
		rep := s.quota()
		s.endRefused(c, rep.status, "quota", keyed)
		return rep
	}
	if no := s.admit.ask(now, c.charge); no != nil {
		st := s.admit.standings(now)
		s.endRefused(c, http.StatusTooManyRequests, no.name, keyed)
		rep := s.refuse(c, no, &st)
		wait(ctx, s.cfg.RefuseDelay)
		return rep
	}
	c.inFlt = s.admit.inFlight
	s.ledger.admit(now, c, c.inFlt)
	m, scripted := scriptedFault(c.body, s.numbered(c))
	st := s.admit.standings(now) // headers say how things stood at admission, however late the answer
	s.mu.Unlock()

	rep, billed := s.perform(ctx, sc, c, m, scripted)
	if !rep.cut && rep.status != 0 {
		s.rates(&rep, &st)
	}
	s.settle(ctx, c, &rep, billed, keyed)
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
			}
		}
		switch what {
		case keyAgain:
			rep = reply{status: 200, body: s.build(sc, c)}
			rep.set("Idempotent-Replayed", "true")
			s.ledger.st.Duplicates++
			s.ledger.st.Answered++
		case keyAnother:
			rep = s.failure(400, "invalid_request_error", "idempotency_key_in_use", "Keys for idempotent requests can only be used with the same body.", nil)
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
	s.ledger.refuse(name)
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

// settle accounts for the end of an admitted call.
func (s *Server) settle(ctx context.Context, c *call, rep *reply, billed, keyed bool) {
	gone := ctx.Err() != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.era != s.era {
		return
	}
	now := s.now()
	used := int64(0)
	switch {
	case billed && gone:
		s.ledger.st.Abandoned++
	case billed && rep.aborts():
		s.ledger.st.Lost++
	case billed && rep.status == 200:
		s.ledger.st.Answered++
	}
	if billed {
		s.ledger.bill(c)
		used = int64(c.prompt + c.out)
	}
	unused := int64(0)
	if s.cfg.Refund {
		unused = c.charge - used
	}
	s.admit.done(now, c.at, unused)
	s.ledger.st.InFlight = s.admit.inFlight
	code := rep.code()
	if gone {
		code = 0
	}
	s.ledger.end(now, c, code, int(used), "")
	if keyed {
		s.keys.end(c, billed)
	}
}
