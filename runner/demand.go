package runner

import (
	"slices"
	"time"

	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
)

// total is, for each limit group, the sum of what operations take from its
// limits once they are answered: with what their prompts are billed and, where
// outputs are learned, with their outputs. Each is taken to go to the first
// target of its route.
func (v *variant) total() []limit.Cost {
	if v.sums != nil {
		return v.sums
	}
	s := v.scheduler(1)
	sums := make([]limit.Cost, len(s.lanes))
	var j job
	for i := range v.ops {
		v.fill(&j, &v.ops[i])
		l := s.lane(&j)
		l.charge(&j)
		usage := v.usage(&j)
		if j.tokens.MaxOutput == 0 || v.learned {
			j.reserved = min(j.reserved, usage.Output)
			j.cost = l.cut(l.chargeOf(&j, j.reserved))
		}
		if used, known := l.usedBy(&j, usage); known {
			j.cost = used
		}
		sum := &sums[s.group(j.lane)]
		v.heaviest = max(v.heaviest, j.cost.Tokens+j.cost.Output)
		sum.Requests++
		sum.Tokens += j.cost.Tokens
		sum.Output += j.cost.Output
	}
	v.sums = sums
	return sums
}

// group is the first lane that has the same limiter.
func (s *scheduler) group(at int) int {
	return slices.IndexFunc(s.lanes, func(l *lane) bool { return l.limiter == s.lanes[at].limiter })
}

// charged is the total in tokens.
func (v *variant) charged() (n int64) {
	for _, sum := range v.total() {
		n += sum.Tokens + sum.Output
	}
	return n
}

// cost is the price of what is expected, each operation at its first target,
// and what it would be at the dearest one of its route; ok is false if a price
// is not known.
func (v *variant) cost() (sum, dearest money.Amount, ok bool) {
	s := v.scheduler(1)
	var j job
	for i := range v.ops {
		v.fill(&j, &v.ops[i])
		l := s.lane(&j)
		if !l.Price.Known {
			return 0, 0, false
		}
		l.charge(&j)
		prompt, output := int64(j.tokens.Prompt), v.usage(&j).Output
		cost := l.Price.Cost(prompt, output)
		sum += cost
		if p := s.dearest(&j); j.way.choice() && p.Known {
			cost = p.Cost(prompt, output)
		}
		dearest += cost
	}
	return sum, dearest, len(v.ops) > 0 || v.Targets[0].Price.Known
}

// demand is how long each limit alone would take for all that is asked of it,
// in seconds at its steady rate. A day's limit that is not reached holds
// nothing up: it has its share of the day, negative.
func (v *variant) demand() []Share {
	all := []Share{}
	for i, sum := range v.total() {
		if sum.Requests == 0 {
			continue
		}
		t := &v.Targets[i]
		lim := v.limits(t.Limits)
		if n := v.concurrency(t.Group); n > 0 {
			lim.Concurrency = n // of the group's targets together
		}
		for _, s := range demand(&lim, sum, v.assume.Latency) {
			if len(v.Targets) > 1 {
				s.Target = t.name()
			}
			all = append(all, s)
		}
	}
	return all
}

func demand(lim *limit.Limits, sum limit.Cost, latency time.Duration) (all []Share) {
	const minute, day = 60, 86400
	add := func(name string, n int64, window, amount float64) {
		if n > 0 {
			all = append(all, Share{Limit: name, N: n, Use: window * amount / float64(n), window: window})
		}
	}
	daily := func(name string, n, amount int64) {
		if amount <= n {
			add(name, n, -1, float64(amount))
		} else {
			add(name, n, day, float64(amount))
		}
	}
	requests, tokens := float64(sum.Requests), sum.Tokens+sum.Output
	add("rpm", lim.RPM.N, minute, requests)
	add("tpm", lim.TPM.N, minute, float64(tokens))
	add("itpm", lim.ITPM.N, minute, float64(sum.Tokens))
	add("otpm", lim.OTPM.N, minute, float64(sum.Output))
	daily("rpd", lim.RPD.N, sum.Requests)
	daily("tpd", lim.TPD.N, tokens)
	if lim.Concurrency > 0 {
		add("concurrency", int64(lim.Concurrency), latency.Seconds(), requests)
	} else if sum.Requests > limit.DefaultCeiling {
		add("concurrency", limit.DefaultCeiling, latency.Seconds(), requests)
	}
	return all
}

// shared says that operations may go to another target than the first of
// their route.
func (v *variant) shared() bool {
	return v.elsewhere < 0 && slices.ContainsFunc(v.ways, func(w lightWay) bool { return w.route != nil && len(w.route.Lanes) > 1 })
}

// sustained is how long the batch takes at the steady rate of what binds, in
// seconds: without an end that leaves the limits unused, as far as it is known
// who takes what.
func (v *variant) sustained() float64 {
	longest := 0.0
	for _, s := range v.demand() {
		longest = max(longest, s.Use)
	}
	if took := v.took.Seconds(); longest == 0 || v.shared() && took < longest {
		return took
	}
	return longest
}

// binding names the limit that takes longest, and each limit's share of use:
// of the time that the batch takes, at least of the limit's own window. Input
// and output tokens a minute are tokens a minute. fits says that everything is
// within the limits at once.
func (v *variant) binding() (name string, shares []Share, fits bool) {
	name, fits = "none", true
	longest := 0.0
	shares = v.demand()
	for _, s := range shares {
		if s.Use > longest {
			name, longest = s.Limit, s.Use
		}
		fits = fits && s.Use <= s.window
	}
	for i := range shares {
		if s := &shares[i]; s.Use < 0 {
			s.Use = neat(-s.Use)
		} else if most := max(longest, s.window); most > 0 {
			s.Use = neat(s.Use / most)
		}
	}
	if name == "itpm" || name == "otpm" {
		name = "tpm"
	}
	return name, shares, fits
}

// lower is the closed-form bound: the longest of those of the token limits.
// What could go to several targets has none but its latency.
func (v *variant) lower() time.Duration {
	low := time.Duration(0)
	if len(v.ops) > 0 {
		low = v.assume.Latency
	}
	if v.shared() {
		return low
	}
	for i, sum := range v.total() {
		lim, tokens := v.limits(v.Targets[i].Limits), sum.Tokens+sum.Output
		b := estimate.Batch{Ops: sum.Requests, Tokens: tokens, RPD: lim.RPD.N, TPD: lim.TPD.N, Latency: v.assume.Latency}
		low = max(low, estimate.BucketBound(b).Duration)
		b = estimate.Batch{Ops: sum.Requests, RPM: lim.RPM.N, Concurrency: int64(lim.Concurrency), Latency: v.assume.Latency}
		for _, t := range []struct{ tokens, limit int64 }{{tokens, lim.TPM.N}, {sum.Tokens, lim.ITPM.N}, {sum.Output, lim.OTPM.N}} {
			b.Tokens, b.TPM = t.tokens, t.limit
			low = max(low, estimate.BucketBound(b).Duration)
		}
	}
	return low
}
