package provider

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxHint bounds a server's hint so that sums with it cannot overflow; such a
// wait is never slept anyway.
const maxHint = 10 * 365 * 24 * time.Hour

// Endless reports a wait that is as long as hints can be: what the server
// named is no moment to come back at.
func Endless(d time.Duration) bool { return d > maxHint-24*time.Hour }

// ServerNow returns the moment the answer was made by the server's own clock,
// so that dates in it are right even if the local clock is not; local without
// a readable Date header.
func ServerNow(h http.Header, local time.Time) time.Time {
	if t, err := http.ParseTime(h.Get("Date")); err == nil {
		return t
	}
	return local
}

// WaitHint returns how long a refusing server asks to wait. The first source
// that says something wins: Retry-After-Ms, Retry-After, the body's own field
// (negative = none), the reset of the limit that has nothing left, the text.
// local is used where the answer has no Date. Call it for errors alone: with a
// success the headers mean nothing (Anthropic sends them all the same).
func WaitHint(h http.Header, body time.Duration, rate Rate, text string, local time.Time) (time.Duration, bool) {
	if d, ok := retryAfter(h, ServerNow(h, local)); ok {
		return d, true
	}
	if body >= 0 {
		return body, true
	}
	if d, ok := rate.emptyReset(); ok {
		return d, true
	}
	return textHint(text)
}

// retryAfter reads Retry-After-Ms, then Retry-After (seconds, or a date in
// any of HTTP's three forms). Of several values the longest counts.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	longest, found := time.Duration(0), false
	for _, v := range h.Values("Retry-After-Ms") {
		if d, ok := number(v, time.Millisecond); ok {
			longest, found = max(longest, d), true
		}
	}
	if found {
		return longest, true
	}
	for _, v := range h.Values("Retry-After") {
		if d, ok := number(v, time.Second); ok {
			longest, found = max(longest, d), true
		} else if t, err := http.ParseTime(strings.TrimSpace(v)); err == nil {
			longest, found = max(longest, until(now, t)), true
		}
	}
	return longest, found
}

// until returns the time from now to t, within 0 and maxHint. Sub saturates.
func until(now, t time.Time) time.Duration { return min(max(t.Sub(now), 0), maxHint) }

// number reads a plain decimal number of units. Negative, NaN, infinite and
// hexadecimal ones are no hint; numbers past any sense are maxHint.
func number(v string, unit time.Duration) (time.Duration, bool) {
	v = strings.TrimSpace(v)
	if v == "" || strings.Trim(v, "0123456789.eE+-") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil && !math.IsInf(f, 1) || f < 0 || math.IsNaN(f) {
		return 0, false
	}
	if f >= float64(maxHint)/float64(unit) {
		return maxHint, true
	}
	return time.Duration(math.Round(f * float64(unit))), true
}

// Seconds converts a number of seconds as a body gives it; false if it is no
// hint (negative, NaN).
func Seconds(text string) (time.Duration, bool) { return number(text, time.Second) }

// parseReset reads a reset header in any of the forms in use, told apart by
// the value: a time stamp, a Go duration, Unix milliseconds, Unix seconds, or
// seconds from now. Unreadable and negative values are none.
func parseReset(v string, now time.Time) (time.Duration, bool) {
	v = strings.TrimSpace(v)
	if v == "" {
		return 0, false
	}
	if strings.Contains(v, "T") {
		t, err := time.Parse(time.RFC3339, v)
		return until(now, t), err == nil
	}
	if last := v[len(v)-1]; 'a' <= last && last <= 'z' {
		return duration(v)
	}
	d, ok := number(v, time.Second)
	if !ok {
		return 0, false
	}
	// Past 1e9 a number is an epoch; number has capped what does not fit, so
	// the magnitude is taken from the text.
	switch f, _ := strconv.ParseFloat(v, 64); {
	case f >= 1e15:
		return maxHint, true
	case f > 1e11: // in seconds that would be the year 5138
		return until(now, time.UnixMilli(int64(f))), true
	case f >= 1e9:
		return until(now, time.UnixMilli(int64(f*1000))), true
	}
	return d, true
}

var durationForm = regexp.MustCompile(`^(?:[0-9]+(?:\.[0-9]*)?(?:h|ms|us|ns|m|s))+$`)

// duration reads a Go duration; one too large for it is maxHint.
func duration(v string) (time.Duration, bool) {
	d, err := time.ParseDuration(v)
	if err != nil {
		return maxHint, durationForm.MatchString(v)
	}
	return min(d, maxHint), d >= 0
}

// emptyReset returns the longest reset among the limits that have nothing
// left; if no remaining count was given at all, the longest of all resets.
func (r Rate) emptyReset() (time.Duration, bool) {
	longest, unsaid := time.Duration(-1), time.Duration(-1)
	counted := false
	for _, w := range r.windows() {
		switch {
		case w.Remaining == 0:
			longest = max(longest, w.ResetAfter)
			counted = true
		case w.Remaining > 0:
			counted = true
		default:
			unsaid = max(unsaid, w.ResetAfter)
		}
	}
	if !counted {
		longest = unsaid
	}
	return max(longest, 0), longest >= 0
}

var (
	hintDuration = regexp.MustCompile(`(?i)(?:try again|retry|wait)(?:ing)? (?:in|after|for) ((?:[0-9]+(?:\.[0-9]+)?(?:h|ms|m|s))+)(?:[^a-z0-9]|$)`)
	hintWords    = regexp.MustCompile(`(?i)(?:try again|retry|wait)(?:ing)? (?:in|after|for) ([0-9]+(?:\.[0-9]+)?) ?(millisecond|second|sec|minute|min|hour|day)`)
)

// textHint finds a wait in a message: "try again in 9.8s", "retry after 20
// seconds", "retry in 10h17m5.7s".
func textHint(s string) (time.Duration, bool) {
	if m := hintDuration.FindStringSubmatch(s); m != nil {
		if d, ok := duration(strings.ToLower(m[1])); ok {
			return d, true
		}
	}
	m := hintWords.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	unit := map[string]time.Duration{
		"millisecond": time.Millisecond, "second": time.Second, "sec": time.Second,
		"minute": time.Minute, "min": time.Minute, "hour": time.Hour, "day": 24 * time.Hour,
	}[strings.ToLower(m[2])]
	return number(m[1], unit)
}
