package provider

// Kind is the class of a failure: what happened, not what to do about it.
// Its String is the name used in files, flags and metrics.
type Kind uint8

// The classes. The zero value, KindNone, stands for no failure.
const (
	KindNone                 Kind = iota
	KindRateLimited               // a minute's limit, or one whose length is not known
	KindDailyLimit                // a day's limit; Error.Reset says until when
	KindRequestTooLarge           // larger than a whole limit: passes never
	KindSlowDown                  // the rate rose too fast
	KindQuotaExhausted            // credit or spend limit used up
	KindRequestTooDear            // this one request costs more than the balance left
	KindInFlightBudget            // the open requests together cost too much; passes when some end
	KindNoQuota                   // the plan has no quota for this model
	KindSharedPool                // the upstream pool shared with other customers is full
	KindConcurrency               // too many requests open at once
	KindOverloaded                // the service has too much to do
	KindBadGateway                // an upstream or edge failed
	KindServer                    // the server failed
	KindServerTimeout             // the server ran out of time, having perhaps billed
	KindConflict                  // 409 and 425
	KindConnect                   // no connection; nothing was sent
	KindConnectTimeout            // no connection in time; nothing was sent
	KindTLS                       // the server's certificate is not trusted, or it speaks no TLS; nothing was sent
	KindTimeoutBeforeHeaders      // sent, and no status came in time
	KindTimeoutMidBody            // the answer began and stalled, or took too long in all
	KindTimeoutMidStream          // the same in a stream
	KindBroken                    // the connection was lost after sending
	KindTruncated                 // the answer ended early
	KindBadContentType            // a success that is no JSON: a proxy's page
	KindEmptyAnswer               // a success without an answer
	KindContextLength             // prompt, or prompt and output, larger than the model's window
	KindContentPolicy             // the input was refused by policy
	KindAuth                      // key refused, or without permission
	KindRegion                    // not served to this place or account
	KindModelNotFound             // model, deployment or path missing
	KindInvalid                   // the request is wrong
	KindUnsupportedParam          // the model does not take a parameter
	KindBodyTooLarge              // the request's body has too many bytes
	KindResponseTooLarge          // the answer passed our cap
	KindRedirectRefused           // a redirect; never followed, for it would carry the key along
	KindDependency                // a dependency of the request failed (Groq 424)
	KindLoading                   // the server is loading the model
	KindCancelled                 // we cancelled, or the server says that we did
	KindToolCallMalformed         // the model's tool call did not fit its schema
	KindOutcomeUnknown            // attempts spent without a whole answer; perhaps billed
	KindLocal                     // this machine is out of descriptors or ports; nothing was sent
	KindOther                     // a refusal no rule knows
	kinds                         // their number
)

var kindNames = [kinds]string{
	KindNone: "", KindRateLimited: "rate_limited", KindDailyLimit: "daily_limit", KindRequestTooLarge: "request_too_large",
	KindSlowDown: "slow_down", KindQuotaExhausted: "quota_exhausted", KindRequestTooDear: "request_too_dear",
	KindInFlightBudget: "in_flight_budget", KindNoQuota: "no_quota", KindSharedPool: "shared_pool",
	KindConcurrency: "concurrency", KindOverloaded: "overloaded", KindBadGateway: "bad_gateway", KindServer: "server",
	KindServerTimeout: "server_timeout", KindConflict: "conflict", KindConnect: "connect",
	KindConnectTimeout: "connect_timeout", KindTLS: "tls", KindTimeoutBeforeHeaders: "timeout_before_headers",
	KindTimeoutMidBody: "timeout_mid_body", KindTimeoutMidStream: "timeout_mid_stream", KindBroken: "broken",
	KindTruncated: "truncated", KindBadContentType: "bad_content_type", KindEmptyAnswer: "empty_answer",
	KindContextLength: "context_length", KindContentPolicy: "content_policy", KindAuth: "auth", KindRegion: "region",
	KindModelNotFound: "model_not_found", KindInvalid: "invalid", KindUnsupportedParam: "unsupported_parameter",
	KindBodyTooLarge: "body_too_large", KindResponseTooLarge: "response_too_large",
	KindRedirectRefused: "redirect_refused", KindDependency: "dependency", KindLoading: "loading",
	KindCancelled: "cancelled", KindToolCallMalformed: "tool_call_malformed", KindOutcomeUnknown: "outcome_unknown",
	KindLocal: "local", KindOther: "other",
}

// String returns the class's name; KindNone has none.
func (k Kind) String() string {
	if k >= kinds {
		return "other"
	}
	return kindNames[k]
}

// ParseKind finds a class by its name.
func ParseKind(name string) (Kind, bool) {
	for k := KindNone + 1; k < kinds; k++ {
		if kindNames[k] == name {
			return k, true
		}
	}
	return KindNone, false
}

// Kinds lists all classes but KindNone.
func Kinds() []Kind {
	all := make([]Kind, 0, kinds-1)
	for k := KindNone + 1; k < kinds; k++ {
		all = append(all, k)
	}
	return all
}
