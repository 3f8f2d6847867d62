package fake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// reply is what goes out; it is accounted for before the first byte of it is written.
type reply struct {
	status int
	ctype  string // "" = application/json
	header http.Header
	body   []byte
	short  int  // > 0: the connection is cut after this many bytes of the body
	cut    bool // the connection is cut before any byte
}

// aborts says whether the connection does not survive the reply.
func (r *reply) aborts() bool { return r.cut || r.short > 0 }

func (r *reply) set(key, value string) {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header[key] = []string{value}
}

// write sends the reply; it panics with http.ErrAbortHandler to cut the connection.
func (r *reply) write(w http.ResponseWriter) {
	if r.cut {
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	for k, v := range r.header {
		h[k] = v
	}
	if r.ctype == "" {
		r.ctype = "application/json"
	}
	h["Content-Type"] = []string{r.ctype}
	h["Content-Length"] = []string{strconv.Itoa(len(r.body))}
	w.WriteHeader(r.status)
	if r.short == 0 {
		_, _ = w.Write(r.body) // a client that has gone is no fault of the server's
		return
	}
	_, _ = w.Write(r.body[:min(r.short, len(r.body))])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// anthropicTypes are the error types that Anthropic sends with a status.
var anthropicTypes = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
	409: "conflict_error", 413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 504: "timeout_error", 529: "overloaded_error",
}

// failure builds an error answer in the style's dialect. typ and code are OpenAI's; code "" is null; meta is OpenRouter's metadata.
func (s *Server) failure(status int, typ, code, message string, meta map[string]any) reply {
	var v any
	switch s.cfg.Style {
	case Anthropic:
		typ := anthropicTypes[status]
		if typ == "" {
			typ = anthropicTypes[500]
		}
		v = map[string]any{"type": "error", "error": map[string]any{"type": typ, "message": message}}
	case OpenRouter:
		e := map[string]any{"code": status, "message": message}
		if meta != nil {
			e["metadata"] = meta
		}
		v = map[string]any{"error": e, "user_id": "user_mock"}
	default:
		e := map[string]any{"message": message, "type": typ, "param": nil, "code": nil}
		if code != "" {
			e["code"] = code
		}
		v = map[string]any{"error": e}
	}
	return reply{status: status, body: encode(v)}
}

// encode renders JSON as a server does: <, > and & stand for themselves.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only maps, slices, strings and numbers come here
	}
	return b.Bytes()
}

// refuse builds the answer to a call that a limit refused.
func (s *Server) refuse(c *call, no *refusal, st *[numLimits]standing) reply {
	unit := [...]string{"requests per min (RPM)", "tokens per min (TPM)", "requests per day (RPD)", "tokens per day (TPD)"}
	typ := "requests"
	if no.index == limTokens || no.index == limTokensDay {
		typ = "tokens"
	}
	source := "openrouter_free_tier_per_minute"
	var text string
	switch {
	case no.tooLarge:
		text = fmt.Sprintf("Request too large for %s in organization org-mock on %s: Limit %d, Requested %d. The input or output tokens must be reduced in order to run successfully.",
			c.model, unit[no.index], no.limit, no.asked)
	case no.index < 0:
		text = fmt.Sprintf("Too many concurrent requests: Limit %d, Used %d.", no.limit, no.used)
		source = "upstream_provider_shared_pool"
	default:
		text = fmt.Sprintf("Rate limit reached for %s in organization org-mock on %s: Limit %d, Used %d, Requested %d. Please try again in %s.",
			c.model, unit[no.index], no.limit, no.used, no.asked, tryAgain(no.wait))
		if no.index >= limRequestsDay {
			source = "openrouter_free_tier_daily"
		}
	}
	r := s.failure(http.StatusTooManyRequests, typ, "rate_limit_exceeded", text,
		map[string]any{"limit_source": source, "error_type": "rate_limit_exceeded"})
	switch {
	case no.tooLarge && s.cfg.Style == OpenAI:
		r.set("X-Should-Retry", "false")
	case no.tooLarge:
	case s.cfg.Style == OpenRouter && no.index >= 0:
		at := time.Unix(0, s.now()).Add(no.wait)
		r.set("X-Ratelimit-Limit", strconv.FormatInt(no.limit, 10))
		r.set("X-Ratelimit-Remaining", strconv.FormatInt(max(0, no.limit-no.used), 10))
		r.set("X-Ratelimit-Reset", strconv.FormatInt(at.Add(time.Millisecond-1).UnixMilli(), 10))
	default:
		s.hint(&r, no.wait)
	}
	s.rates(&r, st)
	return r
}

// tryAgain prints a wait as OpenAI's text does: 9.8s, 520ms, 6m12s.
func tryAgain(d time.Duration) string {
	d = (d + time.Millisecond - 1).Truncate(time.Millisecond)
	if d > time.Minute {
		d = (d + time.Second - 1).Truncate(time.Second)
	}
	return d.String()
}

// hint sets retry-after in the styles that have it: whole seconds, at least 1, and decimals where the "minute" is scaled down.
func (s *Server) hint(r *reply, wait time.Duration) {
	if s.cfg.Style == OpenRouter || s.cfg.Style == NoHeaders {
		return
	}
	if s.cfg.WindowLength < time.Minute {
		r.set("Retry-After", strconv.FormatFloat(math.Ceil(wait.Seconds()*1000)/1000, 'f', -1, 64))
		return
	}
	r.set("Retry-After", strconv.FormatInt(max(1, int64(math.Ceil(wait.Seconds()))), 10))
}

// rates sets the headers that state limits on every answer.
func (s *Server) rates(r *reply, st *[numLimits]standing) {
	for i, name := range [...]string{limRequests: "Requests", limTokens: "Tokens"} {
		w := st[i]
		if w.limit == 0 {
			continue
		}
		switch s.cfg.Style {
		case OpenAI:
			r.set("X-Ratelimit-Limit-"+name, strconv.FormatInt(w.limit, 10))
			r.set("X-Ratelimit-Remaining-"+name, strconv.FormatInt(w.left, 10))
			r.set("X-Ratelimit-Reset-"+name, (w.reset + time.Millisecond - 1).Truncate(time.Millisecond).String())
		case Anthropic:
			if i == limTokens && s.cfg.Accounting == In {
				name = "Input-Tokens"
			}
			r.set("Anthropic-Ratelimit-"+name+"-Limit", strconv.FormatInt(w.limit, 10))
			r.set("Anthropic-Ratelimit-"+name+"-Remaining", strconv.FormatInt(w.left, 10))
			r.set("Anthropic-Ratelimit-"+name+"-Reset", time.Unix(0, s.now()).Add(w.reset).UTC().Format(time.RFC3339))
		}
	}
}
