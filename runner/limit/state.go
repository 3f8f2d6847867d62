package limit

import "time"

// Reason is what keeps a call back, in words for progress lines. The zero Reason is that nothing does;
// a budget's own log gives its name: "rpm", "tpm", "itpm", "otpm", "rpd", "tpd".
type Reason string

const (
	Granted      Reason = ""
	AtServer     Reason = "remaining quota"          // as the server reports it
	AtEvenPace   Reason = "even pace"                // or the user's burst
	AtSpread     Reason = "round trip"               // the spread of sends within one
	AtCeiling    Reason = "concurrency"              // calls on the wire
	AfterRefusal Reason = "rate limited"             // our own pause after a refusal
	AfterHint    Reason = "provider's hint"          // the pause that a refusal asked for
	BehindProbe  Reason = "first call after a pause" // it goes alone
	UntilNewDay  Reason = "daily limit"              // a spent daily quota
)

// Never says that a call can never be granted: it is larger than a whole budget that the user gave.
// It returns that budget's name (a flag's: "tpm") and size.
func (l *Limiter) Never(c Cost) (limit string, n int64, never bool) {
	for d, need := range c.amounts() {
		if b := &l.b[d]; b.cap.Set && b.cap.N > 0 && need > b.cap.N {
			return b.name, b.cap.N, true
		}
	}
	return "", 0, false
}

// Peek is what Reserve would say, without taking anything.
func (l *Limiter) Peek(now time.Time, c Cost) Wait {
	l.tick(now)
	cost := c.amounts()
	return l.ask(&cost)
}

// Room is the largest cost that each budget could grant now. Requests is 0 while no call may go at
// all, whatever it costs (a pause, the pace, the ceiling).
func (l *Limiter) Room(now time.Time) Cost {
	l.tick(now)
	one := amounts{dReq: 1, dReqDay: 1}
	var room amounts
	for d := range l.b {
		b := &l.b[d]
		room[d] = max(b.room(l.now), 0)
		if b.base > 0 && b.tat > l.now {
			room[d] = 0 // paced evenly, and not due
		}
	}
	c := Cost{
		Requests: min(room[dReq], room[dReqDay]),
		Tokens:   min(room[dTok], room[dIn], room[dTokDay]),
		Output:   min(room[dOut], room[dTok], room[dTokDay]),
	}
	if w := l.ask(&one); w.Reason != Granted {
		c.Requests = 0
	}
	return c
}

// Balance says what the next request should weigh in tokens, so that requests and tokens of the
// rolling minute run out together, and how far off a request may be before another is better.
// What it should weigh is negative when tokens are ahead. ok is false unless both limits are known and
// the requests there are to choose from weigh between low and high with a fair share, tokens for each
// request, between the two: else one limit binds whatever the order.
func (l *Limiter) Balance(now time.Time, low, high int64) (want, slack int64, ok bool) {
	l.tick(now)
	req, tok := &l.b[dReq], &l.b[dTok]
	if tok.limit() == 0 {
		tok = &l.b[dIn]
	}
	r, t := req.limit(), tok.limit()
	if r == 0 || t == 0 {
		return 0, 0, false
	}
	fair := float64(t) / float64(r)
	if float64(high) <= fair || float64(low) >= fair {
		return 0, 0, false
	}
	// Tokens trail by one fair share: the last requests of a minute then find something to go with.
	want = int64(fair*float64(req.use())) - tok.use()
	return want, max(min(t/50, (t-tok.use())/8), int64(fair/2)), true
}

// Use is one budget as progress shows it.
type Use struct {
	Name    string  // the flag's: "rpm"
	Used    int64   // in the last minute, or 24 hours
	Limit   int64   // 0 = not known
	Learned bool    // the server's, not the user's
	Pace    float64 // the even pace in force, an amount each span; 0 = none
}

// State is what limits now.
type State struct {
	Uses             []Use // the budgets that have a limit or a pace
	Requests, Tokens int64 // charged in the last minute
	Ceiling          int   // calls that may be on the wire
	Wire             int   // calls that are, with those reserved
}

// State says what limits now.
func (l *Limiter) State(now time.Time) State {
	l.tick(now)
	s := State{Ceiling: l.conc.Ceiling(), Wire: l.conc.Wire(), Requests: l.b[dReq].use(), Tokens: l.b[dTok].use()}
	for d := range l.b {
		b := &l.b[d]
		u := Use{Name: b.name, Used: b.use(), Limit: b.limit(), Learned: !b.cap.Set}
		if u.Limit == 0 {
			u.Limit = b.srv.stated
		}
		if b.base > 0 {
			u.Pace = b.rate(l.scale)
		}
		if u.Limit > 0 || u.Pace > 0 {
			s.Uses = append(s.Uses, u)
		}
	}
	return s
}

// Concurrency is the limiter's own ceiling of calls on the wire.
func (l *Limiter) Concurrency() *Concurrency { return l.conc }
