package limit_test

import (
	"math"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
)

const sec = float64(time.Second)

// meter is one limit as an independent server keeps it. Times are seconds.
type meter interface {
	wait(now, n float64) float64 // until n fits; 0 = now
	take(now, n float64)
	left(now float64) float64
	reset(now float64) float64 // what its headers say
}

// tokenBucket holds cap and is refilled at rate a second.
type tokenBucket struct{ cap, rate, level, last float64 }

func newTokenBucket(cap, perMinute float64) *tokenBucket {
	return &tokenBucket{cap, perMinute / 60, cap, 0}
}

func (b *tokenBucket) fill(now float64) {
	b.level = min(b.cap, b.level+(now-b.last)*b.rate)
	b.last = now
}

func (b *tokenBucket) wait(now, n float64) float64 {
	b.fill(now)
	return max(0, n-b.level-1e-9) / b.rate
}
func (b *tokenBucket) take(now, n float64)       { b.fill(now); b.level -= n }
func (b *tokenBucket) left(now float64) float64  { b.fill(now); return b.level }
func (b *tokenBucket) reset(now float64) float64 { b.fill(now); return (b.cap - b.level) / b.rate }

// fixedWindow starts anew every length seconds from its phase.
type fixedWindow struct{ cap, length, phase, used, index float64 }

func (f *fixedWindow) roll(now float64) {
	if i := math.Floor((now + f.phase) / f.length); i != f.index {
		f.index, f.used = i, 0
	}
}

func (f *fixedWindow) wait(now, n float64) float64 {
	if f.roll(now); f.used+n <= f.cap {
		return 0
	}
	return f.reset(now)
}
func (f *fixedWindow) take(now, n float64)       { f.roll(now); f.used += n }
func (f *fixedWindow) left(now float64) float64  { f.roll(now); return f.cap - f.used }
func (f *fixedWindow) reset(now float64) float64 { return (f.index+1)*f.length - f.phase - now }

// slidingWindow is the exact log. Its reset is when all of it will have left, or (oldest) the first.
type slidingWindow struct {
	cap    float64
	oldest bool
	at, n  []float64
	head   int
	sum    float64
}

func (s *slidingWindow) roll(now float64) {
	for ; s.head < len(s.at) && s.at[s.head] <= now-60; s.head++ {
		s.sum -= s.n[s.head]
	}
}

func (s *slidingWindow) wait(now, n float64) float64 {
	s.roll(now)
	over := s.sum + n - s.cap
	for i := s.head; over > 0 && i < len(s.at); i++ {
		if over -= s.n[i]; over <= 0 {
			return s.at[i] + 60 - now
		}
	}
	return 0
}

func (s *slidingWindow) take(now, n float64) {
	s.roll(now)
	s.at, s.n, s.sum = append(s.at, now), append(s.n, n), s.sum+n
}
func (s *slidingWindow) left(now float64) float64 { s.roll(now); return s.cap - s.sum }
func (s *slidingWindow) reset(now float64) float64 {
	switch s.roll(now); {
	case s.head == len(s.at):
		return 0
	case s.oldest:
		return s.at[s.head] + 60 - now
	}
	return s.at[len(s.at)-1] + 60 - now
}

// headers is what a model server says.
type headers uint8

const (
	silent     headers = iota
	openAI             // limit, remaining, reset on every answer, Retry-After in whole seconds on refusals
	retryAfter         // Retry-After on refusals
	openRouter         // limit, remaining 0 and the next token's moment, on refusals alone
)

func (h headers) String() string {
	return [...]string{"silent", "openai headers", "retry-after", "openrouter headers"}[h]
}

// serverModel admits calls by its meters, both or neither.
type serverModel struct {
	requests, tokens meter
	statedRPM        float64 // what headers say; the meters may think otherwise
	statedTPM        float64
	style            headers
	countsRefused    bool // refused requests count too
	calls            int
	refused          int
	log              []arrival
	inFlight         int
	maxInFlight      int // 0 = any
	slowRefusals     bool
	delay            func(now float64) float64 // of what is admitted; nil = none
}

type arrival struct{ at, tokens float64 }

func (s *serverModel) arrive(now float64, tokens int64) (ok bool, a limit.Answer) {
	s.calls++
	if s.maxInFlight > 0 && s.inFlight >= s.maxInFlight {
		s.refused++
		return false, limit.Answer{Outcome: limit.Concurrent, Report: unsaid()}
	}
	wait := 0.0
	if s.requests != nil {
		wait = s.requests.wait(now, 1)
	}
	if s.tokens != nil {
		wait = max(wait, s.tokens.wait(now, float64(tokens)))
	}
	if ok = wait == 0; ok || s.countsRefused {
		if s.requests != nil {
			s.requests.take(now, 1)
		}
		if s.tokens != nil && ok {
			s.tokens.take(now, float64(tokens))
		}
	}
	a.Report = unsaid()
	if ok {
		s.inFlight++
		s.log = append(s.log, arrival{now, float64(tokens)})
	} else {
		s.refused++
		a.Outcome = limit.RateLimit
	}
	s.headers(now, wait, &a)
	return ok, a
}

func (s *serverModel) headers(now, wait float64, a *limit.Answer) {
	seconds := func(f float64) time.Duration { return time.Duration(f * sec) }
	switch s.style {
	case openAI:
		if s.requests != nil {
			a.Report.Requests = limit.Window{Limit: int64(s.statedRPM), Remaining: max(int64(s.requests.left(now)), 0), ResetAfter: seconds(s.requests.reset(now))}
		}
		if s.tokens != nil {
			a.Report.Tokens = limit.Window{Limit: int64(s.statedTPM), Remaining: max(int64(s.tokens.left(now)), 0), ResetAfter: seconds(s.tokens.reset(now))}
		}
		fallthrough
	case retryAfter:
		if wait > 0 {
			a.Hinted, a.RetryAfter = true, seconds(math.Ceil(wait))
		}
	case openRouter:
		if wait > 0 {
			a.Report.Requests = limit.Window{Limit: int64(s.statedRPM), Remaining: 0, ResetAfter: seconds(wait)}
		}
	}
}

func unsaid() limit.Report {
	w := limit.Window{Limit: -1, Remaining: -1, ResetAfter: -1}
	return limit.Report{Requests: w, Tokens: w, Input: w, Output: w, RequestsDay: w, TokensDay: w}
}

// worst is the most requests and tokens that the server admitted in any rolling minute.
func (s *serverModel) worst() (requests int, tokens float64) {
	head, sum := 0, 0.0
	for i, a := range s.log {
		sum += a.tokens
		for ; s.log[head].at <= a.at-60; head++ {
			sum -= s.log[head].tokens
		}
		requests, tokens = max(requests, i-head+1), max(tokens, sum)
	}
	return requests, tokens
}
