package fake

import (
	"math"
	"strconv"
	"time"
)

// rates sets the headers that state limits on every answer.
func (s *Server) rates(c *call, r *reply, st *[numLimits]standing) {
	switch c.hints {
	case OpenAI:
		for i, name := range [...]string{limRequests: "Requests", limTokens: "Tokens"} {
			r.rate("X-Ratelimit-Limit-"+name, "X-Ratelimit-Remaining-"+name, "X-Ratelimit-Reset-"+name, st[i], goDuration(st[i].reset))
		}
	case Groq: // requests are those of the day
		r.rate("X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests", st[limRequestsDay], goDuration(st[limRequestsDay].reset))
		r.rate("X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens", st[limTokens], goDuration(st[limTokens].reset))
	case Azure:
		for i, name := range [...]string{limRequests: "Requests", limTokens: "Tokens"} {
			r.rate("X-Ratelimit-Limit-"+name, "X-Ratelimit-Remaining-"+name, "X-Ratelimit-Reset-"+name, st[i], strconv.FormatInt(int64(math.Ceil(st[i].reset.Seconds())), 10))
		}
	case Mistral:
		r.rate("X-Ratelimit-Limit-Req-Minute", "X-Ratelimit-Remaining-Req-Minute", "", st[limRequests], "")
		r.rate("X-Ratelimit-Limit-Tokens-Minute", "X-Ratelimit-Remaining-Tokens-Minute", "", st[limTokens], "")
		if st[limTokens].limit > 0 {
			r.set("X-Ratelimit-Tokens-Query-Cost", strconv.FormatInt(c.charge, 10))
		}
	case Anthropic:
		s.anthropicRates(c, r, st)
	}
}

// anthropicRates states each limit that there is. "Tokens" is input and output together where those are the limits.
func (s *Server) anthropicRates(c *call, r *reply, st *[numLimits]standing) {
	names := [...]string{limRequests: "Requests", limTokens: "Tokens", limInput: "Input-Tokens", limOutput: "Output-Tokens"}
	all := *st
	in, out := st[limInput], st[limOutput]
	switch {
	case all[limTokens].limit > 0 && c.group.cfg.Accounting == In:
		names[limTokens] = "Input-Tokens"
	case all[limTokens].limit == 0 && in.limit > 0 && out.limit > 0:
		all[limTokens] = standing{in.limit + out.limit, in.left + out.left, max(in.reset, out.reset)}
	}
	now := time.Unix(0, s.now())
	for i, name := range names {
		w := all[i]
		if i != limRequests {
			w.left = rounded(w.left)
		}
		p := "Anthropic-Ratelimit-" + name
		r.rate(p+"-Limit", p+"-Remaining", p+"-Reset", w, now.Add(w.reset).UTC().Format(time.RFC3339))
	}
}

// rounded is how Anthropic states what is left of a token limit: in thousands. Small numbers stay as they are, for
// limits that are small only because a test is.
func rounded(left int64) int64 {
	if left < 20_000 {
		return left
	}
	return (left + 500) / 1000 * 1000
}

// rate states one limit, if there is one. Without a name for it, the reset is left out.
func (r *reply) rate(limit, remaining, reset string, w standing, resetValue string) {
	if w.limit == 0 {
		return
	}
	r.set(limit, strconv.FormatInt(w.limit, 10))
	r.set(remaining, strconv.FormatInt(w.left, 10))
	if reset != "" {
		r.set(reset, resetValue)
	}
}

// goDuration prints a reset as OpenAI and Groq do: 6m0s, 577ms.
func goDuration(d time.Duration) string {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond).String()
}

// identify sets the request's id as the dialect does.
func (r *reply) identify(c *call) {
	switch c.dialect {
	case Anthropic:
		r.set("Request-Id", c.id)
		r.set("Anthropic-Organization-Id", "org-mock")
	case Gemini:
	default:
		r.set("X-Request-Id", c.id)
	}
	if id := c.generationID(); id != "" {
		r.set("X-Generation-Id", id)
	}
}
