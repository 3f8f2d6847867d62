package fake

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// The limits as texts name them, and Gemini's quota ids and metrics, by index.
var (
	limitWords = [numLimits]string{
		"requests per min (RPM)", "tokens per min (TPM)", "input tokens per min (ITPM)", "output tokens per min (OTPM)",
		"requests per day (RPD)", "tokens per day (TPD)",
	}
	anthropicWords = [numLimits]string{
		"requests per minute", "tokens per minute", "input tokens per minute", "output tokens per minute", "requests per day", "tokens per day",
	}
	quotaIDs = [numLimits]string{
		"GenerateRequestsPerMinutePerProjectPerModel", "GenerateContentInputTokensPerModelPerMinute", "GenerateContentInputTokensPerModelPerMinute",
		"GenerateContentOutputTokensPerModelPerMinute", "GenerateRequestsPerDayPerProjectPerModel", "GenerateContentInputTokensPerModelPerDay",
	}
)

// dayRetry is what Gemini says in RetryInfo when the day's quota is spent: it is of no use, and clients must not be led by it.
const dayRetry = 18 * time.Second

// refuse builds the answer to a call that a limit refused.
func (s *Server) refuse(c *call, no *refusal) reply {
	typ, source := "requests", "openrouter_free_tier_per_minute"
	if no.index == limTokens || no.index == limInput || no.index == limOutput || no.index == limTokensDay {
		typ = "tokens"
	}
	switch {
	case no.index < 0:
		source = "upstream_provider_shared_pool"
	case no.index >= limRequestsDay:
		source = "openrouter_free_tier_daily"
	}
	f := failure{
		status: http.StatusTooManyRequests, typ: typ, code: "rate_limit_exceeded", text: c.refusalText(no),
		meta: map[string]any{"limit_source": source, "error_type": "rate_limit_exceeded"},
	}
	if c.dialect == Gemini && no.index >= 0 {
		delay := no.wait
		if no.index >= limRequestsDay {
			delay = dayRetry
		}
		f.details = c.quotaFailure(quotaIDs[no.index], no.limit, delay)
	}
	r := c.fail(f)
	switch {
	case no.tooLarge && c.hints == OpenAI:
		r.set("X-Should-Retry", "false")
	case no.tooLarge:
	case c.hints == OpenRouter && no.index >= 0:
		at := time.Unix(0, s.now()).Add(no.wait)
		r.set("X-Ratelimit-Limit", strconv.FormatInt(no.limit, 10))
		r.set("X-Ratelimit-Remaining", strconv.FormatInt(max(0, no.limit-no.used), 10))
		r.set("X-Ratelimit-Reset", strconv.FormatInt(at.Add(time.Millisecond-1).UnixMilli(), 10))
	default:
		c.hint(&r, no.wait)
	}
	return r
}

// refusalText is what each dialect says of a limit.
func (c *call) refusalText(no *refusal) string {
	switch {
	case no.index < 0 && c.dialect == Anthropic:
		return "Number of concurrent connections has exceeded your rate limit. Please try again later."
	case no.index < 0:
		return fmt.Sprintf("Too many concurrent requests: Limit %d, Used %d.", no.limit, no.used)
	case c.dialect == Anthropic:
		return fmt.Sprintf("This request would exceed your organization's rate limit of %d %s (org: org-mock, model: %s).", no.limit, anthropicWords[no.index], c.model)
	case c.dialect == Gemini:
		return fmt.Sprintf("You exceeded your current quota, please check your plan and billing details.\n* Quota exceeded for metric: "+
			"generativelanguage.googleapis.com/%s, limit: %d, model: %s", quotaMetric(quotaIDs[no.index]), no.limit, c.model)
	case c.dialect == Azure && !no.tooLarge:
		return fmt.Sprintf("Requests to the ChatCompletions_Create Operation under Azure OpenAI API have exceeded call rate limit of your current OpenAI S0 pricing tier. "+
			"Please retry after %d seconds.", int64(math.Ceil(no.wait.Seconds())))
	case no.tooLarge:
		return fmt.Sprintf("Request too large for %s in organization org-mock on %s: Limit %d, Requested %d. The input or output tokens must be reduced in order to run successfully.",
			c.model, limitWords[no.index], no.limit, no.asked)
	}
	model := c.model
	if c.dialect == Groq {
		model = "model `" + c.model + "`"
	}
	return fmt.Sprintf("Rate limit reached for %s in organization org-mock on %s: Limit %d, Used %d, Requested %d. Please try again in %s.",
		model, limitWords[no.index], no.limit, no.used, no.asked, tryAgain(no.wait))
}

// quotaFailure is Gemini's account of a quota, and when to try again; nil in other dialects.
func (c *call) quotaFailure(id string, value int64, delay time.Duration) any {
	if c.dialect != Gemini {
		return nil
	}
	return []any{
		map[string]any{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []any{map[string]any{
			"quotaMetric": "generativelanguage.googleapis.com/" + quotaMetric(id), "quotaId": id,
			"quotaDimensions": map[string]any{"location": "global", "model": c.model}, "quotaValue": strconv.FormatInt(value, 10),
		}}},
		map[string]any{"@type": "type.googleapis.com/google.rpc.Help", "links": []any{map[string]any{
			"description": "Learn more about Gemini API quotas", "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
		}}},
		map[string]any{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": c.seconds(delay) + "s"},
	}
}

func quotaMetric(id string) string {
	switch id {
	case quotaIDs[limRequests]:
		return "generate_requests_per_model"
	case quotaIDs[limRequestsDay]:
		return "generate_requests_per_model_per_day"
	}
	return "generate_content_input_token_count"
}

// tryAgain prints a wait as OpenAI's text does: 9.8s, 520ms, 6m12s.
func tryAgain(d time.Duration) string {
	d = (d + time.Millisecond - 1).Truncate(time.Millisecond)
	if d > time.Minute {
		d = (d + time.Second - 1).Truncate(time.Second)
	}
	return d.String()
}

// seconds prints a wait: whole seconds, at least 1, and decimals where the "minute" is scaled down.
func (c *call) seconds(wait time.Duration) string {
	if c.group != nil && c.group.cfg.WindowLength < time.Minute {
		return strconv.FormatFloat(math.Ceil(wait.Seconds()*1000)/1000, 'f', -1, 64)
	}
	return strconv.FormatInt(max(1, int64(math.Ceil(wait.Seconds()))), 10)
}

// hint sets retry-after in the dialects that have it.
func (c *call) hint(r *reply, wait time.Duration) {
	switch c.hints {
	case OpenRouter, NoHeaders, Gemini, DeepSeek:
		return
	case Azure:
		r.set("Retry-After-Ms", strconv.FormatInt(int64(math.Ceil(wait.Seconds()*1000)), 10))
	}
	r.set("Retry-After", c.seconds(wait))
}

// daily is the answer to a call beyond the day's limit, in the dialect of that name ("" = the call's own): requests a
// day, to be reset at the next UTC midnight. Azure says 86400 seconds at any hour, and Gemini a few.
func (s *Server) daily(c *call, style string) reply {
	own := *c
	if style != "" {
		other, _ := ParseStyle(style) // checked when the call came
		own.dialect, own.hints = other, other
	}
	const day = 24 * time.Hour
	now := time.Unix(0, s.now()).UTC()
	no := refusal{index: limRequestsDay, limit: 200, used: 200, asked: 1, wait: now.Truncate(day).Add(day).Sub(now)}
	switch own.dialect {
	case Azure:
		no.wait = day
	case OpenRouter:
		no.limit, no.used = 50, 50
	}
	return s.refuse(&own, &no)
}
