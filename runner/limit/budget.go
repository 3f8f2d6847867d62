package limit

import (
	"math"
	"time"
)

const (
	never  = math.MaxInt64 / 4 // an instant that does not come
	minute = time.Minute
	day    = 24 * time.Hour
	// guard is added to each charge's stay: two calls may take unequal time on their way, so the
	// server may see them closer together than they were sent.
	guard = 250 * time.Millisecond
	// lag is how late a wake-up may be and still be credited from the instant when the grant
	// became payable. For tokens it is the even pace's safety over a second; for requests the
	// rolling second is bounded apart (Limiter.slice), so that a busy machine may catch up.
	lag     = int64(30 * time.Millisecond)
	longLag = int64(2 * time.Second)
	// evenly is the share of a known limit that the even pace uses: a server that counts in
	// one-second slices would otherwise refuse each call that arrives a little early.
	evenly = 0.97
)

// budget is one limit: the user's cap or the learned one, the log of charges, and the server's view.
type budget struct {
	name string
	span int64
	cap  Cap
	late bool // charged when the call is settled, not when it is sent

	log  window
	held int64 // reserved and not yet in the log
	sent int64 // all that ever went into the log
	wire int64 // what of it is not answered yet
	srv  server

	base float64 // the even pace before its scale, an amount each span; 0 = not paced evenly
	tat  int64   // when the even pace, or the burst's bucket, has been paid for
}

func newBudget(name string, span time.Duration, cap Cap, late bool) budget {
	b := budget{name: name, span: int64(span), cap: cap, late: late}
	b.log = window{hold: int64(span + guard), grain: int64(10 * time.Millisecond)}
	if span == day {
		b.log.grain = int64(minute)
	}
	b.cap.N = clamp(cap.N)
	return b
}

// none says that the user wants no such limit.
func (b *budget) none() bool { return b.cap.Set && b.cap.N == 0 }

// limit is the cap in force: the user's, else the one that the server's answers state; 0 = none known.
func (b *budget) limit() int64 {
	switch {
	case b.cap.Set:
		return b.cap.N
	case b.srv.known && !b.srv.long:
		return b.srv.limit
	}
	return 0
}

// use is what counts against the limit now.
func (b *budget) use() int64 { return b.log.sum + b.held }

// room is what may be taken now, however it is paced; tooMuch if nothing is known.
func (b *budget) room(now int64) int64 {
	room := int64(tooMuch)
	if b.none() {
		return room
	}
	if n := b.limit(); n > 0 && !b.bucket() {
		room = n - b.use()
	}
	if r, said := b.srv.room(now, b.span, b.sent, b.log.sum, b.wire); said {
		room = min(room, r-b.held)
	}
	return room
}

// bucket says that the server's own bucket leads: a learned limit with visible continuous refill.
func (b *budget) bucket() bool { return !b.cap.Set && b.srv.refill == continuous }

// ready is the first instant at which n may be taken (at most now: at once; never: when a call is
// settled), and whether it is the server's report that says so.
func (b *budget) ready(now, n int64) (at int64, told bool) {
	if n == 0 || b.none() {
		return now, false
	}
	at = now
	if limit := b.limit(); limit > 0 && !b.bucket() && b.use()+n > limit {
		// More than a whole learned limit goes alone: the server is the one to say no.
		if over := b.use() + n - limit; !b.cap.Set && n > limit {
			at = b.alone(now)
		} else {
			at = b.log.frees(over)
		}
	}
	r, said := b.srv.room(now, b.span, b.sent, b.log.sum, b.wire)
	if !said {
		return at, false
	}
	if b.srv.limit > 0 {
		n = min(n, b.srv.limit)
	}
	if lack := n - (r - b.held); lack > 0 {
		if opens := b.srv.opens(now, b.span, lack, &b.log); opens > at {
			return opens, true
		}
	}
	return at, false
}

func (b *budget) alone(now int64) int64 {
	if b.use() == 0 {
		return now
	}
	return b.log.frees(b.use())
}

// due is when the even pace (or the burst, in requests) lets the next call go.
func (b *budget) due(scale float64, burst int64) int64 {
	switch gap := b.gap(scale, burst); {
	case gap == 0:
		return -never
	case b.base > 0 || burst == 0:
		return b.tat
	default:
		return b.tat - int64(gap*float64(burst-1))
	}
}

// gap is the time that one unit takes at the pace in force, in ns; 0 = no pace.
func (b *budget) gap(scale float64, burst int64) float64 {
	switch n := b.limit(); {
	case b.none():
		return 0
	case b.base > 0:
		return float64(b.span) / b.rate(scale)
	case burst > 0 && n > 0:
		return float64(b.span) / float64(n)
	case burst > 0:
		return float64(time.Second) / float64(burst)
	}
	return 0
}

// rate is the even pace in force, an amount each span. A cap of the user's is never paced above its
// even share.
func (b *budget) rate(scale float64) float64 {
	r := b.base * scale
	if b.cap.Set {
		r = min(r, evenly*float64(b.cap.N))
	}
	return max(r, 0.1)
}

// pay charges the pace with n, from the instant when it became payable.
func (b *budget) pay(now, n int64, scale float64, burst int64) {
	gap := b.gap(scale, burst)
	if gap == 0 {
		return
	}
	late := lag
	if b.base > 0 && b.name == "rpm" && gap < float64(time.Second/2) {
		late = longLag
	}
	b.tat = max(b.tat, now-late) + int64(min(gap*float64(n), float64(day)))
}

// put moves n from held into the log and returns its slot.
func (b *budget) put(at, held, n int64) int64 {
	b.held -= held
	b.sent += n
	if n == 0 {
		return -1
	}
	return b.log.add(at, n)
}
