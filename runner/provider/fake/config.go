package fake

import (
	"errors"
	"fmt"
	"time"
)

// Config says how the server behaves. The zero value answers every call at once, without limits or faults.
type Config struct {
	// Limits. Zero means none.
	RPM, TPM    int // requests and tokens admitted in a WindowLength
	RPD, TPD    int // requests and tokens admitted in a Day, windows aligned to the Unix epoch (UTC days)
	ITPM, OTPM  int // input and output tokens in a WindowLength: input (but what is cached) at admission, output once it is generated
	Concurrency int // calls admitted and not yet answered

	Window       Window
	WindowLength time.Duration // the "minute" of RPM, TPM and of the ledger's peaks; 0 = 60 s. Below it retry-after has decimals
	Day          time.Duration // 0 = 24 h
	Burst        int           // Bucket: capacity in requests; 0 = RPM. OpenRouter's free tier: RPM 20, Burst 30
	Phase        time.Duration // Fixed: windows start this long after a multiple of WindowLength
	FixedAtFirst bool          // Fixed: a window starts with the first call after the last one ended, not by the clock
	Slice        time.Duration // Slices: 0 = WindowLength/60

	Accounting    Accounting
	DefaultOutput int  // output reckoned for a body without a cap; 0 = what the answer will hold
	Refund        bool // give the unused part of a charge back when the call ends
	CountRefused  bool // refused calls use up the request limit too

	Style       Style
	OneDialect  bool          // Style and Accounting hold on the native APIs too
	RefuseDelay time.Duration // a refusal takes this long; 0 = at once

	// Answers.
	Latency        time.Duration // from admission to the answer
	LatencyJitter  time.Duration // ± around Latency, even
	LatencySigma   float64       // > 0: lognormal around Latency as the median, with this sigma
	Output         int           // tokens of an answer; 0 = 32. The body's cap cuts it (finish length)
	OutputJitter   int           // ± around Output, even
	Cached         int           // tokens of a prompt that count as read from a cache
	Reasoning      int           // tokens of an answer that are reasoning, and no text
	Chunks         int           // pieces of a streamed answer's text; 0 = 8. Latency is the time to the last
	Dimensions     int           // of an embedding; 0 = 8; the body's own "dimensions" wins
	Echo           bool          // the answer's text is the last message's (or prompt's) text
	Seed           uint64        // of every choice made by hash: equal seeds and bodies give equal answers
	ErrorRate      float64       // share of calls answered with one of ErrorStatus
	ErrorStatus    []int         // nil = 500, 503, 529
	ErrorMax       int           // > 0: ErrorRate fails no more calls than that
	FailFirst      int           // the first FailFirst admitted calls are answered with FailStatus
	FailStatus     int           // 0 = 500
	LostRate       float64       // share of calls whose answer is computed and billed, then lost with the connection
	HonourKeys     bool          // an Idempotency-Key answered before gets that answer again, unbilled and past the limits
	APIKey         string        // non-empty: calls without it (Bearer, x-api-key, api-key) get 401
	Models         []string      // non-empty: other models get 404 model_not_found
	QuotaAfter     int           // > 0: after this many billed calls every call is told that the credit is spent
	DownFrom       int           // > 0: from the DownFrom-th call asked ...
	DownUntil      int           // ... to before the DownUntil-th (0 = for ever) the server is down:
	DownAfter      time.Duration // > 0: from this long after the first call asked ...
	UpAfter        time.Duration // ... to this long after it (0 = for ever) the server is down too
	DownStatus     int           // it answers this status; 0 = cuts the connection
	MaxBody        int64         // bytes of a request body; 0 = 64 MiB; above it 413
	LogMax         int           // entries kept for GET /log, and answers for look-ups; 0 = 100,000, negative = none
	TrackMax       int           // operations followed for billed_twice; 0 = 4,000,000 (about 200 bytes for each at most)
	MaxFaultBodies int           // bodies with counted faults that are followed; 0 = 1,000,000

	// PerModel has the settings of models that do not share the limits, counts and manners of all others: each is limited
	// by its own Config alone. Zero windows and lengths are this Config's. DownFrom counts the calls of all models.
	// Seed, HonourKeys, APIKey, Models, MaxBody, LogMax, TrackMax, MaxFaultBodies, PerModel and Count are ignored there.
	PerModel map[string]Config

	// Count gives the prompt tokens of a request body; nil = ceil(characters/4)+1. Called without a lock, by many at once.
	// 0 = it cannot say: the server's own estimate holds.
	Count func(api, model string, body []byte) int
}

// Validate names the first setting that makes no sense; New takes what Validate passes.
func (c Config) Validate() error {
	for _, n := range []int{
		c.RPM, c.TPM, c.RPD, c.TPD, c.Concurrency, c.Burst, c.DefaultOutput, c.Output, c.OutputJitter, c.Dimensions, c.QuotaAfter, c.DownFrom, c.DownUntil,
		c.ITPM, c.OTPM, c.Cached, c.Reasoning, c.Chunks, c.ErrorMax, c.FailFirst,
	} {
		if n < 0 {
			return fmt.Errorf("a limit or count of %d: want 0 or more", n)
		}
	}
	for _, d := range []time.Duration{c.WindowLength, c.Day, c.Phase, c.Slice, c.RefuseDelay, c.Latency, c.LatencyJitter, c.DownAfter, c.UpAfter} {
		if d < 0 {
			return fmt.Errorf("a duration of %v: want 0 or more", d)
		}
	}
	for _, share := range []float64{c.ErrorRate, c.LostRate} {
		if !(share >= 0 && share <= 1) {
			return fmt.Errorf("a share of %v: want 0 to 1", share)
		}
	}
	for _, status := range append([]int{c.DownStatus, c.FailStatus}, c.ErrorStatus...) {
		if status != 0 && (status < 400 || status > 599) {
			return fmt.Errorf("an error status of %d: want 400 to 599", status)
		}
	}
	switch {
	case c.WindowLength > 0 && c.WindowLength < time.Millisecond:
		return fmt.Errorf("a window of %v: want a millisecond or more", c.WindowLength)
	case c.DownUntil > 0 && c.DownUntil <= c.DownFrom:
		return fmt.Errorf("down from call %d until call %d: want a later end", c.DownFrom, c.DownUntil)
	case c.UpAfter > 0 && c.UpAfter <= c.DownAfter:
		return fmt.Errorf("down after %v, up after %v: want a later end", c.DownAfter, c.UpAfter)
	case int(c.Window) >= len(windowNames) || int(c.Accounting) >= len(accountingNames) || int(c.Style) >= len(styleNames):
		return errors.New("an unknown window, accounting or style")
	}
	for name, m := range c.PerModel {
		if err := m.Validate(); err != nil {
			return fmt.Errorf("model %s: %w", name, err)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	def(&c.WindowLength, time.Minute)
	def(&c.Day, 24*time.Hour)
	def(&c.Burst, c.RPM)
	def(&c.Slice, c.WindowLength/60)
	def(&c.Output, 32)
	def(&c.Chunks, 8)
	def(&c.FailStatus, 500)
	def(&c.Dimensions, 8)
	def(&c.MaxBody, 64<<20)
	def(&c.LogMax, 100_000)
	def(&c.TrackMax, 4_000_000)
	def(&c.MaxFaultBodies, 1_000_000)
	if c.ErrorStatus == nil {
		c.ErrorStatus = []int{500, 503, 529}
	}
	return c
}

// def sets what was left at its zero value.
func def[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
