package route

import (
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// Condition is a reason to leave one target for another. Its String is the name
// used in the file.
type Condition uint8

// The conditions.
const (
	// Provider5xx: the server failed, or says that it is overloaded.
	Provider5xx Condition = iota
	// RateLimitAfterRetryBudget: refused for its rate until no attempt was left.
	RateLimitAfterRetryBudget
	// ContextLengthNeeded: prompt and output do not fit the model's window.
	ContextLengthNeeded
	// PrimaryUnavailable: not to be reached, stopped, parked, its circuit open,
	// or failing until no attempt was left.
	PrimaryUnavailable
	// BatchLowPriority: the operation has low priority.
	BatchLowPriority
	// RateLimited: refused for its rate, or it would have to wait for the limiter.
	RateLimited
	// Overloaded: too much to do, or a shared pool that is full.
	Overloaded
	// Timeout: no connection or no answer in time.
	Timeout
	// ContentPolicy: the input was refused by policy.
	ContentPolicy
	// SpendExhausted: no credit left, or not enough for this request.
	SpendExhausted
	// DailyLimit: a day's limit is used up.
	DailyLimit
	// CircuitOpen: the breaker lets nothing through.
	CircuitOpen
	conditions // their number
)

var conditionNames = [conditions]string{
	Provider5xx: "provider_5xx", RateLimitAfterRetryBudget: "rate_limit_after_retry_budget",
	ContextLengthNeeded: "context_length_needed", PrimaryUnavailable: "primary_unavailable",
	BatchLowPriority: "batch_low_priority", RateLimited: "rate_limited", Overloaded: "overloaded", Timeout: "timeout",
	ContentPolicy: "content_policy", SpendExhausted: "spend_exhausted", DailyLimit: "daily_limit",
	CircuitOpen: "circuit_open",
}

// String gives the name used in the file.
func (c Condition) String() string {
	if c >= conditions {
		return "unknown"
	}
	return conditionNames[c]
}

// ParseCondition is the inverse of String.
func ParseCondition(name string) (Condition, bool) {
	for c := range conditions {
		if conditionNames[c] == name {
			return c, true
		}
	}
	return 0, false
}

// Set is a set of conditions. The zero value is the empty one.
type Set uint16

// SetOf makes a set.
func SetOf(all ...Condition) Set {
	var s Set
	for _, c := range all {
		s |= 1 << c
	}
	return s
}

// Has reports that c is in the set.
func (s Set) Has(c Condition) bool { return s&(1<<c) != 0 }

// List gives the members in the order of their declaration.
func (s Set) List() []Condition {
	var all []Condition
	for c := range conditions {
		if s.Has(c) {
			all = append(all, c)
		}
	}
	return all
}

// String joins the names with ", ".
func (s Set) String() string {
	names := make([]string, 0, conditions)
	for _, c := range s.List() {
		names = append(names, c.String())
	}
	return strings.Join(names, ", ")
}

// Conditions tells which conditions a failed attempt meets. spent says that the
// operation has no attempt or time left on this target. While the outcome of an
// attempt is unknown and attempts are left, none is met: another provider might
// be paid for an answer that the first has given.
func Conditions(e *provider.Error, spent bool) Set {
	if e.Unknown() && !spent {
		return 0
	}
	met := kindConditions(e.Kind)
	switch {
	case !spent:
	case met.Has(RateLimited):
		met |= SetOf(RateLimitAfterRetryBudget)
	case met&SetOf(Provider5xx, Timeout) != 0, unanswered(e.Kind):
		met |= SetOf(PrimaryUnavailable)
	}
	return met
}

// unanswered lists the classes that no condition is made for; a target of which
// nothing else comes is not available.
func unanswered(k provider.Kind) bool {
	switch k {
	case provider.KindBroken, provider.KindTruncated, provider.KindOutcomeUnknown, provider.KindBadContentType,
		provider.KindEmptyAnswer, provider.KindConflict:
		return true
	default:
		return false
	}
}

// kindConditions are those that a class meets by itself.
func kindConditions(k provider.Kind) Set {
	switch k {
	case provider.KindServer, provider.KindBadGateway, provider.KindLoading:
		return SetOf(Provider5xx)
	case provider.KindOverloaded:
		return SetOf(Provider5xx, Overloaded)
	case provider.KindServerTimeout:
		return SetOf(Provider5xx, Timeout)
	case provider.KindRateLimited, provider.KindSlowDown, provider.KindConcurrency, provider.KindInFlightBudget:
		return SetOf(RateLimited)
	case provider.KindSharedPool:
		return SetOf(RateLimited, Overloaded)
	case provider.KindDailyLimit:
		return SetOf(RateLimited, DailyLimit, PrimaryUnavailable)
	case provider.KindTimeoutBeforeHeaders, provider.KindTimeoutMidBody, provider.KindTimeoutMidStream:
		return SetOf(Timeout)
	case provider.KindConnect, provider.KindTLS, provider.KindAuth, provider.KindRegion, provider.KindModelNotFound,
		provider.KindNoQuota:
		return SetOf(PrimaryUnavailable)
	case provider.KindConnectTimeout:
		return SetOf(PrimaryUnavailable, Timeout)
	case provider.KindQuotaExhausted:
		return SetOf(SpendExhausted, PrimaryUnavailable)
	case provider.KindRequestTooDear:
		return SetOf(SpendExhausted)
	case provider.KindContextLength:
		return SetOf(ContextLengthNeeded)
	case provider.KindContentPolicy:
		return SetOf(ContentPolicy)
	default:
		return 0
	}
}
