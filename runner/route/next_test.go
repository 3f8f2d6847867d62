package route

import (
	"testing"

	"github.com/llmbatch/llmbatch/runner/provider"
)

func TestNextOnTheSeedRoute(t *testing.T) {
	r := resolve(t, load(t, seedTask), "support_ticket_summary", Defaults{})
	const claude, gpt, gemini, qwen = 0, 1, 2, 3
	low := SetOf(BatchLowPriority)
	for _, c := range []struct {
		name   string
		ask    Ask
		states map[int]State
		want   int // -1 = none
		reason string
	}{
		{name: "all is well", want: claude},
		{name: "server error", ask: Ask{Met: SetOf(Provider5xx), Tried: Tried(0).With(claude)}, want: gpt, reason: "provider_5xx"},
		{name: "refused within the budget", ask: Ask{Met: SetOf(RateLimited), Tried: Tried(0).With(claude)}, want: -1, reason: "anthropic/claude-sonnet-4.6 has failed; " +
			"openai/gpt-5.5 takes over only on provider_5xx, rate_limit_after_retry_budget; " +
			"google/gemini-3 takes over only on context_length_needed, primary_unavailable; open_model_cluster/qwen takes over only on batch_low_priority"},
		{name: "refused beyond the budget", ask: Ask{Met: SetOf(RateLimited, RateLimitAfterRetryBudget), Tried: Tried(0).With(claude)}, want: gpt, reason: "rate_limit_after_retry_budget"},
		{name: "too long", states: map[int]State{claude: {TooLong: true}}, want: gemini, reason: "context_length_needed"},
		{name: "too long for all", states: map[int]State{claude: {TooLong: true}, gemini: {TooLong: true}}, want: -1, reason: "anthropic/claude-sonnet-4.6 has too small a window; " +
			"openai/gpt-5.5 takes over only on provider_5xx, rate_limit_after_retry_budget; google/gemini-3 has too small a window; " +
			"open_model_cluster/qwen takes over only on batch_low_priority"},
		{name: "stopped", states: map[int]State{claude: {Halted: provider.KindAuth}}, want: gemini, reason: "primary_unavailable"},
		{name: "open circuit", states: map[int]State{claude: {Open: true}}, want: gemini, reason: "primary_unavailable"},
		{name: "unusable", states: map[int]State{claude: {Unusable: true}}, want: gemini, reason: "primary_unavailable"},
		{name: "waits: nobody listed that", states: map[int]State{claude: {Waits: true}}, want: claude, reason: "anthropic/claude-sonnet-4.6 waits for its limit"},
		{name: "both fallbacks meet", ask: Ask{Met: SetOf(Provider5xx, PrimaryUnavailable), Tried: Tried(0).With(claude)}, want: gpt, reason: "provider_5xx"},
		{name: "the first fallback has failed as well", ask: Ask{Met: SetOf(Provider5xx, PrimaryUnavailable), Tried: Tried(0).With(claude).With(gpt)}, want: gemini, reason: "primary_unavailable"},
		{name: "the fallback waits", ask: Ask{Met: SetOf(Provider5xx), Tried: Tried(0).With(claude)}, states: map[int]State{gpt: {Waits: true}}, want: gpt, reason: "provider_5xx"},
		{name: "the fallback is halted", ask: Ask{Met: SetOf(Provider5xx), Tried: Tried(0).With(claude)}, states: map[int]State{gpt: {Halted: provider.KindAuth}}, want: gemini, reason: "primary_unavailable"},
		{name: "low priority without pressure", ask: Ask{Met: low}, want: claude},
		{name: "low priority under light pressure", ask: Ask{Met: low, Level: Light}, want: claude},
		{name: "low priority under moderate pressure", ask: Ask{Met: low, Level: Moderate}, want: qwen, reason: "moderate pressure"},
		{name: "normal priority under severe pressure", ask: Ask{Level: Severe}, want: claude},
		{name: "the smaller model is halted", ask: Ask{Met: low, Level: Severe}, states: map[int]State{qwen: {Halted: provider.KindAuth}}, want: claude},
		{name: "the smaller model waits", ask: Ask{Met: low, Level: Severe}, states: map[int]State{qwen: {Waits: true}}, want: claude},
		{name: "the smaller model waits and no other runs", ask: Ask{Met: low, Level: Severe}, states: map[int]State{
			claude: {Open: true}, gemini: {Open: true}, qwen: {Waits: true},
		}, want: qwen, reason: "severe pressure"},
		{name: "low priority is no failure", ask: Ask{Met: low | SetOf(RateLimited), Tried: Tried(0).With(claude)}, want: -1, reason: "anthropic/claude-sonnet-4.6 has failed; " +
			"openai/gpt-5.5 takes over only on provider_5xx, rate_limit_after_retry_budget; " +
			"google/gemini-3 takes over only on context_length_needed, primary_unavailable; open_model_cluster/qwen takes over only on batch_low_priority"},
	} {
		c.ask.States = make([]State, len(r.Targets))
		for i, s := range c.states {
			c.ask.States[i] = s
		}
		index, reason, ok := r.Next(c.ask)
		if index != c.want || reason != c.reason || ok != (c.want >= 0) {
			t.Errorf("%s: got %d, %q, %v\nwant %d, %q", c.name, index, reason, ok, c.want, c.reason)
		}
	}
}

func TestNextByGroup(t *testing.T) {
	c := load(t, `
tasks:
  default:
    primary: {provider: openrouter, model: "a:free"}
    fallbacks:
      - {provider: openrouter, model: "b:free", when: [rate_limited, spend_exhausted, daily_limit]}
      - {provider: groq, model: c, when: [rate_limited, spend_exhausted, circuit_open, daily_limit]}
    degrade_to: {provider: ollama, model: d}
`)
	r := resolve(t, c, "", Defaults{})
	for _, s := range []struct {
		name   string
		first  State
		level  Level
		want   int
		reason string
	}{
		{"waiting", State{Waits: true}, None, 2, "rate_limited"},
		{"parked for the day", State{Halted: provider.KindDailyLimit}, None, 2, "rate_limited, daily_limit"},
		{"no credit left", State{Halted: provider.KindQuotaExhausted}, None, 2, "spend_exhausted"},
		{"open circuit", State{Open: true}, None, 2, "circuit_open"},
		{"too long", State{TooLong: true}, None, -1, "openrouter/a:free has too small a window; openrouter/b:free takes over only on rate_limited, spend_exhausted, daily_limit; " +
			"groq/c takes over only on rate_limited, spend_exhausted, daily_limit, circuit_open; ollama/d takes over only on pressure"},
		{"any pressure", State{}, Moderate, 3, "moderate pressure"},
	} {
		states := make([]State, len(r.Targets))
		states[0] = s.first
		index, reason, ok := r.Next(Ask{States: states, Level: s.level})
		if index != s.want || reason != s.reason || ok != (s.want >= 0) {
			t.Errorf("%s: got %d, %q, want %d, %q", s.name, index, reason, s.want, s.reason)
		}
	}
	// The whole group is out, whichever member met the limit.
	states := make([]State, len(r.Targets))
	states[1].Halted = provider.KindDailyLimit
	if index, reason, _ := r.Next(Ask{States: states}); index != 2 {
		t.Errorf("a member is parked: got %d, %q, want 2", index, reason)
	}
}

func TestDegradeAt(t *testing.T) {
	r := resolve(t, load(t, everything+"  "), "tag", Defaults{})
	if r.Degrade != 3 || r.DegradeAt != Moderate {
		t.Errorf("got %d at %s, want 3 at moderate", r.Degrade, r.DegradeAt)
	}
}

func TestConditions(t *testing.T) {
	for _, c := range []struct {
		err         provider.Error
		first, last string // with attempts left, and without
	}{
		{provider.Error{Kind: provider.KindServer}, "provider_5xx", "provider_5xx, primary_unavailable"},
		{provider.Error{Kind: provider.KindOverloaded}, "provider_5xx, overloaded", "provider_5xx, primary_unavailable, overloaded"},
		{provider.Error{Kind: provider.KindServerTimeout, Sent: true}, "provider_5xx, timeout", "provider_5xx, primary_unavailable, timeout"},
		{provider.Error{Kind: provider.KindRateLimited}, "rate_limited", "rate_limit_after_retry_budget, rate_limited"},
		{provider.Error{Kind: provider.KindSharedPool}, "rate_limited, overloaded", "rate_limit_after_retry_budget, rate_limited, overloaded"},
		{provider.Error{Kind: provider.KindDailyLimit}, "primary_unavailable, rate_limited, daily_limit", "rate_limit_after_retry_budget, primary_unavailable, rate_limited, daily_limit"},
		{provider.Error{Kind: provider.KindTimeoutBeforeHeaders, Sent: true}, "", "primary_unavailable, timeout"},
		{provider.Error{Kind: provider.KindBroken, Sent: true}, "", "primary_unavailable"},
		{provider.Error{Kind: provider.KindTruncated, Sent: true}, "", "primary_unavailable"},
		{provider.Error{Kind: provider.KindOutcomeUnknown}, "", "primary_unavailable"},
		{provider.Error{Kind: provider.KindConnect}, "primary_unavailable", "primary_unavailable"},
		{provider.Error{Kind: provider.KindConnectTimeout}, "primary_unavailable, timeout", "primary_unavailable, timeout"},
		{provider.Error{Kind: provider.KindAuth}, "primary_unavailable", "primary_unavailable"},
		{provider.Error{Kind: provider.KindQuotaExhausted}, "primary_unavailable, spend_exhausted", "primary_unavailable, spend_exhausted"},
		{provider.Error{Kind: provider.KindRequestTooDear}, "spend_exhausted", "spend_exhausted"},
		{provider.Error{Kind: provider.KindContextLength}, "context_length_needed", "context_length_needed"},
		{provider.Error{Kind: provider.KindContentPolicy}, "content_policy", "content_policy"},
		{provider.Error{Kind: provider.KindInvalid}, "", ""},
		{provider.Error{Kind: provider.KindCancelled, Sent: true}, "", ""},
		{provider.Error{Kind: provider.KindLocal}, "", ""},
	} {
		if got := Conditions(&c.err, false).String(); got != c.first {
			t.Errorf("%s with attempts left: got %q, want %q", c.err.Kind, got, c.first)
		}
		if got := Conditions(&c.err, true).String(); got != c.last {
			t.Errorf("%s without: got %q, want %q", c.err.Kind, got, c.last)
		}
	}
}

func TestConditionNames(t *testing.T) {
	for c := range conditions {
		if got, ok := ParseCondition(c.String()); !ok || got != c {
			t.Errorf("got %v for %s", got, c)
		}
	}
	if _, ok := ParseCondition("x"); ok || conditions.String() != "unknown" {
		t.Error("an unknown condition passes")
	}
}
