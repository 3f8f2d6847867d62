package openai

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// isContext reports a prompt that passes the model's window, unless the text
// is about a string's length or the user field.
func isContext(f *fault) bool {
	return f.Code != "string_above_max_length" && f.Param != "user" && wire.SaysContext(f.text())
}

// byText classifies what only the text tells, each within the statuses under
// which it has been seen.
func byText(f *fault, status int) provider.Kind {
	text := strings.ToLower(f.text())
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case text == "":
		return provider.KindNone
	case status == 401 || status == 402 || status == 429:
		return provider.KindNone
	case status == 403:
		if has("country", "region is not supported", "territory") {
			return provider.KindRegion
		}
		return provider.KindNone
	case isContext(f):
		return provider.KindContextLength
	}
	if status >= 500 {
		switch {
		case has("loading model", "model is loading", "timed out waiting for llama runner"):
			return provider.KindLoading
		case has("maximum pending requests exceeded", "server busy"): // Ollama's full queue
			return provider.KindConcurrency
		}
		return provider.KindNone
	}
	switch {
	case has("invalid prompt") && has("usage polic"):
		return provider.KindContentPolicy
	case has("api_key_invalid", "api key not valid"): // Gemini's compatible route, a 400
		return provider.KindAuth
	case wire.SaysSpend(text): // Anthropic behind a gateway
		return provider.KindQuotaExhausted
	case has("try pulling it first", "model not exist", "invalid model", "does not exist or you do not have access"):
		return provider.KindModelNotFound
	}
	return provider.KindNone
}

var (
	perDay     = regexp.MustCompile(`(?i)per[ _-]?day|\b(?:RPD|TPD)\b|daily (?:rate )?limit`)
	highDemand = regexp.MustCompile(`(?i)high demand|temporarily unable`)
	limitName  = regexp.MustCompile(`\b(RPM|TPM|RPD|TPD|ITPM|OTPM)\b`)
	limitStat  = regexp.MustCompile(`(?i)\blimit:? ?([0-9]+)`)
	usedStat   = regexp.MustCompile(`(?i)\bused:? ?([0-9]+)`)
	askedStat  = regexp.MustCompile(`(?i)\brequested:? ?([0-9]+)`)
)

// overADay reports a refusal by a day's limit.
func overADay(f *fault) bool { return perDay.MatchString(f.text()) }

// stated reads "Limit 30000, Used 0, Requested 50000" of OpenAI's and Groq's
// refusals; -1 where a number is missing.
func stated(text string) (limit, used, requested int64) {
	find := func(re *regexp.Regexp) int64 {
		m := re.FindStringSubmatch(text)
		if m == nil {
			return -1
		}
		n, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			return -1
		}
		return n
	}
	return find(limitStat), find(usedStat), find(askedStat)
}

// limitType names the limit that refused, if the answer does.
func limitType(f *fault) string {
	if m := limitName.FindString(f.text()); m != "" {
		return map[string]string{
			"RPM": "requests", "TPM": "tokens", "RPD": "requests_day", "TPD": "tokens_day", "ITPM": "input_tokens", "OTPM": "output_tokens",
		}[m]
	}
	switch {
	case f.LimitSource == "openrouter_free_tier_daily":
		return "requests_day"
	case f.LimitSource == "openrouter_free_tier_per_minute", f.Type == "requests", f.Type == "dynamic_request_limited":
		return "requests"
	case f.Type == "tokens", f.Type == "dynamic_token_limited":
		return "tokens"
	case overADay(f):
		return "requests_day"
	}
	return ""
}

// statedLimit puts the limit that a refusal's text names where the headers
// named none.
func statedLimit(e *provider.Error) {
	if e.StatusCode != 429 {
		return
	}
	w := map[string]*provider.Window{
		"requests": &e.Rate.Requests, "tokens": &e.Rate.Tokens, "input_tokens": &e.Rate.Input, "output_tokens": &e.Rate.Output,
		"requests_day": &e.Rate.RequestsDay, "tokens_day": &e.Rate.TokensDay,
	}[e.LimitType]
	limit, used, _ := stated(e.Message)
	if w == nil || limit <= 0 || w.Limit >= 0 {
		return
	}
	w.Limit = limit
	if used >= 0 {
		w.Remaining = max(limit-used, 0)
	}
}
