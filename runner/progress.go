package runner

import (
	"math"
	"os"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/limit"
)

// Progress is the run as it stands, for whoever shows it.
type Progress struct {
	Total, Done int // operations that this run is about, and those that need nothing more
	Dead        int
	InFlight    int
	Delayed     int
	Rate        float64 // operations a minute that this run has finished, from its first call on; 0 = not known yet
	Calls       int64
	RateLimited int64
	CacheHits   int64 // operations served by a kept answer

	// Over the last minute, and the limits in force; 0 = none. Sums over the
	// limit groups that have one.
	RequestsMinute, RPM int64
	TokensMinute, TPM   int64

	Limiting string    // what limits now: rpm, tpm, concurrency, a pause; "" = nothing
	Until    time.Time // when that ends; zero = not known
	Elapsed  time.Duration
	// How long what is left takes, by the limits in force and the rate of this
	// run; 0 = nothing is known of it yet.
	Remaining time.Duration
	Cost      string // so far; "" = no price is known
	Stopping  bool
}

func (r *run) progress(now time.Time) Progress {
	s, p := r.sched, r.plan
	c := &s.count
	pr := Progress{
		Total: r.index.Len() - p.skipped, Done: p.done + p.dead + int(c.Completed+c.Failed),
		Dead: p.dead + int(c.Failed), InFlight: s.wire, Delayed: s.delayed(), Calls: c.Calls, RateLimited: c.RateLimited, CacheHits: c.CacheHits,
		Limiting: string(s.wait.Reason), Until: s.wait.Until, Elapsed: now.Sub(r.started), Stopping: s.stop != nil,
	}
	if span := now.Sub(c.FirstSent); !c.FirstSent.IsZero() && span >= time.Second {
		pr.Rate = float64(c.Completed+c.Failed) / span.Minutes()
	}
	var st limit.State
	for _, l := range s.limits {
		st = l.State(now)
		for _, u := range st.Uses {
			switch u.Name {
			case "rpm":
				pr.RequestsMinute, pr.RPM = pr.RequestsMinute+u.Used, pr.RPM+u.Limit
			case "tpm", "itpm":
				pr.TokensMinute, pr.TPM = pr.TokensMinute+u.Used, pr.TPM+u.Limit
			}
		}
	}
	if s.stop == nil {
		pr.Remaining = r.remaining(now, int64(pr.Total-pr.Done-p.held)-c.Held, st)
	}
	if r.priced() {
		pr.Cost = s.money.spent.String()
	}
	return pr
}

// remaining reckons how long so many operations take. What limits the run
// tells more than its average rate, which a wait of a minute falsifies; the
// rate of the time with calls on the wire serves where calls are slow or
// nothing is limited.
func (r *run) remaining(now time.Time, left int64, st limit.State) time.Duration {
	if left <= 0 {
		return 0
	}
	s, bound := r.sched, time.Duration(0)
	if len(s.limits) == 1 {
		unsent := max(0, left-int64(s.wire+s.storing))
		bound = underLimits(now, limit.Cost{Requests: unsent, Tokens: unsent * r.mean.Tokens, Output: unsent * r.mean.Output}, st, s.wait)
	}
	// Until a round of calls is answered, their number says nothing.
	if done := s.count.Completed - s.count.CacheHits; done > 0 && done >= int64(s.wire) {
		bound = max(bound, time.Duration(float64(r.worked)/float64(done)*float64(left)))
	}
	return bound
}

// underLimits is the time until the last of what is left may be sent. A limit
// gives a whole window's worth at once or spread over the window, whatever came
// before; the longer of the two is taken.
func underLimits(now time.Time, left limit.Cost, st limit.State, wait limit.Wait) (longest time.Duration) {
	for _, u := range st.Uses {
		n, span := left.Requests, time.Minute
		switch u.Name {
		case "tpm":
			n = left.Tokens + left.Output
		case "itpm":
			n = left.Tokens
		case "otpm":
			n = left.Output
		case "rpd":
			span = 24 * time.Hour
		case "tpd":
			n, span = left.Tokens+left.Output, 24*time.Hour
		}
		windows := func(n int64, each float64) time.Duration {
			return time.Duration(min(float64(n)/each*float64(span), math.MaxInt64/2))
		}
		if u.Pace > 0 {
			longest = max(longest, windows(n, u.Pace))
			continue
		}
		over := n - max(0, u.Limit-u.Used)
		if u.Limit == 0 || over <= 0 {
			continue
		}
		first := span // until the next window's worth
		if string(wait.Reason) == u.Name && wait.Until.After(now) {
			first = wait.Until.Sub(now)
		}
		longest = max(longest, windows(over, float64(u.Limit)), first+windows((over-1)/u.Limit, 1))
	}
	return longest
}

// publish writes the snapshot that status and results read while the run
// holds the checkpoint. Without it they wait for the run's end, so a failure
// to write it is told once and does not end the run.
func (r *run) publish(now time.Time) {
	s := r.summary()
	snap := &checkpoint.Snapshot{
		Operations: s.Operations, PID: os.Getpid(), Started: r.started, Updated: now, InputName: r.book.meta.InputName, InputSHA: r.book.meta.InputSHA,
		Counts: map[string]int{
			checkpoint.Completed.String(): int(s.Completed), checkpoint.DeadLetter.String(): int(s.Failed),
			checkpoint.Unknown.String(): int(s.Unknown), checkpoint.InFlight.String(): r.sched.wire,
			checkpoint.Delayed.String(): r.sched.delayed(),
		},
		Classes:     map[string]int{},
		InputTokens: r.plan.usage.Input + r.sched.count.Used.Input, OutputTokens: r.plan.usage.Output + r.sched.count.Used.Output,
		CachedTokens:    r.plan.usage.Cached + r.sched.count.Used.Cached,
		ReasoningTokens: r.plan.usage.Reasoning + r.sched.count.Used.Reasoning,
		TokensReserved:  s.TokensReserved, Calls: int(s.Calls), Retries: int(s.Retries), RateLimited: int(s.RateLimited),
		FirstSent: r.sched.count.FirstSent, LastFinished: r.sched.count.LastDone,
		OutputBytes: r.book.out.Size(), ErrorsBytes: r.book.errs.Size(), Waiting: string(r.sched.wait.Reason),
	}
	snap.Series = r.record.few()
	snap.Counts[checkpoint.Pending.String()] = max(0, int(s.Pending)-r.sched.wire-r.sched.delayed())
	for _, c := range s.Classes {
		snap.Classes[c.Name] = int(c.Count)
	}
	if err := checkpoint.WriteSnapshot(r.Paths.Checkpoint, snap); err != nil && !r.mute {
		r.mute = true
		r.Notice("status is not published: " + err.Error())
	}
}
