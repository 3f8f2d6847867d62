package fake

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
)

// at is where each dialect is met: a path, and a body with this prompt.
var at = map[Style]func(prompt string) (path, body string){
	Anthropic: func(p string) (string, string) { return messagesPath, message(p) },
	Gemini:    func(p string) (string, string) { return geminiPath, contents(p) },
}

func chatAt(p string) (string, string) { return "/v1/chat/completions", chat(p) }

// TestDialects plays each fault where the dialect is spoken. Headers that are listed with "" must be absent.
func TestDialects(t *testing.T) {
	for _, c := range []struct {
		style         Style
		fault         string
		status        int
		words         []string
		header, value string
	}{
		{OpenAI, "daily", 429, []string{`requests per day (RPD)`, `"code":"rate_limit_exceeded"`}, "Retry-After", "86400"},
		{OpenAI, "overloaded", 503, []string{"server_is_overloaded"}, "Retry-After", ""},
		{Groq, "daily", 429, []string{"model `m`", "requests per day (RPD): Limit 200", "Please try again in 24h0m0s"}, "Retry-After", "86400"},
		{Groq, "overloaded", 498, []string{"capacity_exceeded"}, "", ""},
		{Azure, "daily", 429, []string{`"code":"429"`, "Please retry after 86400 seconds"}, "Retry-After-Ms", "86400000"},
		{Azure, "policy", 400, []string{`"content_filter"`, "ResponsibleAIPolicyViolation"}, "", ""},
		{Azure, "model", 404, []string{"DeploymentNotFound"}, "", ""},
		{OpenRouter, "daily", 429, []string{"openrouter_free_tier_daily"}, "X-Ratelimit-Reset", "946771200000"},
		{OpenRouter, "policy", 403, []string{`"reasons":["violence"]`, `"flagged_input"`}, "X-Generation-Id", "gen-"},
		{OpenRouter, "overloaded", 503, []string{"provider_overloaded"}, "", ""},
		{OpenRouter, "504", 504, []string{`"error_type":"timeout"`}, "", ""},
		{OpenRouter, "quota", 402, []string{`"limit_source":"openrouter_credits"`}, "Retry-After", ""},
		{OpenRouter, "quota=openrouter_in_flight_budget", 402, []string{`"limit_source":"openrouter_in_flight_budget"`, "in_flight_budget_exhausted"}, "Retry-After", "2"},
		{OpenRouter, "quota=weight_exceeds_budget", 402, []string{`"limit_source":"openrouter_credits"`, `"reason":"weight_exceeds_budget"`}, "Retry-After", ""},
		{OpenRouter, "quota=openrouter_workspace_budget", 403, []string{`"resets_at":"2000-01-02T00:00:00Z"`}, "Retry-After", ""},
		{DeepSeek, "quota", 402, []string{"Insufficient Balance"}, "Retry-After", ""},
		{Mistral, "quota", 402, []string{`"object":"error"`}, "Retry-After", ""},
		{Mistral, "429", 429, []string{`"object":"error"`}, "Retry-After", "1"},
		{Anthropic, "quota", 429, []string{"enforced_spend_limit_reached"}, "Retry-After", ""},
		{Anthropic, "quota=usage_limits", 400, []string{"You have reached your specified API usage limits"}, "Retry-After", ""},
		{Anthropic, "quota=credit_balance", 400, []string{"credit balance is too low"}, "Retry-After", ""},
		{Anthropic, "quota=billing_error", 402, []string{`"billing_error"`}, "Retry-After", ""},
		{Anthropic, "overloaded", 529, []string{`"overloaded_error"`, `"request_id":"req_`}, "Retry-After", ""},
		{Anthropic, "503", 503, []string{`"overloaded_error"`}, "", ""},
		{Anthropic, "slowdown", 429, []string{"acceleration"}, "Retry-After", "1"},
		{Anthropic, "context", 400, []string{"prompt is too long: "}, "", ""},
		{Anthropic, "policy", 400, []string{"content filtering policy"}, "", ""},
		{Anthropic, "model", 404, []string{`"not_found_error"`, "model: m"}, "", ""},
		{Anthropic, "auth", 401, []string{`"authentication_error"`}, "", ""},
		{Anthropic, "504", 504, []string{`"timeout_error"`}, "", ""},
		{Gemini, "daily", 429, []string{`"quotaId":"GenerateRequestsPerDay`, `"retryDelay":"18s"`, `"RESOURCE_EXHAUSTED"`}, "Retry-After", ""},
		{Gemini, "429", 429, []string{`"quotaId":"GenerateRequestsPerMinute`, `"retryDelay":"1s"`}, "Retry-After", ""},
		{Gemini, "quota", 402, []string{`"code":402`, `"RESOURCE_EXHAUSTED"`}, "Retry-After", ""},
		{Gemini, "quota=gemini_no_quota", 429, []string{`"quotaValue":"0"`, "limit: 0"}, "Retry-After", ""},
		{Gemini, "quota=gemini_spend_window", 429, []string{"spend limit"}, "Retry-After", ""},
		{Gemini, "overloaded", 503, []string{`"UNAVAILABLE"`}, "", ""},
		{Gemini, "context", 400, []string{"exceeds the maximum number of tokens allowed"}, "", ""},
		{Gemini, "region", 400, []string{`"FAILED_PRECONDITION"`}, "", ""},
		{Gemini, "model", 404, []string{`"NOT_FOUND"`}, "", ""},
		{Gemini, "500", 500, []string{`"INTERNAL"`}, "", ""},
		{Gemini, "504", 504, []string{`"DEADLINE_EXCEEDED"`}, "", ""},
	} {
		synctest.Test(t, func(t *testing.T) { // starts at a UTC midnight
			s := New(Config{Style: c.style})
			where := at[c.style]
			if where == nil {
				where = chatAt
			}
			path, body := where("[[fault:" + c.fault + "]]")
			g := native(t.Context(), t, &Transport{Server: s}, path, body)
			if g.status != c.status || !json.Valid([]byte(g.body)) {
				t.Errorf("%v %s: got %+v", c.style, c.fault, g)
			}
			for _, w := range c.words {
				if !strings.Contains(g.body, w) {
					t.Errorf("%v %s: got %s, want %s in it", c.style, c.fault, g.body, w)
				}
			}
			if got := g.header.Get(c.header); c.value == "" && got != "" || !strings.HasPrefix(got, c.value) {
				t.Errorf("%v %s: %s: got %q, want %q", c.style, c.fault, c.header, got, c.value)
			}
		})
	}
}

// TestNativeDialect says which dialect a path is answered in.
func TestNativeDialect(t *testing.T) {
	for _, c := range []struct {
		cfg        Config
		path, body string
		words      string
		retryAfter bool
	}{
		{Config{}, messagesPath, message("[[fault:429]]"), `"type":"rate_limit_error"`, true},
		{Config{Style: NoHeaders}, messagesPath, message("[[fault:429]]"), `"type":"rate_limit_error"`, false},
		{Config{Style: OpenRouter}, messagesPath, message("[[fault:429]]"), `"type":"rate_limit_error"`, false},
		{Config{OneDialect: true}, messagesPath, message("[[fault:429]]"), `"code":"rate_limit_exceeded"`, true},
		{Config{}, geminiPath, contents("[[fault:429]]"), `"RESOURCE_EXHAUSTED"`, false},
		{Config{Style: RetryAfter}, geminiPath, contents("[[fault:429]]"), `"RESOURCE_EXHAUSTED"`, true},
		{Config{Style: Gemini}, "/v1/chat/completions", chat("[[fault:429]]"), `"RESOURCE_EXHAUSTED"`, false},
	} {
		g := native(t.Context(), t, &Transport{Server: New(c.cfg)}, c.path, c.body)
		if g.status != 429 || !strings.Contains(g.body, c.words) || (g.header.Get("Retry-After") != "") != c.retryAfter {
			t.Errorf("%v on %s: got %+v", c.cfg.Style, c.path, g)
		}
	}
}

// TestQuotaForms plays every form of a spent quota on a path of another dialect: it keeps its own.
func TestQuotaForms(t *testing.T) {
	for _, f := range spends {
		g := post(t, &Transport{Server: New(Config{})}, "/v1/chat/completions", chat("[[fault:quota="+f.name+"]]"), "")
		var v struct{ Error json.RawMessage }
		if err := json.Unmarshal([]byte(g.body), &v); err != nil || g.status != f.f.status || !strings.Contains(g.body, strings.Split(f.f.text, "\n")[0]) {
			t.Errorf("%s: got %+v, %v", f.name, g, err)
		}
	}
}
