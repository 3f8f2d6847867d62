package runner

import (
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/provider"
)

// counts are the figures of this run alone.
type counts struct {
	Calls, Retries, RateLimited, Uncapped int64
	Unreached                             int64 // attempts without a connection; none of Calls
	TokensReserved, TokensUsed            int64
	Used                                  checkpoint.Usage
	Completed, Failed, Held               int64
	Truncated, Refused, Suppressed        int64
	CacheHits, Found                      int64
	Resolved                              int64           // calls of unknown outcome of which a look-up told more
	Cleared                               map[string]bool // operations of which no call is in doubt any more
	Classes                               map[string]*classCount
	Fallbacks                             map[fallback]int64
	Degraded                              int64            // results that gave something up
	DegradedBy                            map[string]int64 // what, a result may count several times
	Unknown                               []string         // operation IDs, the first maxListed
	Unknowns                              int64
	SentAgain                             bool // an operation after a call of unknown outcome
	FirstSent, LastSent, LastDone         time.Time
	PeakRequests, PeakTokens              int64 // the most in any rolling minute, by the limiters

	Answered         int64         // calls with a whole answer,
	Latency          time.Duration // how long they took together,
	Charged, Settled sums          // and what those that state their usage took, and turned out to take
}

// classCount is what a summary says of one class of dead letters.
type classCount struct {
	N       int64
	Line    int // of the first
	Example string
}

// used adds what an answer says that it used.
func (c *counts) used(u provider.Usage) {
	c.TokensUsed += u.Input + u.Output
	c.Used.Input += u.Input
	c.Used.Output += u.Output
	c.Used.Cached += u.Cached
	c.Used.Reasoning += u.Reasoning
}

// degraded counts a result that gave something up.
func (c *counts) degraded(what []string) {
	if len(what) == 0 {
		return
	}
	c.Degraded++
	for _, w := range what {
		name, _, _ := strings.Cut(w, ":")
		c.DegradedBy[name]++
	}
}
