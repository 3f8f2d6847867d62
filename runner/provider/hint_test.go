package provider

import (
	"net/http"
	"testing"
	"time"
)

// head builds headers from name, value pairs.
func head(kv ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(kv); i += 2 {
		h.Add(kv[i], kv[i+1])
	}
	return h
}

const date = "Thu, 10 Sep 2026 06:00:00 GMT"

func TestWaitHint(t *testing.T) {
	const none = -1
	long := "1"
	for range 299 {
		long += "0"
	}
	tests := []struct {
		h    http.Header
		body time.Duration
		text string
		want time.Duration
	}{
		{head("Retry-After", "12"), none, "", 12 * time.Second},
		{head("Retry-After", " 12 "), none, "", 12 * time.Second},
		{head("Retry-After", "0"), none, "", 0},
		{head("Retry-After", "1.5"), none, "", 1500 * time.Millisecond},
		{head("Retry-After", "0.503"), none, "", 503 * time.Millisecond},
		{head("Retry-After", "-5"), none, "", none},
		{head("Retry-After", "NaN"), none, "", none},
		{head("Retry-After", "+Inf"), none, "", none},
		{head("Retry-After", "soon"), none, "", none},
		{head("Retry-After", ""), none, "", none},
		{head("Retry-After", "0x10"), none, "", none},
		{head("Retry-After", "1e100"), none, "", maxHint},
		{http.Header{}, none, "Please try again in 999999999999h.", maxHint},
		{head("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "999999999999h"), none, "", maxHint},
		{head("Retry-After", "Fri, 01 Jan 2700 00:00:00 GMT"), none, "", maxHint},
		{head("Retry-After", "1e999"), none, "", maxHint},
		{head("Retry-After", long), none, "", maxHint},
		{head("Retry-After", "99999999999"), none, "", maxHint},
		{head("Retry-After", "Thu, 10 Sep 2026 06:02:00 GMT", "Date", date), none, "", 2 * time.Minute},
		{head("Retry-After", "Thursday, 10-Sep-26 06:02:00 GMT", "Date", date), none, "", 2 * time.Minute},
		{head("Retry-After", "Thu Sep 10 06:02:00 2026", "Date", date), none, "", 2 * time.Minute},
		{head("Retry-After", "Thu, 10 Sep 2026 05:00:00 GMT", "Date", date), none, "", 0},
		{head("Retry-After-Ms", "1500", "Retry-After", "2"), none, "", 1500 * time.Millisecond},
		{head("Retry-After", "1", "Retry-After", "30"), none, "", 30 * time.Second},
		{head("Retry-After", "2"), time.Minute, "", 2 * time.Second},
		{head(), 7 * time.Second, "try again in 9.8s", 7 * time.Second},
		{head("X-Ratelimit-Reset-Requests", "1s", "X-Ratelimit-Reset-Tokens", "6m0s", "X-Ratelimit-Remaining-Tokens", "0"), none, "", 6 * time.Minute},
		{head("X-Ratelimit-Reset-Requests", "17ms"), none, "", 17 * time.Millisecond},
		{head("X-Ratelimit-Reset-Requests", "1m30s"), none, "", 90 * time.Second},
		{head("X-Ratelimit-Reset-Tokens", "23h47m36.648s"), none, "", 85656648 * time.Millisecond},
		{head("X-Ratelimit-Reset-Requests", "9s", "X-Ratelimit-Remaining-Requests", "4"), none, "", none},
		{head("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "1789020060000", "Date", date), none, "", time.Minute},
		{head("Anthropic-Ratelimit-Output-Tokens-Remaining", "0", "Anthropic-Ratelimit-Output-Tokens-Reset", "2026-09-10T06:00:42Z", "Date", date), none, "", 42 * time.Second},
		{head(), none, "Limit 3, Used 3. Please try again in 9.8s. Visit us", 9800 * time.Millisecond},
		{head(), none, "Please try again in 1m30s.", 90 * time.Second},
		{head(), none, "Please try again in 120ms", 120 * time.Millisecond},
		{head(), none, "Please retry after 20 seconds.", 20 * time.Second},
		{head(), none, "Please retry in 10h17m5.7s.", 37025700 * time.Millisecond},
		{head(), none, "try again in 2 minutes", 2 * time.Minute},
		{head(), none, "try again later, in 2026", none},
	}
	now := time.Date(2026, 9, 10, 6, 0, 0, 0, time.UTC)
	for _, tt := range tests {
		local := now
		if tt.h.Get("Date") != "" {
			local = now.AddDate(0, 0, -1) // a wrong clock here must not matter
		}
		got, ok := WaitHint(tt.h, tt.body, ParseRate(tt.h, DialectOpenAI, local), tt.text, local)
		if !ok {
			got = none
		}
		if got != tt.want {
			t.Errorf("%v, %q: got %v, want %v", tt.h, tt.text, got, tt.want)
		}
	}
}

func TestParseReset(t *testing.T) {
	now := time.Unix(1705312140, 0)
	for in, want := range map[string]time.Duration{
		"60": time.Minute, "17ms": 17 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "0s": 0,
		"1705312200": time.Minute, "1705312200000": time.Minute, "1705312200.5": 60500 * time.Millisecond,
		"1705312000": 0, "2024-01-15T09:50:00Z": time.Minute, "1e300": maxHint, "999999999999h": maxHint,
		"1d": -1, "-5s": -1, "-5": -1, "soon": -1, "": -1, "T": -1, "NaN": -1,
	} {
		got, ok := parseReset(in, now)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: got %v, want %v", in, got, want)
		}
	}
}

func TestParseRate(t *testing.T) {
	window := func(limit, remaining int64, reset time.Duration) Window { return Window{limit, remaining, reset} }
	none := window(-1, -1, -1)
	tests := []struct {
		name string
		d    Dialect
		h    http.Header
		want Rate
	}{
		{"nothing", DialectOpenAI, head(), Rate{none, none, none, none, none, none}},
		{
			"minute", DialectOpenAI, head("X-Ratelimit-Limit-Requests", "500", "X-Ratelimit-Remaining-Requests", "499", "X-Ratelimit-Reset-Requests", "120ms",
				"X-Ratelimit-Limit-Tokens", "200000", "X-Ratelimit-Remaining-Tokens", "199999", "X-Ratelimit-Reset-Tokens", "0s"),
			Rate{window(500, 499, 120*time.Millisecond), window(200000, 199999, 0), none, none, none, none},
		},
		{
			"requests a day, by their reset", DialectOpenAI, head("X-Ratelimit-Limit-Requests", "10000", "X-Ratelimit-Remaining-Requests", "9999", "X-Ratelimit-Reset-Requests", "8.64s"),
			Rate{none, none, none, none, window(10000, 9999, 8640*time.Millisecond), none},
		},
		{
			"Groq counts requests by the day", DialectGroq, head("X-Ratelimit-Limit-Requests", "14400", "X-Ratelimit-Remaining-Requests", "14370", "X-Ratelimit-Reset-Requests", "2m59.56s",
				"X-Ratelimit-Limit-Tokens", "18000", "X-Ratelimit-Remaining-Tokens", "17997", "X-Ratelimit-Reset-Tokens", "7.66s"),
			Rate{none, window(18000, 17997, 7660*time.Millisecond), none, none, window(14400, 14370, 179560*time.Millisecond), none},
		},
		{
			"Azure: bare seconds, -1", DialectOpenAI, head("X-Ratelimit-Limit-Requests", "-1", "X-Ratelimit-Reset-Requests", "10", "X-Ratelimit-Limit-Tokens", "1000"),
			Rate{window(-1, -1, 10*time.Second), window(1000, -1, -1), none, none, none, none},
		},
		{
			"Mistral", DialectOpenAI, head("X-Ratelimit-Limit-Req-Minute", "60", "X-Ratelimit-Remaining-Req-Minute", "59", "X-Ratelimit-Limit-Tokens-Minute", "500000"),
			Rate{window(60, 59, -1), window(500000, -1, -1), none, none, none, none},
		},
		{
			"Together: no limit learned", DialectTogether, head("X-Ratelimit-Limit", "10", "X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "3"),
			Rate{window(-1, -1, 3*time.Second), none, none, none, none, none},
		},
		{
			"Anthropic", DialectOpenAI, head("Date", date, "Anthropic-Ratelimit-Requests-Limit", "50", "Anthropic-Ratelimit-Requests-Remaining", "49", "Anthropic-Ratelimit-Requests-Reset", "2026-09-10T06:00:01Z",
				"Anthropic-Ratelimit-Input-Tokens-Limit", "40000", "Anthropic-Ratelimit-Output-Tokens-Limit", "8000", "Anthropic-Ratelimit-Tokens-Limit", "48000"),
			Rate{window(50, 49, time.Second), window(48000, -1, -1), window(40000, -1, -1), window(8000, -1, -1), none, none},
		},
		{
			"a project's limit, tighter", DialectOpenAI, head("X-Ratelimit-Limit-Tokens", "1000", "X-Ratelimit-Limit-Project-Tokens", "300", "X-Ratelimit-Remaining-Project-Tokens", "7"),
			Rate{none, window(300, 7, -1), none, none, none, none},
		},
	}
	for _, tt := range tests {
		if got := ParseRate(tt.h, tt.d, time.Now()); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func FuzzHints(f *testing.F) {
	for _, s := range []string{"12", "1e100", "6m0s", "1705312200000", "2026-09-10T06:00:42Z", date, "NaN", "try again in 9.8s", "-"} {
		f.Add(s)
	}
	now := time.Unix(1705312140, 0)
	f.Fuzz(func(t *testing.T, s string) {
		h := head("Retry-After", s, "Retry-After-Ms", s, "X-Ratelimit-Reset-Tokens", s, "X-Ratelimit-Limit-Tokens", s, "Date", s)
		r := ParseRate(h, DialectOpenAI, now)
		d, ok := WaitHint(h, -1, r, s, now)
		if ok && (d < 0 || d > maxHint) || r.Tokens.ResetAfter > maxHint || r.Tokens.Limit < -1 {
			t.Errorf("%q: got %v, %+v: out of bounds", s, d, r.Tokens)
		}
	})
}
