package fake

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// failure is an error that can be told in every dialect.
type failure struct {
	status    int
	typ, code string // OpenAI's; code "" is null
	text      string
	as        string         // Anthropic's type or Gemini's status, where the HTTP status does not say it
	meta      map[string]any // OpenRouter's metadata
	details   any            // Anthropic's details, Gemini's, Azure's innererror
	wait      time.Duration  // > 0: what retry-after says, in dialects that have it
}

// The error types that Anthropic, and the statuses that Gemini, sends with an HTTP status.
var (
	anthropicTypes = map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
		409: "conflict_error", 413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 504: "timeout_error", 529: "overloaded_error",
	}
	geminiStatuses = map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 402: "RESOURCE_EXHAUSTED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ABORTED",
		429: "RESOURCE_EXHAUSTED", 499: "CANCELLED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
	}
)

// typeOf looks a status up; what is not listed counts as the plain 400 or 500.
func typeOf(names map[int]string, status int) string {
	if n := names[status]; n != "" {
		return n
	}
	if status < 500 {
		return names[400]
	}
	return names[500]
}

// fail tells of an error in the call's dialect.
func (c *call) fail(f failure) reply {
	var v any
	switch c.dialect {
	case Anthropic:
		e := map[string]any{"type": f.as, "message": f.text}
		if f.as == "" {
			e["type"] = typeOf(anthropicTypes, f.status)
		}
		if f.details != nil {
			e["details"] = f.details
		}
		v = map[string]any{"type": "error", "error": e, "request_id": c.id}
	case Gemini:
		e := map[string]any{"code": f.status, "message": f.text, "status": f.as}
		if f.as == "" {
			e["status"] = typeOf(geminiStatuses, f.status)
		}
		if f.details != nil {
			e["details"] = f.details
		}
		v = map[string]any{"error": e}
	case OpenRouter:
		e := map[string]any{"code": f.status, "message": f.text}
		if f.meta != nil {
			e["metadata"] = f.meta
		}
		v = map[string]any{"error": e, "user_id": "user_mock"}
	case Azure:
		e := map[string]any{"code": f.code, "message": f.text}
		if f.code == "" || f.status == 429 {
			e["code"] = strconv.Itoa(f.status)
		}
		if f.details != nil {
			e["innererror"] = f.details
		}
		v = map[string]any{"error": e}
	case Mistral:
		v = map[string]any{"object": "error", "message": f.text, "type": f.typ, "param": nil, "code": null(f.code)}
	default:
		v = map[string]any{"error": map[string]any{"message": f.text, "type": f.typ, "param": nil, "code": null(f.code)}}
	}
	r := reply{status: f.status, body: encode(v)}
	if f.wait > 0 {
		c.hint(&r, f.wait)
	}
	return r
}

func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// statusFailure is a plain error of this status.
func (c *call) statusFailure(status int) reply {
	switch status {
	case 429:
		return c.fail(failure{
			status: 429, typ: "requests", code: "rate_limit_exceeded", text: "Rate limit reached for requests. Please try again in 1s.", wait: time.Second,
			meta:    map[string]any{"limit_source": "upstream_provider_shared_pool", "error_type": "rate_limit_exceeded"},
			details: c.quotaFailure(quotaIDs[limRequests], 60, time.Second),
		})
	case 503, 529:
		return c.fail(failure{
			status: status, typ: "service_unavailable_error", code: "server_is_overloaded", text: "The server is overloaded. Please try again later.",
			as: c.word("overloaded_error", ""), meta: map[string]any{"error_type": "provider_overloaded"},
		})
	}
	if status >= 500 {
		kind := map[int]string{500: "server", 502: "provider_unavailable", 504: "timeout"}[status]
		if kind == "" {
			kind = "unmapped"
		}
		return c.fail(failure{
			status: status, typ: "server_error", text: "The server had an error while processing your request.", meta: map[string]any{"error_type": kind},
		})
	}
	return c.fail(failure{status: status, typ: "invalid_request_error", text: http.StatusText(status)})
}

// word chooses between Anthropic's and Gemini's own; "" elsewhere.
func (c *call) word(anthropic, gemini string) string {
	switch c.dialect {
	case Anthropic:
		return anthropic
	case Gemini:
		return gemini
	}
	return ""
}

func (c *call) overloaded() reply {
	switch c.dialect {
	case Anthropic:
		return c.fail(failure{status: 529, text: "Overloaded"})
	case Gemini:
		return c.fail(failure{status: 503, text: "The model is overloaded. Please try again later."})
	case Groq:
		return c.fail(failure{status: 498, typ: "service_unavailable", code: "capacity_exceeded", text: "Flex tier capacity exceeded. Please try again later."})
	}
	return c.statusFailure(503)
}

func (c *call) slowDown() reply {
	text := "Slow down: your request rate grew too fast."
	if c.dialect == Anthropic {
		text = "This request was rejected by acceleration limits: your usage grew too fast. Increase it gradually."
	}
	return c.fail(failure{
		status: 429, typ: "rate_limit_error", code: "slow_down", text: text, wait: time.Second,
		meta:    map[string]any{"error_type": "rate_limit_exceeded", "limit_source": "upstream_provider_shared_pool"},
		details: c.quotaFailure(quotaIDs[limRequests], 60, time.Second),
	})
}

func (c *call) unauthorized() reply {
	f := failure{
		status: 401, typ: "invalid_request_error", code: "invalid_api_key", text: "Incorrect API key provided.",
		meta: map[string]any{"error_type": "authentication"},
	}
	switch c.dialect {
	case Anthropic:
		f.text = "invalid x-api-key"
	case Gemini:
		f.status, f.text = 400, "API key not valid. Please pass a valid API key."
		f.details = []any{map[string]any{
			"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com",
			"metadata": map[string]any{"service": "generativelanguage.googleapis.com"},
		}}
	}
	return c.fail(f)
}

func (c *call) region() reply {
	f := failure{
		status: 403, typ: "request_forbidden", code: "unsupported_country_region_territory", text: "Country, region, or territory not supported",
		meta: map[string]any{"error_type": "permission_denied"},
	}
	if c.dialect == Gemini {
		f.status, f.as, f.text = 400, "FAILED_PRECONDITION", "User location is not supported for the API use."
	}
	return c.fail(f)
}

func (c *call) noModel() reply {
	f := failure{
		status: 404, typ: "invalid_request_error", code: "model_not_found", meta: map[string]any{"error_type": "not_found"},
		text: "The model `" + c.model + "` does not exist or you do not have access to it.",
	}
	switch c.dialect {
	case Anthropic:
		f.text = "model: " + c.model
	case Gemini:
		f.text = "models/" + c.model + " is not found for API version v1beta, or is not supported for generateContent."
	case Azure:
		f.code, f.text = "DeploymentNotFound", "The API deployment for this resource does not exist."
	}
	return c.fail(f)
}

func (c *call) tooLong() reply {
	f := failure{
		status: 400, typ: "invalid_request_error", code: "context_length_exceeded", meta: map[string]any{"error_type": "context_length_exceeded"},
		text: fmt.Sprintf("This model's maximum context length is 8192 tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.", c.prompt+8192),
	}
	switch c.dialect {
	case Anthropic:
		f.text = fmt.Sprintf("prompt is too long: %d tokens > 8192 maximum", c.prompt+8192)
	case Gemini:
		f.text = fmt.Sprintf("The input token count (%d) exceeds the maximum number of tokens allowed (8192).", c.prompt+8192)
	}
	return c.fail(f)
}

// blocked refuses a prompt for what it says. Gemini answers 200 without a candidate.
func (c *call) blocked() reply {
	f := failure{
		status: 400, typ: "invalid_request_error", code: "content_policy_violation", text: "Your request was rejected as a result of our safety system.",
		meta: map[string]any{"error_type": "content_policy_violation"},
	}
	switch c.dialect {
	case Anthropic:
		f.text = "Output blocked by content filtering policy"
	case Gemini:
		return reply{status: 200, body: encode(map[string]any{
			"promptFeedback": map[string]any{"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": c.model,
			"usageMetadata": map[string]any{"promptTokenCount": c.prompt, "totalTokenCount": c.prompt},
		})}
	case OpenRouter:
		return c.moderated()
	case Azure:
		f.code, f.text = "content_filter", "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
		f.details = map[string]any{"code": "ResponsibleAIPolicyViolation", "content_filter_result": map[string]any{
			"violence": map[string]any{"filtered": true, "severity": "high"},
		}}
	}
	return c.fail(f)
}

// moderated is OpenRouter's own moderation, in its own dialect whatever the call's.
func (c *call) moderated() reply {
	own := *c
	own.dialect = OpenRouter
	return own.fail(failure{status: 403, text: c.model + " requires moderation. Your input was flagged.", meta: map[string]any{
		"reasons": []string{"violence"}, "flagged_input": "say...", "provider_name": "Mock", "model_slug": c.model, "error_type": "content_policy_violation",
	}})
}
