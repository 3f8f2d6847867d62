package fake

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
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
	name, arg string // arg: what stands behind "=" in help; "" = none is taken, in brackets = it can be left out
	doc       string
	billed    bool // the answer is computed (latency passes, the call is billed) before it is spoilt
	// play changes r, which holds the complete answer if billed. Without a play the answer is built as the fault has it.
	play func(s *Server, c *call, r *reply, arg string)
}

func (f *fault) optional() bool { return strings.HasPrefix(f.arg, "[") }

// faults is the table; a status such as [[fault:503]] is none of its rows. Bodies are in the dialect of the call.
var faults = [...]fault{
	{"retryafter", "SECONDS", "429 with this Retry-After, in every style", false, func(_ *Server, c *call, r *reply, arg string) {
		*r = c.statusFailure(429)
		r.set("Retry-After", arg)
	}},
	{"slowdown", "", "429: the rate grew too fast", false, func(_ *Server, c *call, r *reply, _ string) { *r = c.slowDown() }},
	{"overloaded", "", "the provider is overloaded: 529, 503 or 498", false, func(_ *Server, c *call, r *reply, _ string) { *r = c.overloaded() }},
	{"daily", "[DIALECT]", "the day's limit, in the call's dialect or another of --headers", false, func(s *Server, c *call, r *reply, arg string) { *r = s.daily(c, arg) }},
	{"quota", "[FORM]", "the credit is spent: insufficient_quota, or as the forms below say", false, func(s *Server, c *call, r *reply, arg string) { *r = s.quota(c, arg) }},
	{"auth", "", "401 (Gemini: 400): the key is wrong", false, func(_ *Server, c *call, r *reply, _ string) { *r = c.unauthorized() }},
	{"region", "", "403 (Gemini: 400): not served in this country", false, func(_ *Server, c *call, r *reply, _ string) { *r = c.region() }},
	{"model", "", "404: no such model", false, func(_ *Server, c *call, r *reply, _ string) { *r = c.noModel() }},
	{"context", "", "400: the prompt is longer than the context", false, func(_ *Server, c *call, r *reply, _ string) { *r = c.tooLong() }},
	{"policy", "", "the prompt is against the policy: 400, Gemini's 200 with a blockReason, OpenRouter's 403", false, func(_ *Server, c *call, r *reply, _ string) { *r = c.blocked() }},
	{"moderation", "", "403 with reasons and flagged_input, as OpenRouter moderates", false, func(_ *Server, c *call, r *reply, _ string) { *r = c.moderated() }},
	{"invalid", "", "400: a bad parameter", false, func(_ *Server, c *call, r *reply, _ string) {
		*r = c.fail(failure{status: 400, typ: "invalid_request_error", code: "invalid_value", text: "Invalid value for 'temperature'."})
	}},
	{"unsupported", "", "400 unsupported_parameter for max_tokens", false, func(_ *Server, c *call, r *reply, _ string) {
		*r = c.fail(failure{
			status: 400, typ: "invalid_request_error", code: "unsupported_parameter",
			text: "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
		})
	}},
	{"hang", "", "no answer until the client gives up", false, nil},
	{"drop", "", "the connection is cut before an answer; nothing was computed or billed", false, func(_ *Server, _ *call, r *reply, _ string) {
		*r = reply{cut: true}
	}},
	{"lost", "", "the answer is computed and billed, then the connection is cut", true, func(_ *Server, _ *call, r *reply, _ string) {
		*r = reply{cut: true}
	}},
	{"truncated", "", "200, the connection is cut in the middle of the body or stream", true, func(_ *Server, _ *call, r *reply, _ string) {
		r.short = len(r.body) / 2
	}},
	{"short", "", "200 with half the JSON, the length header agreeing; half a stream, its end a clean one", true, func(_ *Server, _ *call, r *reply, _ string) {
		r.body = r.body[:len(r.body)/2]
	}},
	{"html", "", "200 with a proxy's HTML page", false, func(_ *Server, _ *call, r *reply, _ string) {
		*r = reply{status: 200, ctype: "text/html", body: []byte("<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Checking your browser</body></html>\n")}
	}},
	{"htmlerror", "", "502 with a proxy's HTML page", false, func(_ *Server, _ *call, r *reply, _ string) {
		*r = reply{status: 502, ctype: "text/html", body: []byte("<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>\n")}
	}},
	{"empty", "", "200 without a choice", true, func(_ *Server, c *call, r *reply, _ string) { r.body = c.empty() }},
	{"error200", "", "200 whose body is an error object", false, func(_ *Server, c *call, r *reply, _ string) {
		*r = c.fail(failure{status: 500, typ: "server_error", code: "server_error", text: "The server had an error while processing your request."})
		r.status = 200
	}},
	{"choice_error", "", "200 whose choice (or response) failed", true, nil},
	{"length", "", "200, cut at the output cap", true, nil},
	{"refusal", "", "200, the model refuses", true, nil},
	{"filter", "", "200, the answer was filtered (content_filter, refusal, SAFETY)", true, nil},
	{"tool", "", "200, the model calls the first tool that it is offered", true, nil},
	{"finish", "REASON", "200 with this finish_reason, stop_reason or finishReason", true, nil},
	{"redirect", "", "307 to another path of the same host", false, func(_ *Server, c *call, r *reply, _ string) {
		*r = reply{status: http.StatusTemporaryRedirect}
		r.set("Location", redirected+c.path())
	}},
	{"bomb", "", "200, 64 KiB of gzip that unpack to 64 MiB", true, func(s *Server, _ *call, r *reply, _ string) {
		r.body = s.bomb()
		r.set("Content-Encoding", "gzip")
	}},
	{"blank", "", "200 whose text is empty, as at a cold start", true, nil},
	{"hint", "SECONDS", "200 with a Retry-After, which means nothing", true, nil},
	{"wrapped", "", "503 whose body is an array of one error, as Gemini's are at times", false, func(_ *Server, c *call, r *reply, _ string) {
		*r = c.overloaded()
		r.body = slices.Concat([]byte{'['}, bytes.TrimSpace(r.body), []byte{']'})
	}},
	{"slow", "DURATION", "the answer takes that much longer", true, nil},
	{"keepalive", "DURATION", "the same, with ten comments, pings or blank lines meanwhile", true, nil},
	{"stream_cut", "N", "a stream's connection is cut after N pieces of text; so far, and below, whole answers are left alone", true, nil},
	{"stream_lost", "N", "the same, but the answer is computed to its end and can be looked up", true, nil},
	{"stream_stall", "N", "a stream is silent after N pieces until the client gives up", true, nil},
	{"stream_end", "[N]", "a stream ends after N pieces or half of them, cleanly and with no finish reason", true, nil},
	{"stream_error", "[TYPE]", "a stream has an error event half way: overloaded, rate or server", true, nil},
	{"stream_undone", "", "a stream has all but its terminator ([DONE], message_stop, response.completed)", true, nil},
	{"stream_open", "", "a stream is whole, then the connection stays open until the client leaves", true, nil},
}

// redirected is the path under which calls that followed [[fault:redirect]] arrive.
const redirected = "/redirected"

// path is the call's own, without a prefix.
func (c *call) path() string {
	switch {
	case c.api == apiGenerate && c.stream:
		return "/models/" + c.model + ":streamGenerateContent?alt=sse"
	case c.api == apiGenerate || c.api == apiEmbed:
		return "/models/" + c.model + ":" + c.api[1:]
	}
	return c.api
}

// Faults lists every fault that a prompt can name, for help texts.
func Faults() []FaultDoc {
	docs := []FaultDoc{{faultOpen + "429" + faultClose, "any status from 400 to 599, with the body that the dialect has for it"}}
	for _, f := range faults {
		m := f.name
		switch {
		case f.optional():
			m += "[=" + f.arg[1:]
		case f.arg != "":
			m += "=" + f.arg
		}
		docs = append(docs, FaultDoc{faultOpen + m + faultClose, f.doc})
	}
	docs = append(docs, FaultDoc{
		faultOpen + "500x2" + faultClose,
		"xN behind any of them: only the first N calls with this body; several in one prompt are played in their order",
	})
	for _, f := range spends {
		docs = append(docs, FaultDoc{faultOpen + "quota=" + f.name + faultClose, fmt.Sprintf("%s: %d", f.style, f.f.status)})
	}
	return docs
}

// shape sets what a fault changes in the answer that is built; delay is the time that the answer takes.
func (c *call) shape(delay time.Duration) (time.Duration, error) {
	switch c.fault {
	case "slow", "keepalive":
		d, err := time.ParseDuration(c.arg)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", c.fault, err)
		}
		delay += d
	case "length":
		c.finish = "length"
	case "filter":
		c.finish = "content_filter"
	case "choice_error":
		c.finish = "error"
	case "tool":
		c.finish = "tool_calls"
	case "finish":
		c.finish = c.arg
	}
	return delay, nil
}
