package fake

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"strconv"
	"time"
)

// Stats is what the server saw and did: its own account, taken from no word of the client's but the Idempotency-Key.
// "Minute" is Config.WindowLength. Times are the server's.
type Stats struct {
	Asked      int64            `json:"asked"`    // calls that arrived whole, refused ones and replays included
	Admitted   int64            `json:"admitted"` // calls that passed every limit
	Refused    map[string]int64 `json:"refused"`  // by limit: requests, tokens, input_tokens, output_tokens, requests_day, tokens_day, concurrency, too_large, quota
	RefusedSum int64            `json:"refused_total"`
	Rejected   int64            `json:"rejected"` // before the limits: bad JSON or path, wrong key or model, server down, Idempotency-Key of another body
	Answered   int64            `json:"answered"` // complete answers (200) handed to the connection, replays included
	Statuses   map[string]int64 `json:"statuses"` // what every call got: a status, or "aborted" for a cut or abandoned connection
	Faults     map[string]int64 `json:"faults"`   // faults played, by name; "error" and "lost" drawn by rate too

	Billed       int64 `json:"billed_calls"`  // answers computed, delivered or not
	BilledTokens int64 `json:"billed_tokens"` // prompt and output of those
	InputTokens  int64 `json:"billed_input_tokens"`
	OutputTokens int64 `json:"billed_output_tokens"`
	Charged      int64 `json:"charged_tokens"`
	Lost         int64 `json:"lost"`      // billed, and the answer did not go out whole: the connection was cut, or the stream ended early
	Abandoned    int64 `json:"abandoned"` // billed, the client had gone before the answer was ready
	Duplicates   int64 `json:"duplicates_suppressed"`

	Twice       Twice `json:"billed_twice"`        // by Idempotency-Key, or by body where there is none
	TwiceBodies Twice `json:"billed_twice_bodies"` // by body alone: equal input lines count here too
	Rekeyed     int64 `json:"rekeyed_bodies"`      // bodies that came under more than one Idempotency-Key: equal lines, or a key that changed
	Keys        int64 `json:"distinct_keys"`
	Bodies      int64 `json:"distinct_bodies"`
	Untracked   int64 `json:"untracked"` // calls not followed because Config.TrackMax was reached
	Redirects   int64 `json:"redirects_followed"`
	Lookups     int64 `json:"lookups"` // answers asked for by their id: these are no calls

	Models map[string]ModelStats `json:"models"` // the first 100 models, each by itself

	InFlight     int     `json:"in_flight"`
	MaxInFlight  int     `json:"max_in_flight"`
	WindowSecs   float64 `json:"window_seconds"`
	PeakRequests int64   `json:"peak_minute_requests"` // most calls admitted in any rolling minute
	PeakTokens   int64   `json:"peak_minute_tokens"`   // most tokens charged at admission in any rolling minute; refunds are not deducted
	PeakOutput   int64   `json:"peak_minute_output"`   // most output tokens generated in any rolling minute
	PeakAsked    int64   `json:"peak_minute_asked"`    // most calls asked, refused ones included

	First        time.Time `json:"first"`             // first call asked
	LastAdmitted time.Time `json:"last_admitted"`     // last call admitted
	Last         time.Time `json:"last"`              // last answer
	LastSend     float64   `json:"last_send_seconds"` // First to LastAdmitted: the makespan of performance bounds
	Makespan     float64   `json:"makespan_seconds"`  // First to Last
	LogDropped   int64     `json:"log_dropped"`       // entries beyond Config.LogMax
}

// Twice lists operations that were billed more than once.
type Twice struct {
	Operations int64    `json:"operations"`
	Extra      int64    `json:"extra_calls"` // billed calls beyond the first of each
	List       []string `json:"list"`        // keys or body hashes, the first 100
}

const maxTwice = 100

// Entry is one line of GET /log, written when the call has ended.
type Entry struct {
	Time     time.Time `json:"t"` // admission or refusal
	Ended    time.Time `json:"ended"`
	API      string    `json:"api"`
	Model    string    `json:"model,omitempty"`
	Key      string    `json:"key,omitempty"`
	Body     string    `json:"body"`   // first 8 bytes of its sha256
	Status   int       `json:"status"` // 0 = aborted
	Tokens   int64     `json:"tokens"` // charged
	Billed   int       `json:"billed"` // tokens
	Output   int       `json:"output"` // of those
	InFlight int       `json:"in_flight"`
	Refused  string    `json:"refused,omitempty"`
	Fault    string    `json:"fault,omitempty"`
}

// count is what is remembered of an operation.
type count struct {
	admitted, billed uint32
	key              uint64 // of its first call
	rekeyed          bool
}

// ledger keeps the account. Not safe for concurrent use.
type ledger struct {
	st                        Stats
	statuses                  [600]int64 // [0] = aborted
	asked, requests           rolling
	tokens, output            rolling
	models                    map[string]*ModelStats
	bodies                    map[uint64]count
	keys                      map[uint64]uint32 // times billed
	first, lastAdmitted, last int64
	log                       []Entry
	logMax, trackMax          int
}

func newLedger(c *Config) ledger {
	length := int64(c.WindowLength)
	return ledger{
		st:    Stats{Refused: map[string]int64{}, Faults: map[string]int64{}, WindowSecs: c.WindowLength.Seconds()},
		asked: rolling{length: length}, requests: rolling{length: length}, tokens: rolling{length: length}, output: rolling{length: length},
		models: map[string]*ModelStats{},
		keys:   map[uint64]uint32{}, bodies: map[uint64]count{},
		logMax: c.LogMax, trackMax: c.TrackMax,
	}
}

// ModelStats is the part of Stats that concerns one model.
type ModelStats struct {
	Asked    int64 `json:"asked"`
	Admitted int64 `json:"admitted"`
	Refused  int64 `json:"refused"`
	Answered int64 `json:"answered"`
	Billed   int64 `json:"billed_calls"`
	Tokens   int64 `json:"billed_tokens"`
	Output   int64 `json:"billed_output_tokens"`
}

const maxModels = 100

// model is the account of a call's model; one that is thrown away when there are too many, or the call names none.
func (l *ledger) model(c *call) *ModelStats {
	m := l.models[c.model]
	if m == nil {
		m = &ModelStats{}
		if c.model != "" && len(l.models) < maxModels {
			l.models[c.model] = m
		}
	}
	return m
}

func (l *ledger) answered(c *call) {
	l.st.Answered++
	l.model(c).Answered++
}

func (l *ledger) ask(now int64, c *call) (serial uint64) {
	if l.st.Asked == 0 {
		l.first = now
	}
	l.st.Asked++
	l.model(c).Asked++
	l.asked.add(now, 1)
	return uint64(l.st.Asked)
}

func (l *ledger) refuse(c *call, name string) {
	l.model(c).Refused++
	l.st.Refused[name]++
	l.st.RefusedSum++
}

// admit records an admitted call and numbers it among those with its body.
func (l *ledger) admit(now int64, c *call) {
	l.st.Admitted++
	l.model(c).Admitted++
	l.st.Charged += c.charge
	l.st.InFlight++
	c.inFlt = l.st.InFlight
	l.st.MaxInFlight = max(l.st.MaxInFlight, c.inFlt)
	l.lastAdmitted = now
	l.requests.add(now, 1)
	l.tokens.add(now, c.charge)
	n, known := l.bodies[c.bodyID]
	n.admitted++
	c.attempt = uint64(n.admitted)
	switch {
	case !known && len(l.bodies) >= l.trackMax:
		l.st.Untracked++
		return
	case !known:
		n.key = c.keyID
	case n.key != c.keyID && !n.rekeyed:
		n.rekeyed = true
		l.st.Rekeyed++
	}
	l.bodies[c.bodyID] = n
	if _, known := l.keys[c.keyID]; c.key != "" && !known && len(l.keys) < l.trackMax {
		l.keys[c.keyID] = 0
	}
}

func (l *ledger) bill(now int64, c *call) {
	l.st.Billed++
	l.st.InputTokens += int64(c.prompt)
	l.st.OutputTokens += int64(c.out)
	l.output.add(now, int64(c.out))
	m := l.model(c)
	m.Billed++
	m.Tokens += int64(c.prompt + c.out)
	m.Output += int64(c.out)
	l.st.BilledTokens += int64(c.prompt + c.out)
	n, followed := l.bodies[c.bodyID]
	if followed {
		n.billed++
		l.bodies[c.bodyID] = n
		l.st.TwiceBodies.note(n.billed, hexID(c.bodyID))
	}
	switch billed, followed := l.keys[c.keyID]; {
	case c.key == "":
		l.st.Twice.note(n.billed, hexID(c.bodyID))
	case followed:
		l.keys[c.keyID] = billed + 1
		l.st.Twice.note(billed+1, c.key)
	}
}

func (t *Twice) note(billed uint32, name string) {
	if billed < 2 {
		return
	}
	t.Extra++
	if billed == 2 {
		t.Operations++
		if len(t.List) < maxTwice {
			t.List = append(t.List, name)
		}
	}
}

// end records what a call got; status 0 = aborted.
func (l *ledger) end(now int64, c *call, status, billed int, refused string) {
	l.last = now
	if status < 0 || status >= len(l.statuses) {
		status = len(l.statuses) - 1
	}
	l.statuses[status]++
	if c.fault != "" {
		l.st.Faults[c.fault]++
	}
	if l.logMax < 0 {
		return
	}
	if len(l.log) >= l.logMax {
		l.st.LogDropped++
		return
	}
	at := c.at
	if at == 0 {
		at = now
	}
	l.log = append(l.log, Entry{
		Time: time.Unix(0, at).UTC(), Ended: time.Unix(0, now).UTC(), API: c.api, Model: c.model, Key: c.key[:min(len(c.key), 128)], Body: hexID(c.bodyID),
		Status: status, Tokens: c.charge, Billed: billed, Output: max(0, billed-c.prompt), InFlight: c.inFlt, Refused: refused, Fault: c.fault,
	})
}

// stats is a copy that shares nothing with the ledger.
func (l *ledger) stats() Stats {
	st := l.st
	st.Refused, st.Faults = maps.Clone(st.Refused), maps.Clone(st.Faults)
	st.Models = make(map[string]ModelStats, len(l.models))
	for name, m := range l.models {
		st.Models[name] = *m
	}
	st.Twice.List, st.TwiceBodies.List = append([]string{}, st.Twice.List...), append([]string{}, st.TwiceBodies.List...)
	st.Statuses = map[string]int64{}
	for code, n := range l.statuses {
		switch {
		case n == 0:
		case code == 0:
			st.Statuses["aborted"] = n
		default:
			st.Statuses[strconv.Itoa(code)] = n
		}
	}
	st.PeakAsked, st.PeakRequests, st.PeakTokens, st.PeakOutput = l.asked.peak, l.requests.peak, l.tokens.peak, l.output.peak
	st.Keys, st.Bodies = int64(len(l.keys)), int64(len(l.bodies))
	stamp := func(ns int64) time.Time {
		if ns == 0 {
			return time.Time{}
		}
		return time.Unix(0, ns).UTC()
	}
	st.First, st.LastAdmitted, st.Last = stamp(l.first), stamp(l.lastAdmitted), stamp(l.last)
	if l.lastAdmitted > 0 {
		st.LastSend = float64(l.lastAdmitted-l.first) / 1e9
	}
	if l.last > 0 {
		st.Makespan = float64(l.last-l.first) / 1e9
	}
	return st
}

func hexID(id uint64) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, id))
}
