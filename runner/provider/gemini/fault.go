package gemini

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// fault is google.rpc.Status as Google's APIs put it into JSON, with what its
// details say.
type fault struct {
	Code    wire.Text       `json:"code"`
	Message wire.Text       `json:"message"`
	Status  wire.Text       `json:"status"`
	Details json.RawMessage `json:"details"`

	reason     string        // of google.rpc.ErrorInfo
	wait       time.Duration // of google.rpc.RetryInfo; negative = none
	violations []violation   // of google.rpc.QuotaFailure
}

type violation struct {
	Metric wire.Text `json:"quotaMetric"`
	ID     wire.Text `json:"quotaId"`
	Value  wire.Text `json:"quotaValue"`
}

const (
	maxText       = 16 << 10 // bytes of text that the recognisers search
	maxViolations = 64
)

// parseFault finds the error in a body, which may be wrapped in a list of one.
func parseFault(body []byte) fault {
	body = wire.Payload(body)
	if len(body) > 0 && body[0] == '[' {
		_ = wire.Each(body, func(first json.RawMessage) bool { body = first; return false })
	}
	var top struct {
		Error json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(body, &top)
	f := fault{wait: -1}
	if !wire.Truthy(top.Error) {
		return f
	}
	if json.Unmarshal(top.Error, &f) != nil && f.Message == "" {
		_ = json.Unmarshal(top.Error, &f.Message) // a gateway's bare text
	}
	f.Message = f.Message[:min(len(f.Message), maxText)]
	_ = wire.Each(f.Details, func(raw json.RawMessage) bool {
		f.detail(raw)
		return true
	})
	return f
}

func (f *fault) detail(raw json.RawMessage) {
	var d struct {
		Type       wire.Text       `json:"@type"`
		Reason     wire.Text       `json:"reason"`
		Delay      wire.Text       `json:"retryDelay"`
		Violations json.RawMessage `json:"violations"`
	}
	_ = json.Unmarshal(raw, &d)
	switch kind := string(d.Type); {
	case strings.HasSuffix(kind, "google.rpc.ErrorInfo"):
		f.reason = string(d.Reason)
	case strings.HasSuffix(kind, "google.rpc.RetryInfo"):
		if seconds, ok := strings.CutSuffix(string(d.Delay), "s"); ok {
			if wait, ok := provider.Seconds(seconds); ok {
				f.wait = wait
			}
		}
	case strings.HasSuffix(kind, "google.rpc.QuotaFailure"):
		_ = wire.Each(d.Violations, func(raw json.RawMessage) bool {
			var v violation
			_ = json.Unmarshal(raw, &v)
			f.violations = append(f.violations, v)
			return len(f.violations) < maxViolations
		})
	}
}

// some reports that there is an error.
func (f *fault) some() bool { return f.Message != "" || f.Status != "" || f.Code != "" }

// refused makes the Error of an answer that is no success.
func (c *Client) refused(reply *provider.Reply) *provider.Error {
	f := parseFault(reply.Body)
	e := c.faulty(reply, &f)
	if e.Message == "" {
		e.Message = c.BodyText(reply)
	}
	return e
}

// unsuccessful makes the Error of a 200 that is no success and names no error.
func (c *Client) unsuccessful(reply *provider.Reply, kind provider.Kind, message string) *provider.Error {
	e := c.Failure(reply, "", message, -1)
	e.Kind = kind
	e.RetryAfter, e.HasRetryAfter = 0, false
	return e
}

// faulty classifies an error, under a status or inside a success.
func (c *Client) faulty(reply *provider.Reply, f *fault) *provider.Error {
	code := string(f.Status)
	if code == "" {
		code = string(f.Code)
	}
	if f.reason != "" {
		code = f.reason
	}
	e := c.Failure(reply, code, string(f.Message), f.wait)
	status := reply.StatusCode
	if status/100 == 2 {
		status, _ = strconv.Atoi(string(f.Code))
	}
	e.Kind = f.kind(status)
	switch e.Kind {
	case provider.KindDailyLimit:
		e.LimitType = "requests_day"
		now := provider.ServerNow(reply.Header, reply.Done)
		e.Reset = reply.Done.Add(pacificMidnight(now).Sub(now))
	case provider.KindRateLimited:
		f.statedLimit(e)
		if spent.MatchString(e.Message) && !e.HasRetryAfter {
			e.RetryAfter, e.HasRetryAfter = spendWait, true
		}
	}
	return e
}

// kind gives the fault its class. Machine fields decide first; text only where
// it alone tells.
func (f *fault) kind(status int) provider.Kind {
	switch f.reason {
	case "API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED", "API_KEY_HTTP_REFERRER_BLOCKED", "API_KEY_IP_ADDRESS_BLOCKED",
		"SERVICE_DISABLED", "CONSUMER_SUSPENDED", "CONSUMER_INVALID":
		return provider.KindAuth
	case "BILLING_DISABLED":
		return provider.KindRegion
	}
	text := strings.ToLower(string(f.Message))
	if status == 402 {
		return provider.KindQuotaExhausted
	}
	switch strings.ToUpper(string(f.Status)) {
	case "INVALID_ARGUMENT", "OUT_OF_RANGE", "INVALID_REQUEST":
		switch {
		case wire.SaysContext(text):
			return provider.KindContextLength
		case strings.Contains(text, "api key not valid"), strings.Contains(text, "api key expired"):
			return provider.KindAuth
		}
		return provider.KindInvalid
	case "FAILED_PRECONDITION":
		return provider.KindRegion
	case "PERMISSION_DENIED", "UNAUTHENTICATED":
		return provider.KindAuth
	case "NOT_FOUND":
		if !strings.Contains(text, "model") && (strings.Contains(text, "file") || strings.Contains(text, "cache")) {
			return provider.KindInvalid // about what the item names
		}
		return provider.KindModelNotFound
	case "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", "TOO_MANY_REQUESTS":
		return f.exhausted(text)
	case "QUOTA_EXCEEDED": // of the Interactions API
		return provider.KindDailyLimit
	case "PAYMENT_REQUIRED":
		return provider.KindQuotaExhausted
	case "CANCELLED":
		return provider.KindCancelled
	case "INTERNAL", "UNKNOWN", "DATA_LOSS":
		return provider.KindServer
	case "UNAVAILABLE", "SERVICE_UNAVAILABLE":
		return provider.KindOverloaded
	case "DEADLINE_EXCEEDED":
		return provider.KindServerTimeout
	case "ABORTED", "ALREADY_EXISTS":
		return provider.KindConflict
	case "UNIMPLEMENTED":
		return provider.KindInvalid
	}
	switch {
	case status == 429:
		return f.exhausted(text)
	case status < 400:
		return provider.KindServer
	}
	return wire.KindOfStatus(status)
}

var (
	perDay    = regexp.MustCompile(`(?i)per[ _-]?day|\bRPD\b|daily`)
	noLimit   = regexp.MustCompile(`(?i)\blimit: ?0(?:[^0-9.]|$)`)
	spent     = regexp.MustCompile(`(?i)\bspend(?:ing)?\b`)
	spentLong = regexp.MustCompile(`(?i)month|prepa(?:y|id)|credit`)
)

// spendWait is what a refusal by the spend of the last 10 minutes is worth
// when it says nothing of a wait.
const spendWait = time.Minute

// exhausted tells the refusals under 429 apart. A day's quota beats the
// RetryInfo, which can still say 18 s.
func (f *fault) exhausted(text string) provider.Kind {
	day := false
	for _, v := range f.violations {
		if v.Value == "0" {
			return provider.KindNoQuota
		}
		day = day || perDay.MatchString(string(v.ID))
	}
	switch {
	case noLimit.MatchString(text):
		return provider.KindNoQuota
	case day, len(f.violations) == 0 && perDay.MatchString(text):
		return provider.KindDailyLimit
	case spent.MatchString(text) && spentLong.MatchString(text):
		return provider.KindQuotaExhausted
	}
	return provider.KindRateLimited
}

// statedLimit says which minute's limit refused, and how high it is.
func (f *fault) statedLimit(e *provider.Error) {
	for _, v := range f.violations {
		id := strings.ToLower(string(v.ID + v.Metric))
		w, name := &e.Rate.Requests, "requests"
		if strings.Contains(id, "token") {
			w, name = &e.Rate.Tokens, "tokens" // the input's, the only ones that are limited
		}
		if e.LimitType == "" {
			e.LimitType = name
		}
		if n, err := strconv.ParseInt(string(v.Value), 10, 64); err == nil && n > 0 && (w.Limit < 0 || n < w.Limit) {
			w.Limit = n
		}
	}
}

// pacificMidnight is when Gemini's day ends. Without a time-zone database it
// is that of standard time, which never is too early.
func pacificMidnight(now time.Time) time.Time {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		zone = time.FixedZone("PST", -8*60*60)
	}
	y, m, d := now.In(zone).Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, zone)
}
