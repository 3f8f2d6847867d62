package limit

import (
	"math"
	"time"
)

// DefaultCeiling is the ceiling where none is given.
const DefaultCeiling = 1024

const (
	strainMemory = 16 // answers that strain looks back on
	strained     = 0.25
	firstCeiling = 8
	// judged is the ceiling from which "completions rise" is asked. Below it nothing queues yet, so
	// that is where the server's own latency is learned.
	judged = 32
	// telling is how many completions it takes to tell a rise from chance.
	telling = 64
	// retrial is how long a ceiling that brought no more completions stays before growth is tried
	// again, in round trips and at least in seconds. It doubles each time, up to a bound.
	retrial, lastRetrial = 8, 512
	// shortest is the least that a round trip counts for once the question is asked: in less, the
	// machine alone makes the counts jump. While the ceiling grows, a quarter of it is enough where in
	// that all on the wire have been answered several times: a fast server is not to wait.
	shortest, several = int64(100 * time.Millisecond), 4
	// rise is how many times the completions that a larger ceiling must bring to be kept at once, and
	// slightRise those that it must bring over some round trips, in which it stays. The first of them
	// does not count: connections are made in it.
	rise, slightRise = 1.25, 1.1
	trials           = 4
	// quickest is the most that one completion adds.
	quickest = 3.0
)

// Concurrency is the ceiling of calls on the wire. It starts at 8 and grows with each completion, by
// one where all take equally long, so that it doubles each round trip (the shortest seen), while it
// is what binds, completions rise and nothing is refused. A concurrency refusal or an overload cuts
// it once a round trip; after a calm it then grows by one a round trip. It reads no clock and is not
// safe for concurrent use.
type Concurrency struct {
	max     int
	ceiling float64
	wire    int // reserved or sent, and not yet settled

	slow    bool  // doubling; false after a cut
	rtt     int64 // smoothed time from sent to answered, ns; 0 = no answer yet
	least   int64 // the shortest of them, and
	trip    int64 // their mean, both while the ceiling was low
	cutAt   int64
	anew    int64 // when it began again; calls sent before do not let it grow
	calm    int64 // how long after a cut the ceiling stays
	stuckAt int64 // when growth was found useless; 0 = it was not
	retry   int64 // the retrial in force

	// The round trip being counted, and what the one before it came to.
	since     int64
	done      int
	began     float64 // the ceiling when it began
	full      bool    // the ceiling bound
	mixed     bool    // something else bound too
	lastRate  float64
	lastLimit float64
	trial     int     // round trips for which a larger ceiling has been tried without a clear rise
	tried     float64 // completions in all but the first of them, and
	triedFor  int64   // their time

	strain float64 // share of overloads among the last answers
}

// newConcurrency returns a ceiling that never goes above max; 0 means 1,024.
func newConcurrency(max int) *Concurrency {
	if max <= 0 {
		max = DefaultCeiling
	}
	first := float64(min(firstCeiling, max))
	return &Concurrency{max: max, ceiling: first, began: first, slow: true, cutAt: -never}
}

// Ceiling is how many calls may be on the wire now.
func (c *Concurrency) Ceiling() int { return int(c.ceiling) }

// Wire is how many are.
func (c *Concurrency) Wire() int { return c.wire }

// RTT is the smoothed time from sent to answered; 0 before the first answer.
func (c *Concurrency) RTT() time.Duration { return time.Duration(c.rtt) }

func (c *Concurrency) room() bool { return c.wire < int(c.ceiling) }

// restart begins again with few calls on the wire, and doubles from there: what larger ceilings brought or
// did not is no matter until it is there.
func (c *Concurrency) restart(now int64) {
	c.anew = now
	c.ceiling, c.slow = min(c.ceiling, firstCeiling), true
	c.stuckAt, c.trial = 0, 0
}

// overloaded counts a call that the server had no capacity for. A server that is always a little
// short of it (one answer in twenty, say) would be no better off with fewer calls, so the ceiling is
// cut only when overloads are a quarter of the last answers or so.
func (c *Concurrency) overloaded(now int64) {
	c.strain += (1 - c.strain) / strainMemory
	if c.strain > strained {
		c.cut(now, 0.5)
	}
}

// succeeded counts a call that was sent at sent and answered now.
func (c *Concurrency) succeeded(sent, now int64) {
	c.strain -= c.strain / strainMemory
	rtt := max(now-sent, 1)
	if c.rtt == 0 {
		c.rtt, c.least = rtt, rtt
	}
	if c.ceiling < judged || c.trip == 0 {
		c.least, c.trip = min(c.least, rtt), c.rtt
	}
	c.rtt += (rtt - c.rtt) / 8
	c.done++
	if c.done == 1 && c.since == 0 {
		c.since = now
	}
	if now-c.since >= max(c.trip, c.shortest()) && (c.done >= telling || c.ceiling < judged) {
		c.round(now)
	}
	if sent < c.anew || !c.full || c.stuckAt != 0 || c.trial > 0 || now-c.cutAt < c.calm {
		return
	}
	step := 1 / c.ceiling
	if c.slow {
		step = min(math.Exp2(float64(c.trip)/float64(c.least))-1, quickest)
	}
	c.ceiling = min(c.ceiling+step, 2*max(c.began, judged), float64(c.max))
}

func (c *Concurrency) shortest() int64 {
	if c.stuckAt == 0 && c.trial == 0 && float64(c.done) >= several*c.ceiling {
		return shortest / 4
	}
	return shortest
}

// round closes a round trip. A ceiling that grew by half and brings a quarter more completions grows
// on; one that does not is tried for some round trips, and goes back unless it brings a tenth more.
func (c *Concurrency) round(now int64) {
	rate := float64(c.done) / float64(max(now-c.since, 1))
	switch {
	case !c.full || c.mixed:
		c.trial = 0
	case c.stuckAt != 0:
		c.lastRate += (rate - c.lastRate) / 8
		if wait := c.retry * max(c.rtt, int64(time.Second)/retrial); now-c.stuckAt > wait {
			c.stuckAt, c.lastLimit = 0, c.ceiling
		}
	case c.lastRate == 0 || c.ceiling < judged:
		c.keep(rate)
	case c.ceiling < 1.5*c.lastLimit: // not enough to tell
	case rate >= rise*c.lastRate && c.trial == 0:
		c.keep(rate)
	default:
		c.try(now, rate)
	}
	c.since, c.done, c.began, c.mixed = now, 0, c.ceiling, false
	c.full = !c.room()
}

// keep takes the ceiling for one that is worth having.
func (c *Concurrency) keep(rate float64) {
	c.lastRate, c.lastLimit, c.retry, c.trial = rate, c.ceiling, retrial/2, 0
}

// try counts a round trip of a ceiling of which it is not clear whether it brings more.
func (c *Concurrency) try(now int64, rate float64) {
	if c.trial++; c.trial == 1 {
		c.tried, c.triedFor = 0, 0
		// Of calls that are as long as a round trip, those answered in it went out under the ceiling before,
		// and those of lastRate under a lower one yet; but a server that shares itself out over its calls
		// answers at the larger one's rate already. So the measure is the middle of the two.
		if c.trip >= shortest && c.began <= c.lastLimit {
			c.lastRate = max(c.lastRate, (c.lastRate+rate)/2)
		}
		return
	}
	c.tried, c.triedFor = c.tried+float64(c.done), c.triedFor+now-c.since
	switch rate := c.tried / float64(max(c.triedFor, 1)); {
	case c.trial < trials && rate >= c.lastRate: // not enough to tell
	case rate >= slightRise*c.lastRate:
		c.keep(rate)
	default:
		c.ceiling, c.stuckAt, c.retry, c.trial = c.lastLimit, now, min(2*c.retry, lastRetrial), 0
	}
}

// cut lowers the ceiling to keep times the calls on the wire, once a round trip. After it the ceiling
// stays for some round trips: the more, the sooner it had to be cut again.
func (c *Concurrency) cut(now int64, keep float64) {
	if now-c.cutAt < c.rtt {
		return
	}
	if now-c.cutAt < 4*c.calm {
		c.calm = min(2*c.calm, 64*c.rtt)
	} else {
		c.calm = 4 * c.rtt
	}
	c.cutAt, c.slow, c.stuckAt, c.trial = now, false, 0, 0
	c.ceiling = max(1, min(c.ceiling, float64(c.wire+1))*keep)
}
