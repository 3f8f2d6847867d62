package openai

import (
	"net/http"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// byWord classifies by a provider's own word, whichever machine field it
// stands in. Words that only repeat the status ("invalid_request_error",
// "api_error") are absent. Values that need a second look: rate limits and
// payment, see refine.
var byWord = map[string]provider.Kind{
	// OpenAI and those that copy its codes.
	"insufficient_quota":                provider.KindQuotaExhausted,
	"credit_balance_exhausted":          provider.KindQuotaExhausted,
	"organization_spend_limit_exceeded": provider.KindQuotaExhausted,
	"project_spend_limit_exceeded":      provider.KindQuotaExhausted,
	"organization_usage_limit_exceeded": provider.KindQuotaExhausted,
	"billing_hard_limit_reached":        provider.KindQuotaExhausted,
	"billing_not_active":                provider.KindQuotaExhausted,
	"billing_error":                     provider.KindQuotaExhausted,
	"enforced_spend_limit_reached":      provider.KindQuotaExhausted,

	"context_length_exceeded":              provider.KindContextLength,
	"exceed_context_size_error":            provider.KindContextLength,
	"content_policy_violation":             provider.KindContentPolicy,
	"content_filter":                       provider.KindContentPolicy,
	"ResponsibleAIPolicyViolation":         provider.KindContentPolicy,
	"invalid_prompt":                       provider.KindContentPolicy,
	"bio_policy":                           provider.KindContentPolicy,
	"moderation_blocked":                   provider.KindContentPolicy,
	"invalid_api_key":                      provider.KindAuth,
	"authentication_error":                 provider.KindAuth,
	"permission_error":                     provider.KindAuth,
	"account_deactivated":                  provider.KindAuth,
	"unsupported_country_region_territory": provider.KindRegion,
	"model_not_found":                      provider.KindModelNotFound,
	"DeploymentNotFound":                   provider.KindModelNotFound,
	"not_found_error":                      provider.KindModelNotFound,
	"model_not_available":                  provider.KindModelNotFound,
	"invalid_model":                        provider.KindModelNotFound,
	"unsupported_parameter":                provider.KindUnsupportedParam,
	"data_residency_mismatch":              provider.KindInvalid,
	"request_too_large":                    provider.KindBodyTooLarge,
	"rate_limit_exceeded":                  provider.KindRateLimited,
	"rate_limit_error":                     provider.KindRateLimited,
	"dynamic_request_limited":              provider.KindRateLimited,
	"dynamic_token_limited":                provider.KindRateLimited,
	"slow_down":                            provider.KindSlowDown,
	"server_is_overloaded":                 provider.KindOverloaded,
	"overloaded_error":                     provider.KindOverloaded,
	"service_unavailable_error":            provider.KindOverloaded,
	"capacity_exceeded":                    provider.KindOverloaded, // Groq's flex tier, 498
	"timeout_error":                        provider.KindServerTimeout,
	"vector_store_timeout":                 provider.KindServerTimeout,
	"unavailable_error":                    provider.KindLoading, // llama.cpp
	"not_supported_error":                  provider.KindInvalid, // llama.cpp, 501
	"tool_use_failed":                      provider.KindToolCallMalformed,
	"json_validate_failed":                 provider.KindToolCallMalformed,

	// OpenRouter's error_type.
	"max_tokens_exceeded":  provider.KindContextLength,
	"token_limit_exceeded": provider.KindContextLength,
	"string_too_long":      provider.KindContextLength,
	"invalid_request":      provider.KindInvalid,
	"precondition_failed":  provider.KindInvalid,
	"unprocessable":        provider.KindInvalid,
	"payload_too_large":    provider.KindBodyTooLarge,
	"refusal":              provider.KindContentPolicy,
	"authentication":       provider.KindAuth,
	"permission_denied":    provider.KindAuth,
	"payment_required":     provider.KindQuotaExhausted,
	"not_found":            provider.KindModelNotFound,
	"provider_overloaded":  provider.KindOverloaded,
	"provider_unavailable": provider.KindBadGateway,
	"timeout":              provider.KindServerTimeout,
	"server":               provider.KindServer,
	"unmapped":             provider.KindServer,
}

// byLimit classifies by OpenRouter's limit_source, the surest of its fields.
var byLimit = map[loose]provider.Kind{
	"openrouter_free_tier_per_minute": provider.KindRateLimited,
	"openrouter_free_tier_daily":      provider.KindDailyLimit,
	"upstream_provider_shared_pool":   provider.KindSharedPool,
	"openrouter_in_flight_budget":     provider.KindInFlightBudget,
	"openrouter_credits":              provider.KindQuotaExhausted,
	"openrouter_key_limit":            provider.KindQuotaExhausted,
	"openrouter_guardrail_budget":     provider.KindQuotaExhausted,
	"openrouter_workspace_budget":     provider.KindQuotaExhausted,
}

// byAvailability classifies by OpenRouter's availability.code.
var byAvailability = map[loose]provider.Kind{
	"capacity_exhausted":         provider.KindSharedPool,
	"temporarily_unavailable":    provider.KindOverloaded,
	"model_not_found":            provider.KindModelNotFound,
	"wrong_endpoint":             provider.KindModelNotFound,
	"no_endpoints":               provider.KindModelNotFound,
	"model_deprecated":           provider.KindModelNotFound,
	"model_unavailable_upstream": provider.KindModelNotFound,
	"privacy_restricted":         provider.KindModelNotFound,
	"constraint_filtered":        provider.KindModelNotFound,
	"free_variant_ended":         provider.KindModelNotFound,
	"region_restricted":          provider.KindRegion,
}

// classify gives a fault its class. Machine fields decide first, from the
// surest to the vaguest, then the text where it alone tells, then the status.
// status is 0 for an error inside a success that names none.
func (c *Client) classify(f *fault, status int, h http.Header, e *provider.Error) provider.Kind {
	if k := byMachine(f); k != provider.KindNone {
		return c.refine(k, f, status, h, e)
	}
	if k := byText(f, status); k != provider.KindNone {
		return k
	}
	k := byStatus(status)
	if status == 0 {
		k = byVagueType(f.Type)
	}
	return c.refine(k, f, status, h, e)
}

func byMachine(f *fault) provider.Kind {
	if f.Reason == "weight_exceeds_budget" {
		return provider.KindRequestTooDear
	}
	if f.Reason == "in_flight_budget_exhausted" {
		return provider.KindInFlightBudget
	}
	// Spend beats every other signal: waiting does not pay a bill.
	for _, w := range []loose{f.Code, f.Type} {
		if byWord[string(w)] == provider.KindQuotaExhausted {
			return provider.KindQuotaExhausted
		}
	}
	if k, ok := byLimit[f.LimitSource]; ok {
		return k
	}
	if truthy(f.Metadata.Reasons) || truthy(f.Metadata.Patterns) || f.Metadata.Flagged != "" {
		return provider.KindContentPolicy // OpenRouter's moderation: the prompt is bad, not the key
	}
	if k, ok := byAvailability[f.Availability.Code]; ok {
		return k
	}
	switch string(f.Availability.Retryable) {
	case "true":
		return provider.KindOverloaded
	case "false":
		return provider.KindModelNotFound
	}
	if f.Code == "string_above_max_length" {
		return provider.KindInvalid
	}
	for _, w := range []loose{f.ErrorType, f.Inner.Code, f.Code, f.Type} {
		if k, ok := byWord[string(w)]; ok {
			return k
		}
	}
	return provider.KindNone
}

// byVagueType reads the types that say little, for a fault without a status.
func byVagueType(t loose) provider.Kind {
	switch t {
	case "invalid_request_error", "BadRequestError", "image_generation_user_error":
		return provider.KindInvalid
	case "tokens", "requests":
		return provider.KindRateLimited
	default:
		return provider.KindServer
	}
}

// byStatus is what a status says by itself.
func byStatus(status int) provider.Kind {
	switch status {
	case 400, 405, 406, 412, 415, 422:
		return provider.KindInvalid
	case 401, 403, 407:
		return provider.KindAuth
	case 402:
		return provider.KindQuotaExhausted
	case 404, 410:
		return provider.KindModelNotFound
	case 408, 504, 524:
		return provider.KindServerTimeout
	case 409, 425:
		return provider.KindConflict
	case 413:
		return provider.KindBodyTooLarge
	case 424:
		return provider.KindDependency
	case 429:
		return provider.KindRateLimited
	case 451:
		return provider.KindRegion
	case 498, 503, 529:
		return provider.KindOverloaded
	case 499:
		return provider.KindCancelled
	case 501:
		return provider.KindInvalid
	case 502, 520, 521, 522, 523:
		return provider.KindBadGateway
	}
	if status >= 400 && status < 500 {
		return provider.KindOther
	}
	return provider.KindServer
}

// refine looks again at the classes that hide others.
func (c *Client) refine(k provider.Kind, f *fault, status int, h http.Header, e *provider.Error) provider.Kind {
	switch {
	case k == provider.KindRateLimited && f.LimitSource == "":
		return c.rateLimited(f, status, h, e)
	case k == provider.KindSlowDown && overADay(f):
		return provider.KindDailyLimit
	case k == provider.KindModelNotFound && status == 404 && perItem(f):
		return provider.KindInvalid
	case k == provider.KindServer && status == 0 && f.Metadata.ProviderName == "" && isContext(f):
		return provider.KindContextLength
	}
	return k
}

// rateLimited tells the refusals under 429 apart.
func (c *Client) rateLimited(f *fault, status int, h http.Header, e *provider.Error) provider.Kind {
	text := f.text()
	limit, _, requested := stated(text)
	switch {
	case h.Get("X-Ratelimit-Limit-Req-Minute") == "0" || limit == 0: // Mistral; Gemini's and OpenAI's texts
		return provider.KindNoQuota
	case requested > limit && limit > 0, strings.HasPrefix(strings.ToLower(text), "request too large"):
		return provider.KindRequestTooLarge
	case status == 413: // Groq's form of the same
		return provider.KindRequestTooLarge
	case overADay(f):
		return provider.KindDailyLimit
	case f.Type == "tokens" && h.Get("X-Should-Retry") == "false":
		return provider.KindRequestTooLarge
	}
	switch c.profile.Name {
	case "azure":
		switch {
		case highDemand.MatchString(text):
			return provider.KindSharedPool
		case e.HasRetryAfter && e.RetryAfter >= 12*time.Hour: // 86400 on the free tier
			return provider.KindDailyLimit
		}
	case "openrouter":
		if f.Metadata.ProviderName != "" {
			return provider.KindSharedPool // passed on from upstream
		}
	case "deepseek":
		return provider.KindConcurrency // it has no other limit
	case "together":
		if !strings.HasPrefix(string(f.Type), "dynamic_") {
			return provider.KindSlowDown
		}
	}
	return provider.KindRateLimited
}

// perItem reports a 404 that is about something the item names, a file or an
// earlier response, and not about the model or the path.
func perItem(f *fault) bool {
	return f.Code != "" && byWord[string(f.Code)] == provider.KindNone && f.status() == 0 &&
		!strings.Contains(strings.ToLower(f.text()), "model")
}
