package openai

import (
	"net/http"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// byWord classifies by a provider's own word, whichever machine field it
// stands in: OpenAI's codes and types, those of the servers that copy it
// (capacity_exceeded and the tool failures are Groq's, dynamic_* Together's,
// unavailable_error and not_supported_error llama.cpp's), and OpenRouter's
// error_type. Words that only repeat the status, such as api_error, are absent.
func byWord(word wire.Text) provider.Kind {
	switch word {
	case "insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
		"project_spend_limit_exceeded", "organization_usage_limit_exceeded", "billing_hard_limit_reached",
		"billing_not_active", "billing_error", "enforced_spend_limit_reached", "payment_required":
		return provider.KindQuotaExhausted
	case "context_length_exceeded", "exceed_context_size_error", "max_tokens_exceeded", "token_limit_exceeded",
		"string_too_long":
		return provider.KindContextLength
	case "content_policy_violation", "content_filter", "ResponsibleAIPolicyViolation", "invalid_prompt", "bio_policy",
		"moderation_blocked", "refusal":
		return provider.KindContentPolicy
	case "invalid_api_key", "authentication_error", "permission_error", "account_deactivated", "authentication",
		"permission_denied":
		return provider.KindAuth
	case "unsupported_country_region_territory":
		return provider.KindRegion
	case "model_not_found", "DeploymentNotFound", "not_found_error", "model_not_available", "invalid_model",
		"not_found":
		return provider.KindModelNotFound
	case "unsupported_parameter":
		return provider.KindUnsupportedParam
	case "data_residency_mismatch", "not_supported_error", "invalid_request", "precondition_failed", "unprocessable":
		return provider.KindInvalid
	case "request_too_large", "payload_too_large":
		return provider.KindBodyTooLarge
	case "rate_limit_exceeded", "rate_limit_error", "dynamic_request_limited", "dynamic_token_limited":
		return provider.KindRateLimited
	case "slow_down":
		return provider.KindSlowDown
	case "server_is_overloaded", "overloaded_error", "service_unavailable_error", "capacity_exceeded",
		"provider_overloaded":
		return provider.KindOverloaded
	case "timeout_error", "vector_store_timeout", "timeout":
		return provider.KindServerTimeout
	case "unavailable_error":
		return provider.KindLoading
	case "tool_use_failed", "json_validate_failed":
		return provider.KindToolCallMalformed
	case "provider_unavailable":
		return provider.KindBadGateway
	case "server", "unmapped":
		return provider.KindServer
	}
	return provider.KindNone
}

// byLimit classifies by OpenRouter's limit_source, the surest of its fields.
func byLimit(source wire.Text) provider.Kind {
	switch source {
	case "openrouter_free_tier_per_minute":
		return provider.KindRateLimited
	case "openrouter_free_tier_daily":
		return provider.KindDailyLimit
	case "upstream_provider_shared_pool":
		return provider.KindSharedPool
	case "openrouter_in_flight_budget":
		return provider.KindInFlightBudget
	case "openrouter_credits", "openrouter_key_limit", "openrouter_guardrail_budget", "openrouter_workspace_budget":
		return provider.KindQuotaExhausted
	}
	return provider.KindNone
}

// byAvailability classifies by OpenRouter's availability, an unknown code by
// whether trying again may help.
func byAvailability(a availability) provider.Kind {
	switch a.Code {
	case "capacity_exhausted":
		return provider.KindSharedPool
	case "temporarily_unavailable":
		return provider.KindOverloaded
	case "model_not_found", "wrong_endpoint", "no_endpoints", "model_deprecated", "model_unavailable_upstream",
		"privacy_restricted", "constraint_filtered", "free_variant_ended":
		return provider.KindModelNotFound
	case "region_restricted":
		return provider.KindRegion
	}
	switch string(a.Retryable) {
	case "true":
		return provider.KindOverloaded
	case "false":
		return provider.KindModelNotFound
	}
	return provider.KindNone
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
	k := wire.KindOfStatus(status)
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
	for _, w := range []wire.Text{f.Code, f.Type} {
		if byWord(w) == provider.KindQuotaExhausted {
			return provider.KindQuotaExhausted
		}
	}
	if k := byLimit(f.LimitSource); k != provider.KindNone {
		return k
	}
	if wire.Truthy(f.Metadata.Reasons) || wire.Truthy(f.Metadata.Patterns) || f.Metadata.Flagged != "" {
		return provider.KindContentPolicy // OpenRouter's moderation: the prompt is bad, not the key
	}
	if k := byAvailability(f.Availability); k != provider.KindNone {
		return k
	}
	if f.Code == "string_above_max_length" {
		return provider.KindInvalid
	}
	for _, w := range []wire.Text{f.ErrorType, f.Inner.Code, f.Code, f.Type} {
		if k := byWord(w); k != provider.KindNone {
			return k
		}
	}
	return provider.KindNone
}

// byVagueType reads the types that say little, for a fault without a status.
func byVagueType(t wire.Text) provider.Kind {
	switch t {
	case "invalid_request_error", "BadRequestError", "image_generation_user_error":
		return provider.KindInvalid
	case "tokens", "requests":
		return provider.KindRateLimited
	default:
		return provider.KindServer
	}
}

// refine looks again at the classes that hide others.
func (c *Client) refine(k provider.Kind, f *fault, status int, h http.Header, e *provider.Error) provider.Kind {
	switch {
	case k == provider.KindRateLimited && f.LimitSource == "":
		return c.rateLimited(f, status, h, e)
	case k == provider.KindInvalid && isContext(f): // OpenRouter passes these on as invalid_request
		return provider.KindContextLength
	case k == provider.KindSlowDown && overADay(f):
		return provider.KindDailyLimit
	case k == provider.KindModelNotFound && status == 404 && perItem(f):
		return provider.KindInvalid
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
	switch c.Profile.Name {
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
	return f.Code != "" && byWord(f.Code) == provider.KindNone && f.status() == 0 &&
		!strings.Contains(strings.ToLower(f.text()), "model")
}
