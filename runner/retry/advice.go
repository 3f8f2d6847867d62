package retry

import (
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// Transient reports the classes that a later run puts back by itself: the
// cause lay with the server, the network or the account, not with the item.
func Transient(k provider.Kind) bool {
	switch group(k) {
	case own, sample:
		return false
	default:
		return k != provider.KindNone
	}
}

// Hopeless reports the classes whose cause lies with the item: as it is, it fails
// again.
func Hopeless(k provider.Kind) bool { return k != provider.KindNone && group(k) == own }

// Configured is Advice where a config file says where calls go, and to which model.
func Configured(k provider.Kind) string {
	return strings.NewReplacer("check --model", "check the model", "another --model", "another model", "--base-url", "base_url in the config file").Replace(Advice(k))
}

// Advice says in one line what to do about a class.
func Advice(k provider.Kind) string {
	switch k {
	case provider.KindRateLimited, provider.KindSlowDown:
		return "run again later, or give lower --rpm and --tpm"
	case provider.KindDailyLimit:
		return "run again after the reset; finished operations are not sent again"
	case provider.KindRequestTooLarge:
		return "lower --max-tokens, split the prompt, or ask for a higher limit"
	case provider.KindRequestTooDear:
		return "lower --max-tokens or add credit"
	case provider.KindQuotaExhausted:
		return "add credit or raise the spend limit with the provider, then run again"
	case provider.KindInFlightBudget, provider.KindConcurrency:
		return "give a lower --concurrency"
	case provider.KindNoQuota:
		return "the plan has no quota for this model: choose another --model or plan"
	case provider.KindSharedPool, provider.KindOverloaded, provider.KindBadGateway, provider.KindServer, provider.KindConflict:
		return "the provider's side failed: run again later"
	case provider.KindServerTimeout, provider.KindTimeoutBeforeHeaders, provider.KindTimeoutMidBody, provider.KindTimeoutMidStream:
		return "lower --max-tokens or raise --timeout; the calls may have been billed"
	case provider.KindConnect, provider.KindConnectTimeout:
		return "check --base-url, the network and the proxy variables, then run again"
	case provider.KindTLS:
		return "check --base-url and the system's certificates; SSL_CERT_FILE names others"
	case provider.KindBroken, provider.KindTruncated, provider.KindBadContentType:
		return "something between here and the provider cuts answers: check proxies, then run again"
	case provider.KindOutcomeUnknown:
		return "no whole answer came and the calls may have been billed: compare with the provider's usage page, then run again"
	case provider.KindEmptyAnswer, provider.KindToolCallMalformed:
		return "the model gave no usable answer: --retry-failed samples again"
	case provider.KindContextLength:
		return "shorten the prompt or choose a model with a larger window"
	case provider.KindContentPolicy:
		return "the provider refuses this prompt: change it"
	case provider.KindAuth:
		return "check the key and what it may do, and that it belongs to this provider"
	case provider.KindRegion:
		return "the provider does not serve this place or account"
	case provider.KindModelNotFound:
		return "check --model, and that --base-url ends as the provider says (often in /v1)"
	case provider.KindInvalid, provider.KindOther:
		return "correct what the message names, then run again"
	case provider.KindUnsupportedParam:
		return "the model does not take this parameter: change the line, or --max-tokens to the name that it takes"
	case provider.KindBodyTooLarge:
		return "make the request smaller"
	case provider.KindResponseTooLarge:
		return "lower --max-tokens or the number of inputs"
	case provider.KindRedirectRefused:
		return "give the address that the redirect leads to as --base-url"
	case provider.KindDependency:
		return "something that the request names failed: check its URLs and tools"
	case provider.KindLoading:
		return "wait until the server has loaded the model, then run again"
	case provider.KindLocal:
		return "raise the limit of open files (ulimit -n) or lower --concurrency"
	default:
		return "run again"
	}
}
