package runner

import (
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
)

// remaining reckons how long so many operations take. With one limiter its
// log tells when there will be room for what is left; the rate of this run
// serves beside it. Where several limiters share the work it serves alone, but for
// the moment before which nothing goes. As long as calls have failed and none has
// been answered, nothing is known: the provider may be down.
func (r *run) remaining(now time.Time, left int64) time.Duration {
	s, c := r.sched, &r.sched.count
	if left <= 0 || !c.LastDone.IsZero() && c.Answered+c.Found == 0 {
		return 0
	}
	done := c.Completed - c.CacheHits + c.Failed
	if len(s.limits) > 1 {
		if done == 0 {
			return 0
		}
		took := scaled(now.Sub(r.started), left, done)
		if idle := s.wait.Until.Sub(now); s.wire == 0 && idle > 0 {
			took = max(took, idle+r.trip()) // nothing goes before
		}
		return took
	}
	l, trip := s.limits[0], r.trip()
	unsent := max(0, left-int64(s.wire+s.storing))
	bound := max(0, c.LastSent.Add(trip).Sub(now)) // of what is on the wire
	if unsent > 0 {
		cost := s.waiting()
		if ahead := unsent - cost.Requests; ahead > 0 {
			mean := r.mean()
			cost.Requests, cost.Tokens, cost.Output = unsent, cost.Tokens+ahead*mean.Tokens, cost.Output+ahead*mean.Output
		}
		bound = max(bound, l.Horizon(now, c.expect(cost, s.open, s.wire+s.storing), trip))
		if last := s.due(); !last.IsZero() {
			bound = max(bound, last.Sub(now)+trip)
		}
		for _, lane := range s.lanes {
			bound = max(bound, lane.paused.Sub(now))
		}
	}
	// Where many calls may be on the wire, answers tell what this machine can do.
	if ceiling := int64(l.Concurrency().Ceiling()); ceiling >= 64 && done >= 10*ceiling {
		bound = max(bound, scaled(r.worked, left, done))
	}
	if trip == 0 {
		return bound
	}
	return max(bound, least)
}

// least is what a call takes that could end at any moment.
const least = 100 * time.Millisecond

func scaled(took time.Duration, left, done int64) time.Duration {
	return time.Duration(float64(took) / float64(done) * float64(left))
}

// sums adds up costs.
type sums limit.Cost

func (s *sums) add(c limit.Cost) {
	s.Requests += c.Requests
	s.Tokens += c.Tokens
	s.Output += c.Output
}

// expect makes of what is reserved what it will come to, as it has so far: some
// calls fail and are made again, and answers correct what was charged.
func (c *counts) expect(cost limit.Cost, open sums, under int) limit.Cost {
	part := func(n, num, den int64) int64 {
		if num == 0 || den == 0 {
			return n
		}
		return int64(float64(n) * float64(num) / float64(den))
	}
	// What is on the wire counts as charged, and its answers will correct it too.
	cost.Tokens = part(cost.Tokens+open.Tokens, c.Settled.Tokens, c.Charged.Tokens) - open.Tokens
	cost.Output = part(cost.Output+open.Output, c.Settled.Output, c.Charged.Output) - open.Output
	calls, done := c.Calls-int64(under), c.Completed-c.CacheHits+c.Failed
	if done < 20 || calls <= done {
		return cost
	}
	return limit.Cost{Requests: part(cost.Requests, calls, done), Tokens: part(cost.Tokens, calls, done), Output: part(cost.Output, calls, done)}
}

// trip is how long a call takes: as answers of this run show, else as those of
// earlier runs; 0 = not known.
func (r *run) trip() time.Duration {
	if c := &r.sched.count; c.Answered > 0 {
		return c.Latency / time.Duration(c.Answered)
	}
	if r.plan.calls > 0 {
		return r.plan.latency / time.Duration(r.plan.calls)
	}
	return 0
}

// waiting is what all that is queued takes from the limits.
func (s *scheduler) waiting() limit.Cost {
	var sum sums
	for _, l := range s.lanes {
		l.ready.Each(func(j *job) { sum.add(j.cost) })
		l.delayed.Each(func(j *job) {
			c, _ := l.costOf(j)
			sum.add(c)
		})
	}
	return limit.Cost(sum)
}

// due is when the last of those that wait for their time may go; zero = none
// waits.
func (s *scheduler) due() (last time.Time) {
	for _, l := range s.lanes {
		l.delayed.Each(func(j *job) {
			if j.op.NotBefore.After(last) {
				last = j.op.NotBefore
			}
		})
	}
	return last
}

// mean is what an operation that is not read yet takes from the limits, by a
// sample and by what is known of outputs now.
func (r *run) mean() (c limit.Cost) {
	for _, j := range r.sampled {
		cost, _ := r.sched.lane(j).costOf(j)
		c.Tokens += cost.Tokens
		c.Output += cost.Output
	}
	n := int64(max(1, len(r.sampled)))
	return limit.Cost{Requests: 1, Tokens: c.Tokens / n, Output: c.Output / n}
}
