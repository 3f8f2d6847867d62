package fake

import "fmt"

// Window is the way in which the server keeps a minute's limits.
type Window uint8

const (
	// Bucket refills continuously at limit/window and holds Config.Burst requests (the limit if zero) and the token limit.
	Bucket Window = iota
	// Fixed counts from zero again at the start of each window (see Config.Phase and Config.FixedAtFirst).
	Fixed
	// Sliding keeps an exact log: in any rolling window no more than the limit.
	Sliding
	// Slices keeps the limit in slices (Config.Slice): each gets its share of the limit, unused credit carries over only
	// up to the next whole unit (so a limit of 90 a minute admits 1, 2, 1, 2 a second, and one of 20 one each 3 s), and
	// a charge above a slice's share passes in an untouched slice and is paid off by those that follow.
	// The headers state the minute's limit and what is left of it, as Azure's do.
	Slices
)

// Accounting is what a call is charged on the token limit when it is admitted.
type Accounting uint8

const (
	Sum  Accounting = iota // prompt + output cap (Azure, Groq, Cerebras)
	Max                    // the larger of ceil(characters/4)+1 and the output cap (OpenAI)
	In                     // prompt alone (Gemini, Anthropic's input limit)
	None                   // nothing: no token limit
)

// Style is the dialect of rate-limit headers and error bodies. Calls of a native API (messages, generateContent) are
// answered in that API's own dialect whatever the Style, unless Config.OneDialect says otherwise.
type Style uint8

const (
	OpenAI     Style = iota // x-ratelimit-* on every answer, retry-after on a 429
	Anthropic               // anthropic-ratelimit-* on every answer, retry-after on a 429; Anthropic's error bodies
	OpenRouter              // X-RateLimit-* (reset in Unix ms) on its own 429 and nothing else; OpenRouter's error bodies
	RetryAfter              // retry-after on a 429 and nothing else
	NoHeaders               // no hint at all
	Gemini                  // no headers; google.rpc details in the error bodies say which quota and how long
	Groq                    // x-ratelimit-*: requests a day, tokens a minute; retry-after on a 429
	Azure                   // x-ratelimit-* with resets in whole seconds; retry-after and retry-after-ms on a 429
	DeepSeek                // no headers; 402 when the balance is spent
	Mistral                 // x-ratelimit-*-req-minute and -tokens-minute; flat error bodies
)

// names of the enumerations as flags spell them; the index is the value.
var (
	windowNames     = [...]string{"bucket", "fixed", "sliding", "slices"}
	accountingNames = [...]string{"sum", "max", "input", "none"}
	styleNames      = [...]string{"openai", "anthropic", "openrouter", "retry-after", "none", "gemini", "groq", "azure", "deepseek", "mistral"}
)

func (w Window) String() string     { return windowNames[w] }
func (a Accounting) String() string { return accountingNames[a] }
func (s Style) String() string      { return styleNames[s] }

// ParseWindow reads bucket, fixed, sliding or slices.
func ParseWindow(s string) (Window, error) { return parse[Window]("window", windowNames[:], s) }

// ParseAccounting reads sum, max, input or none.
func ParseAccounting(s string) (Accounting, error) {
	return parse[Accounting]("accounting", accountingNames[:], s)
}

// ParseStyle reads the name of a dialect, as Style.String gives it.
func ParseStyle(s string) (Style, error) { return parse[Style]("header style", styleNames[:], s) }

func parse[T ~uint8](what string, names []string, s string) (T, error) {
	for i, n := range names {
		if n == s {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("%s %q: want one of %v", what, s, names)
}

// dialects says in which dialect a call of this API is told of errors, and by which dialect's headers it is told of limits.
// OpenRouter's messages API has Anthropic's bodies and OpenRouter's headers.
func (c *Config) dialects(api string) (body, hints Style) {
	native := c.Style
	switch api {
	case apiMessages:
		native = Anthropic
	case apiGenerate, apiEmbed:
		native = Gemini
	}
	switch {
	case c.OneDialect:
		return c.Style, c.Style
	case c.Style == OpenRouter || c.Style == RetryAfter || c.Style == NoHeaders:
		return native, c.Style
	}
	return native, native
}

// Styles lists the names that ParseStyle reads.
func Styles() []string { return styleNames[:] }
