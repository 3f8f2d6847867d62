package wire

import (
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// KindOfStatus is what a status says by itself.
func KindOfStatus(status int) provider.Kind {
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

// contextTexts are the ways in which servers say that the prompt passes the
// model's window, in lower case. Collected from LiteLLM's exception mapping
// and the servers' sources.
var contextTexts = []string{
	"maximum context length",
	"context_length_exceeded",
	"exceed context limit",
	"prompt is too long",
	"input tokens exceed the configured limit",
	"is longer than the model's context length",
	"model's maximum context limit",
	"exceeds the maximum number of tokens allowed",
	"exceeds the available context size",
	"exceed_context_size_error",
	"tokens + `max_new_tokens` must be",
	"max_tokens must be at least 1, got -", // vLLM: the prompt alone fills the window
	"is too large to process",              // llama.cpp, a 500 that never passes
}

// SaysContext reports a text by which a server says that the prompt, or the
// prompt and its output, pass the model's window.
func SaysContext(text string) bool {
	text = strings.ToLower(text)
	for _, t := range contextTexts {
		if strings.Contains(text, t) {
			return true
		}
	}
	return false
}

// spendTexts are the ways in which Anthropic, also behind gateways, says that
// credit or a spend limit is used up; in lower case.
var spendTexts = []string{"specified api usage limits", "workspace api usage limits", "credit balance is too low"}

// SaysSpend reports a text by which Anthropic says that money is used up.
func SaysSpend(text string) bool {
	text = strings.ToLower(text)
	for _, t := range spendTexts {
		if strings.Contains(text, t) {
			return true
		}
	}
	return false
}
