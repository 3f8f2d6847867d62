package runner

import (
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
)

// report hands what headers said to the limiter, which knows no provider.
func report(r provider.Rate) limit.Report {
	w := func(p provider.Window) limit.Window {
		return limit.Window{Limit: p.Limit, Remaining: p.Remaining, ResetAfter: p.ResetAfter}
	}
	return limit.Report{
		Requests: w(r.Requests), Tokens: w(r.Tokens), Input: w(r.Input), Output: w(r.Output),
		RequestsDay: w(r.RequestsDay), TokensDay: w(r.TokensDay),
	}
}

// outcomes says which failures concern the limits; the others are limit.OK
// here, that is, no refusal.
var outcomes = map[provider.Kind]limit.Outcome{
	provider.KindRateLimited:    limit.RateLimit,
	provider.KindSlowDown:       limit.SlowDown,
	provider.KindConcurrency:    limit.Concurrent,
	provider.KindInFlightBudget: limit.InFlightBudget,
	provider.KindDailyLimit:     limit.Day,
	provider.KindSharedPool:     limit.SharedPool,
	provider.KindOverloaded:     limit.Overloaded,
	provider.KindLocal:          limit.Concurrent, // this machine has no descriptor or port left
}
