package fake

import (
	"maps"
	"time"
)

// spend is one way of saying that the money is spent.
type spend struct {
	style  Style
	name   string
	f      failure
	resets bool // the metadata says when
}

// spends are the forms of [[fault:quota=NAME]]; the first of a dialect is what its calls get where none is named.
var spends = [...]spend{
	openaiSpend("insufficient_quota", "You exceeded your current quota, please check your plan and billing details."),
	openaiSpend("credit_balance_exhausted", "Your prepaid credit balance is exhausted."),
	openaiSpend("organization_spend_limit_exceeded", "Your organization has reached its spend limit."),
	openaiSpend("project_spend_limit_exceeded", "Your project has reached its spend limit."),
	openaiSpend("organization_usage_limit_exceeded", "Your organization has reached its usage limit."),
	openaiSpend("billing_hard_limit_reached", "Billing hard limit has been reached."),
	{style: Anthropic, name: "enforced_spend_limit", f: failure{
		status: 429, text: "This request would exceed your monthly spend limit.", details: map[string]any{"error_code": "enforced_spend_limit_reached"},
	}},
	{style: Anthropic, name: "usage_limits", f: failure{
		status: 400, text: "You have reached your specified API usage limits. You will regain access on 2030-01-01 at 00:00 UTC.",
	}},
	{style: Anthropic, name: "credit_balance", f: failure{
		status: 400, text: "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
	}},
	{style: Anthropic, name: "billing_error", f: failure{status: 402, text: "There is an issue with your billing or payment information."}},
	{style: Gemini, name: "gemini_credit", f: failure{status: 402, text: "Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing."}},
	{style: Gemini, name: "gemini_no_quota", f: failure{
		status: 429, text: "You exceeded your current quota, please check your plan and billing details.\n* Quota exceeded for metric: " +
			"generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 0\nPlease retry in 29.4s.",
	}},
	{style: Gemini, name: "gemini_spend_window", f: failure{
		status: 429, text: "Your project has exceeded its spend limit over a rolling window of 10 minutes. Please try again later.",
	}},
	{style: DeepSeek, name: "deepseek_balance", f: failure{status: 402, typ: "unknown_error", code: "invalid_request_error", text: "Insufficient Balance"}},
	{style: Mistral, name: "mistral_payment", f: failure{status: 402, typ: "payment_required", text: "Payment required."}},
	openrouterSpend(402, "openrouter_credits", "", "Insufficient credits. Add more using https://openrouter.ai/settings/credits"),
	openrouterSpend(402, "openrouter_key_limit", "", "Key limit exceeded (total limit)."),
	openrouterSpend(403, "openrouter_guardrail_budget", "", "Guardrail budget exceeded."),
	openrouterSpend(403, "openrouter_workspace_budget", "", "Workspace budget exceeded."),
	openrouterSpend(402, "openrouter_in_flight_budget", "in_flight_budget_exhausted", "Too much is in flight for your balance. Retry when open requests have ended."),
	openrouterSpend(402, "weight_exceeds_budget", "weight_exceeds_budget", "This request requires more credits, or fewer max_tokens."),
}

func openaiSpend(code, text string) spend {
	return spend{style: OpenAI, name: code, f: failure{status: 429, typ: "insufficient_quota", code: code, text: text}}
}

// openrouterSpend is a form whose limit_source is its name, unless its reason is.
func openrouterSpend(status int, name, reason, text string) spend {
	meta := map[string]any{"limit_source": name, "error_type": "payment_required"}
	if reason != "" {
		meta["reason"] = reason
	}
	if name == reason {
		meta["limit_source"] = "openrouter_credits"
	}
	return spend{style: OpenRouter, name: name, f: failure{status: status, text: text, meta: meta}, resets: status == 403}
}

func spendForm(name string) (spend, bool) {
	for _, f := range spends {
		if f.name == name {
			return f, true
		}
	}
	return spend{}, false
}

// quota is the answer when the money is spent: in the named form, or in the first of the call's dialect. None but
// OpenRouter's in-flight budget says when to come back: that one ends with the calls in flight.
func (s *Server) quota(c *call, name string) reply {
	form := spends[0]
	for _, f := range spends {
		if f.name == name || name == "" && f.style == c.dialect {
			form = f
			break
		}
	}
	own := *c
	if own.dialect != form.style && name != "" {
		own.dialect, own.hints = form.style, form.style
	}
	f := form.f
	switch {
	case form.name == "gemini_no_quota":
		f.details = own.quotaFailure(quotaIDs[limRequests], 0, 29*time.Second)
	case form.resets:
		f.meta = maps.Clone(f.meta)
		at := time.Unix(0, s.now()).UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		f.meta["scope"], f.meta["limit_usd"], f.meta["spend_usd"], f.meta["resets_at"] = "workspace", 10, 10.02, at.Format(time.RFC3339)
	}
	r := own.fail(f)
	if form.name == "openrouter_in_flight_budget" {
		r.set("Retry-After", "2")
	}
	return r
}
