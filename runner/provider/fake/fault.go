package fake

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// FaultDoc describes a fault that a prompt can name.
type FaultDoc struct {
	Marker string // as written in a prompt, such as [[fault:slow=3s]]
	Doc    string
}

// A fault turns the answer of a call into something else.
type fault struct {
	name, arg string // arg: what stands behind "=" in help; "" = none is taken
	doc       string
	billed    bool // the answer is computed (latency passes, the call is billed) before it is spoilt
	// play changes r, which holds the complete answer if billed. A nil play leaves it.
	play func(s *Server, c *call, r *reply, arg string)
}

const faultOpen, faultClose = "[[fault:", "]]"

// faults is the table; a status such as [[fault:503]] is none of its rows.
var faults = [...]fault{
	{"retryafter", "SECONDS", "429 with this Retry-After, in every style", false, func(s *Server, c *call, r *reply, arg string) {
		*r = s.statusFailure(429)
		r.set("Retry-After", arg)
	}},
	{"slowdown", "", "429 slow_down: the rate grew too fast", false, func(s *Server, c *call, r *reply, _ string) {
		*r = s.failure(429, "rate_limit_error", "slow_down", "Slow down: your request rate grew too fast.", nil)
		s.hint(r, time.Second)
	}},
	{"daily", "", "429 on the day's limit, to be reset at the next UTC midnight", false, (*Server).playDaily},
	{"quota", "", "429 insufficient_quota: the credit is spent", false, func(s *Server, _ *call, r *reply, _ string) { *r = s.quota() }},
	{"auth", "", "401 invalid_api_key", false, func(s *Server, _ *call, r *reply, _ string) { *r = s.unauthorized() }},
	{"model", "", "404 model_not_found", false, func(s *Server, c *call, r *reply, _ string) { *r = s.noModel(c.model) }},
	{"context", "", "400 context_length_exceeded", false, func(s *Server, c *call, r *reply, _ string) {
		*r = s.failure(400, "invalid_request_error", "context_length_exceeded", fmt.Sprintf(
			"This model's maximum context length is 8192 tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.", c.prompt+8192),
			map[string]any{"error_type": "context_length_exceeded"})
	}},
	{"policy", "", "400 content_policy_violation", false, func(s *Server, _ *call, r *reply, _ string) {
		*r = s.failure(400, "invalid_request_error", "content_policy_violation", "Your request was rejected as a result of our safety system.",
			map[string]any{"error_type": "content_policy_violation"})
	}},
	{"invalid", "", "400 invalid_request_error", false, func(s *Server, _ *call, r *reply, _ string) {
		*r = s.failure(400, "invalid_request_error", "invalid_value", "Invalid value for 'temperature'.", nil)
	}},
	{"unsupported", "", "400 unsupported_parameter for max_tokens", false, func(s *Server, _ *call, r *reply, _ string) {
		*r = s.failure(400, "invalid_request_error", "unsupported_parameter",
			"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", nil)
	}},
	{"hang", "", "no answer until the client gives up", false, nil},
	{"drop", "", "the connection is cut before an answer; nothing was computed or billed", false, func(_ *Server, _ *call, r *reply, _ string) {
		*r = reply{cut: true}
	}},
	{"lost", "", "the answer is computed and billed, then the connection is cut", true, func(_ *Server, _ *call, r *reply, _ string) {
		*r = reply{cut: true}
	}},
	{"truncated", "", "200, the connection is cut in the middle of the body", true, func(_ *Server, _ *call, r *reply, _ string) {
		r.short = len(r.body) / 2
	}},
	{"short", "", "200 with half the JSON, the length header agreeing", true, func(_ *Server, _ *call, r *reply, _ string) {
		r.body = r.body[:len(r.body)/2]
	}},
	{"html", "", "200 with a proxy's HTML page", false, func(_ *Server, _ *call, r *reply, _ string) {
		*r = reply{status: 200, ctype: "text/html", body: []byte("<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Checking your browser</body></html>\n")}
	}},
	{"htmlerror", "", "502 with a proxy's HTML page", false, func(_ *Server, _ *call, r *reply, _ string) {
		*r = reply{status: 502, ctype: "text/html", body: []byte("<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>\n")}
	}},
	{"empty", "", "200 without a choice", true, func(_ *Server, c *call, r *reply, _ string) {
		r.body = fmt.Appendf(nil, `{"id":"chatcmpl-empty","object":"chat.completion","created":%d,"model":"%s","choices":[],"output":[],"data":[],"usage":{"prompt_tokens":%d,"completion_tokens":0,"total_tokens":%d}}`,
			created, c.model, c.prompt, c.prompt)
	}},
	{"error200", "", "200 whose body is an error object", false, func(s *Server, _ *call, r *reply, _ string) {
		*r = s.failure(500, "server_error", "server_error", "The server had an error while processing your request.", nil)
		r.status = 200
	}},
	{"choice_error", "", "200 whose choice (or response) failed", true, nil},
	{"length", "", "200, cut at the output cap (finish_reason length)", true, nil},
	{"refusal", "", "200, the model refuses", true, nil},
	{"filter", "", "200, finish_reason content_filter", true, nil},
	{"redirect", "", "307 to another path of the same host", false, func(_ *Server, c *call, r *reply, _ string) {
		*r = reply{status: http.StatusTemporaryRedirect}
		r.set("Location", redirected+c.api)
	}},
	{"bomb", "", "200, 64 KiB of gzip that unpack to 64 MiB", true, func(s *Server, _ *call, r *reply, _ string) {
		r.body = s.bomb()
		r.set("Content-Encoding", "gzip")
	}},
	{"slow", "DURATION", "the answer takes that much longer", true, nil},
}

// redirected is the path under which calls that followed [[fault:redirect]] arrive.
const redirected = "/redirected"

// Faults lists every fault that a prompt can name, for help texts.
func Faults() []FaultDoc {
	docs := []FaultDoc{{faultOpen + "429" + faultClose, "any status from 400 to 599, with the body that the style has for it"}}
	for _, f := range faults {
		m := f.name
		if f.arg != "" {
			m += "=" + f.arg
		}
		docs = append(docs, FaultDoc{faultOpen + m + faultClose, f.doc})
	}
	return append(docs, FaultDoc{
		faultOpen + "500x2" + faultClose,
		"xN behind any of them: only the first N calls with this body; several in one prompt are played in their order",
	})
}

// scripted is one marker of a prompt.
type scripted struct {
	name, arg string
	times     uint64 // 0 = every call
}

// nextMarker finds the first marker in b and what follows it.
func nextMarker(b []byte) (m scripted, rest []byte, ok bool) {
	_, b, ok = bytes.Cut(b, []byte(faultOpen))
	if !ok {
		return m, nil, false
	}
	text, rest, ok := bytes.Cut(b, []byte(faultClose))
	if !ok {
		return m, nil, false
	}
	m.name = strings.TrimSpace(string(text))
	if i := strings.LastIndexByte(m.name, 'x'); i > 0 {
		if n, err := strconv.ParseUint(m.name[i+1:], 10, 32); err == nil {
			m.name, m.times = strings.TrimSpace(m.name[:i]), n
		}
	}
	m.name, m.arg, _ = strings.Cut(m.name, "=")
	return m, rest, true
}

// scriptedFault returns the marker that the nth call (from 1) with this body plays.
func scriptedFault(body []byte, n uint64) (scripted, bool) {
	for m, rest, ok := nextMarker(body); ok; m, rest, ok = nextMarker(rest) {
		if m.times == 0 || n <= m.times {
			return m, true
		}
		n -= m.times
	}
	return scripted{}, false
}

// lookup finds a marker's row, or makes one for a status.
func lookup(m scripted) (fault, bool) {
	for _, f := range faults {
		if f.name == m.name && (f.arg != "") == (m.arg != "") {
			return f, true
		}
	}
	status, err := strconv.Atoi(m.name)
	if err != nil || status < 400 || status > 599 || m.arg != "" {
		return fault{}, false
	}
	return fault{name: m.name, play: func(s *Server, _ *call, r *reply, _ string) { *r = s.statusFailure(status) }}, true
}

// statusFailure is a plain error of this status.
func (s *Server) statusFailure(status int) reply {
	switch status {
	case 429:
		r := s.failure(429, "requests", "rate_limit_exceeded", "Rate limit reached for requests. Please try again in 1s.",
			map[string]any{"limit_source": "upstream_provider_shared_pool", "error_type": "rate_limit_exceeded"})
		s.hint(&r, time.Second)
		return r
	case 503, 529:
		return s.failure(status, "service_unavailable_error", "server_is_overloaded", "The server is overloaded. Please try again later.",
			map[string]any{"error_type": "provider_overloaded"})
	}
	if status >= 500 {
		return s.failure(status, "server_error", "", "The server had an error while processing your request.", map[string]any{"error_type": "server"})
	}
	return s.failure(status, "invalid_request_error", "", http.StatusText(status), nil)
}

func (s *Server) playDaily(_ *call, r *reply, _ string) {
	const day = 24 * time.Hour
	now := time.Unix(0, s.now()).UTC()
	wait := now.Truncate(day).Add(day).Sub(now)
	*r = s.failure(429, "requests", "rate_limit_exceeded", "Rate limit reached on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in "+tryAgain(wait)+".",
		map[string]any{"limit_source": "openrouter_free_tier_daily", "error_type": "rate_limit_exceeded"})
	if s.cfg.Style == OpenRouter {
		r.set("X-Ratelimit-Limit", "50")
		r.set("X-Ratelimit-Remaining", "0")
		r.set("X-Ratelimit-Reset", strconv.FormatInt(now.Add(wait).UnixMilli(), 10))
		return
	}
	s.hint(r, wait)
}

// quota is each dialect's answer when the credit is spent; none says when to come back.
func (s *Server) quota() reply {
	status := 429
	switch s.cfg.Style {
	case Anthropic:
		return reply{status: status, body: encode(map[string]any{"type": "error", "error": map[string]any{
			"type":    "rate_limit_error",
			"message": "This request would exceed your monthly spend limit.", "details": map[string]any{"error_code": "enforced_spend_limit_reached"},
		}})}
	case OpenRouter:
		status = 402
	}
	return s.failure(status, "insufficient_quota", "insufficient_quota", "You exceeded your current quota, please check your plan and billing details.",
		map[string]any{"limit_source": "openrouter_credits", "error_type": "payment_required"})
}

func (s *Server) unauthorized() reply {
	return s.failure(401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided.", map[string]any{"error_type": "authentication"})
}

func (s *Server) noModel(model string) reply {
	return s.failure(404, "invalid_request_error", "model_not_found", "The model `"+model+"` does not exist or you do not have access to it.",
		map[string]any{"error_type": "not_found"})
}

// bomb is a small gzip stream that unpacks to 64 MiB of a valid JSON object. Its blanks are one packed MiB, repeated as
// members of the stream.
func (s *Server) bomb() []byte {
	s.bombOnce.Do(func() {
		s.bombBody = bytes.Join([][]byte{
			pack([]byte(`{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"`)),
			bytes.Repeat(pack(bytes.Repeat([]byte(" "), 1<<20)), 64),
			pack([]byte(`"}}]}`)),
		}, nil)
	})
	return s.bombBody
}

func pack(text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(text) // a bytes.Buffer takes everything
	_ = z.Close()
	return b.Bytes()
}
