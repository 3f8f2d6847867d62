package provider

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Dialect says how a provider's rate headers are meant where their names do
// not tell.
type Dialect uint8

const (
	// DialectOpenAI is the zero value: x-ratelimit-*-requests are a minute's
	// or a day's by tier (told apart by their reset), tokens a minute's.
	// Azure's bare seconds, Mistral's and Anthropic's names are read as well.
	DialectOpenAI Dialect = iota
	// DialectGroq: x-ratelimit-*-requests are always a day's.
	DialectGroq
	// DialectTogether: x-ratelimit-limit counts a second and follows traffic,
	// so no limit is learned; the reset is a suggested gap.
	DialectTogether
	// DialectAnthropic: anthropic-ratelimit-tokens is the tightest of the
	// limits or the sum of two of them, so it is none of its own where those
	// for input and output are given.
	DialectAnthropic
)

// ParseRate reads the rate-limit headers of an answer. local stands in where
// it has no Date. Negative and unreadable values count as not said (Azure's
// Responses route sends -1).
func ParseRate(h http.Header, d Dialect, local time.Time) Rate {
	r := NoRate()
	if !saysRate(h) {
		return r
	}
	now := ServerNow(h, local)
	const x = "X-Ratelimit-"
	triple := func(w *Window, limit, remaining, reset string) {
		w.Limit = or(count(h, limit), w.Limit)
		w.Remaining = or(count(h, remaining), w.Remaining)
		if v, ok := parseReset(h.Get(reset), now); ok {
			w.ResetAfter = v
		}
	}
	for _, a := range []struct {
		name string
		w    *Window
	}{
		{"Requests", &r.Requests}, {"Tokens", &r.Tokens}, {"Input-Tokens", &r.Input}, {"Output-Tokens", &r.Output},
	} {
		p := "Anthropic-Ratelimit-" + a.name
		triple(a.w, p+"-Limit", p+"-Remaining", p+"-Reset")
		triple(a.w, x+"Limit-"+a.name, x+"Remaining-"+a.name, x+"Reset-"+a.name)
	}
	triple(&r.Requests, x+"Limit-Req-Minute", x+"Remaining-Req-Minute", "")
	triple(&r.Tokens, x+"Limit-Tokens-Minute", x+"Remaining-Tokens-Minute", "")
	triple(&r.RequestsDay, x+"Limit-Requests-Day", x+"Remaining-Requests-Day", x+"Reset-Requests-Day")
	triple(&r.TokensDay, x+"Limit-Tokens-Day", x+"Remaining-Tokens-Day", x+"Reset-Tokens-Day")
	if d == DialectTogether {
		triple(&r.Requests, "", "", x+"Reset")
	} else {
		triple(&r.Requests, x+"Limit", x+"Remaining", x+"Reset")
	}
	if d == DialectAnthropic {
		if r.Input.Said() || r.Output.Said() {
			r.Tokens = NoRate().Tokens
		}
		return r
	}
	if d == DialectGroq || r.Requests.daily() {
		r.Requests, r.RequestsDay = r.RequestsDay, r.Requests
	}
	// A project's own limit, where it is the tighter one.
	project := NoRate().Tokens
	triple(&project, x+"Limit-Project-Tokens", x+"Remaining-Project-Tokens", x+"Reset-Project-Tokens")
	if project.Limit >= 0 && (r.Tokens.Limit < 0 || project.Limit < r.Tokens.Limit) {
		r.Tokens = project
	}
	return r
}

// saysRate spares most answers of servers without limits some forty look-ups.
func saysRate(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Anthropic-Ratelimit-") {
			return true
		}
	}
	return false
}

// daily tells a day's window from a minute's by its reset, which in a bucket
// that refills evenly is the share used of the whole period; providers round
// it, hence the 2 %. A minute never takes longer than a minute to fill.
func (w Window) daily() bool {
	if w.ResetAfter > 2*time.Minute {
		return true
	}
	used := w.Limit - w.Remaining
	if w.Limit <= 0 || w.Remaining < 0 || used <= 0 || w.ResetAfter <= 0 {
		return false
	}
	period := w.ResetAfter.Seconds() * float64(w.Limit) / float64(used)
	return math.Abs(period-86400) < 0.02*86400
}

// count reads a header that counts; -1 if it is absent, negative or no number.
func count(h http.Header, name string) int64 {
	v := strings.TrimSpace(h.Get(name))
	if v == "" {
		return -1
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= 0 && f < 1<<53) {
		return -1
	}
	return int64(f)
}

// or returns a unless it was not said.
func or(a, b int64) int64 {
	if a >= 0 {
		return a
	}
	return b
}
