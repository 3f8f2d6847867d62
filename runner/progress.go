package runner

import (
	"os"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/route"
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

	Limiting string // what limits now: rpm, tpm, concurrency, a pause; "" = nothing
	// The target that this is about, where there are several limit groups.
	LimitedAt string
	Until     time.Time // when that ends; zero = not known
	Elapsed   time.Duration
	// How long what is left takes, by the limits in force and the rate of this
	// run; 0 = nothing is known of it yet.
	Remaining time.Duration
	Cost      string // so far; "" = no price is known
	Stopping  bool

	// The level of pressure and the measure that reached it, "" = none; and how
	// many operations wait because of it.
	Pressure, Pressed string
	HeldBack          int
}

func (r *run) progress(now time.Time) Progress {
	s, p := r.sched, r.plan
	c := &s.count
	pr := Progress{
		Total: r.index.Len() - p.skipped, Done: p.done + p.dead + int(c.Completed+c.Failed),
		Dead: p.dead + int(c.Failed), InFlight: s.wire, Delayed: s.delayed(), Calls: c.Calls, RateLimited: c.RateLimited, CacheHits: c.CacheHits,
		Limiting: string(s.wait.Reason), LimitedAt: s.bindsAt(), Until: s.wait.Until, Elapsed: now.Sub(r.started), Stopping: s.stop != nil,
	}
	if span := now.Sub(c.FirstSent); !c.FirstSent.IsZero() && span >= time.Second {
		pr.Rate = float64(c.Completed+c.Failed) / span.Minutes()
	}
	for _, l := range s.limits {
		for _, u := range l.State(now).Uses {
			switch u.Name {
			case "rpm":
				pr.RequestsMinute, pr.RPM = pr.RequestsMinute+u.Used, pr.RPM+u.Limit
			case "tpm", "itpm":
				pr.TokensMinute, pr.TPM = pr.TokensMinute+u.Used, pr.TPM+u.Limit
			}
		}
	}
	if s.stop == nil {
		pr.Remaining = r.remaining(now, int64(pr.Total-pr.Done-p.held)-c.Held)
	}
	if p := &s.press; p.level > route.None {
		pr.Pressure, pr.Pressed = p.level.String(), p.reason
	}
	pr.HeldBack = s.heldBack()
	if r.priced() {
		pr.Cost = s.money.spent.String()
	}
	return pr
}

// snapshot is what status and results read while the run holds the checkpoint.
func (r *run) snapshot(now time.Time) *checkpoint.Snapshot {
	s := r.summary()
	snap := &checkpoint.Snapshot{
		Operations: s.Operations, PID: os.Getpid(), Started: r.started, Updated: now, InputName: r.book.meta.InputName, InputSHA: r.book.meta.InputSHA,
		Counts: map[string]int{
			checkpoint.Completed.String(): int(s.Completed), checkpoint.DeadLetter.String(): int(s.Failed),
			checkpoint.Unknown.String(): int(s.Unknown), checkpoint.InFlight.String(): r.sched.wire,
			checkpoint.Delayed.String(): r.sched.delayed(),
		},
		Degraded:    r.plan.degraded + int(r.sched.count.Degraded),
		Classes:     map[string]int{},
		InputTokens: r.plan.usage.Input + r.sched.count.Used.Input, OutputTokens: r.plan.usage.Output + r.sched.count.Used.Output,
		CachedTokens:    r.plan.usage.Cached + r.sched.count.Used.Cached,
		ReasoningTokens: r.plan.usage.Reasoning + r.sched.count.Used.Reasoning,
		TokensReserved:  s.TokensReserved, Calls: int(s.Calls), Retries: int(s.Retries), RateLimited: int(s.RateLimited),
		FirstSent: r.sched.count.FirstSent, LastFinished: r.sched.count.LastDone,
		OutputBytes: r.book.out.Size(), ErrorsBytes: r.book.errs.Size(), Waiting: string(r.sched.wait.Reason),
	}
	snap.Series = r.record.few(now)
	snap.Counts[checkpoint.Pending.String()] = max(0, int(s.Pending)-r.sched.wire-r.sched.delayed())
	for _, c := range s.Classes {
		snap.Classes[c.Name] = int(c.Count)
	}
	return snap
}

// publish writes the snapshots that come, away from the dispatcher, which no
// disk must hold up. Without one status and results wait for the run's end, so a
// failure to write it is told once and does not end the run.
func (r *run) publish(snaps <-chan *checkpoint.Snapshot) {
	told := false
	for snap := range snaps {
		if err := checkpoint.WriteSnapshot(r.Paths.Checkpoint, snap); err != nil && !told {
			told = true
			r.Notice("status is not published: " + err.Error())
		}
	}
}

// bindsAt is the target whose limits hold the run back, where there are several
// limit groups; "" = none is named.
func (s *scheduler) bindsAt() string {
	if s.wait.Reason == limit.Granted || s.waits == nil || len(s.limits) < 2 {
		return ""
	}
	return s.waits.name()
}
