package fake

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
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
	groups map[string]*group
	ledger ledger
	keys   keyring
	shelf  shelf
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
	s.groups = newGroups(&s.cfg, s.now())
	s.ledger = newLedger(&s.cfg)
	s.keys = newKeyring(s.cfg.TrackMax)
	s.shelf = shelf{answers: map[string]stored{}, max: max(0, s.cfg.LogMax)}
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

// ServeHTTP answers the APIs and look-ups under any prefix, and /stats, /log, /reset and /v1/models.
func (s *Server) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	s.serveHTTP(w, q, func(r *reply) { r.write(q.Context(), w) })
}

// serveHTTP leaves the sending of a call's reply to its caller.
func (s *Server) serveHTTP(w http.ResponseWriter, q *http.Request, send func(*reply)) {
	switch p := q.URL.Path; {
	case p == "/stats":
		r := reply{status: 200, body: encode(s.Stats())}
		r.write(q.Context(), w)
	case p == "/log":
		w.Header().Set("Content-Type", "application/jsonl")
		e := json.NewEncoder(w)
		for _, entry := range s.Log() {
			if e.Encode(entry) != nil {
				return
			}
		}
	case p == "/reset" && q.Method == http.MethodPost:
		s.Reset()
		r := reply{status: 200, body: []byte("{}\n")}
		r.write(q.Context(), w)
	case strings.HasSuffix(p, "/models") && q.Method == http.MethodGet:
		r := s.modelList(q)
		r.write(q.Context(), w)
	default:
		if id, ok := lookupID(q); ok {
			r := s.lookUp(q, id)
			r.write(q.Context(), w)
			return
		}
		s.handle(q, send)
	}
}

func (s *Server) modelList(r *http.Request) reply {
	google := strings.Contains(r.URL.Path, "/v1beta")
	if !s.authorized(r) {
		c := call{dialect: s.cfg.Style}
		if google && !s.cfg.OneDialect {
			c.dialect = Gemini
		}
		return c.unauthorized()
	}
	names := s.cfg.Models
	if len(names) == 0 {
		names = []string{"mock"}
	}
	list := make([]map[string]any, len(names))
	for i, m := range names {
		if google {
			list[i] = map[string]any{"name": "models/" + m, "supportedGenerationMethods": []string{"generateContent", "embedContent"}}
			continue
		}
		list[i] = map[string]any{"id": m, "object": "model", "created": created, "owned_by": "mock"}
	}
	if google {
		return reply{status: 200, body: encode(map[string]any{"models": list})}
	}
	return reply{status: 200, body: encode(map[string]any{"object": "list", "data": list})}
}

func (s *Server) authorized(r *http.Request) bool {
	if s.cfg.APIKey == "" {
		return true
	}
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return slices.Contains([]string{
		bearer, r.Header.Get("X-Api-Key"), r.Header.Get("Api-Key"), r.Header.Get("X-Goog-Api-Key"), r.URL.Query().Get("key"),
	}, s.cfg.APIKey)
}
