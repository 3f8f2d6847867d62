package route

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// seedTask and seedRetry are the method's own documents, as they stand.
const (
	seedTask = `{
  "task": "support_ticket_summary",
  "primary": {
    "provider": "anthropic",
    "model": "claude-sonnet-4.6"
  },
  "fallbacks": [
    {
      "provider": "openai",
      "model": "gpt-5.5",
      "when": ["provider_5xx", "rate_limit_after_retry_budget"]
    },
    {
      "provider": "google",
      "model": "gemini-3",
      "when": ["context_length_needed", "primary_unavailable"]
    }
  ],
  "degrade_to": {
    "provider": "open_model_cluster",
    "model": "qwen",
    "when": ["batch_low_priority"]
  }
}`
	seedRetry = `{
  "interactive_chat": {
    "max_attempts": 3,
    "max_total_retry_seconds": 8
  },
  "batch_summarization": {
    "max_attempts": 8,
    "max_total_retry_seconds": 300
  }
}`
	contract = `providers:                      # kind: openai-compatible (default)
  anthropic: {kind: anthropic, api_key_env: ANTHROPIC_API_KEY}
  house:     {kind: openai-compatible, base_url: http://127.0.0.1:8000/v1, api_key_env: HOUSE_KEY, limit_group: house}
models:
  anthropic/claude-sonnet-4.6: {rpm: 50, itpm: 40000, otpm: 8000, concurrency: 20, price: {input: 3, output: 15}, context: 200000}
retry:
  batch_summarization: {max_attempts: 8, max_total_retry_seconds: 300}
tasks:
  default:
    primary: {provider: house, model: small}
    fallbacks:
      - {provider: anthropic, model: claude-sonnet-4.6, when: [rate_limited]}
    retry: batch_summarization
`
	everything = `
providers:
  house:
    base_url: https://models.example/v1/
    api_key_env: HOUSE_KEY
    headers: {X-Title: tickets, X-Gateway-Token: abc}
  router: {kind: openrouter, limit_group: shared}
  local: {kind: mock}
models:
  house/big:
    rpm: 0
    tpm: 120000
    rpd: 10000
    tpd: 5000000
    burst: 10
    concurrency: 7
    accounting: max
    price: {input: "0.075", output: 15.000001, cached: 0.01}
    context: 128000
    token_factor: 1.25
    timeouts: {connect: 5, headers: 90s, idle: 0.5, total: 10m}
    limit_group: shared
retry:
  patient: {max_attempts: 20, max_total_retry_seconds: 3600, base_seconds: 0.25, cap_seconds: 60}
tasks:
  tag:
    primary: {provider: house, model: big}
    fallbacks:
      - {provider: router, model: "meta/llama-3:free"}
      - {provider: local, when: circuit_open}
    degrade_to: {provider: house, model: tiny}
    retry: patient
    timeouts: {total: 60}
degradation:
  light:
    max_tokens: 1024
  moderate:
    at: {overrun: 1.2, queue_wait_seconds: 90, saturation: 0.95}
    trim: {field: context, max_chars: 8000}
    smaller_model: tag
  high:
    hold: {priority: low, tenants: [acme, "42"]}
    cached_answer: true
  severe:
    fixed_answer: |
      We are busy.
      Come back later.
`
)

func load(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Load([]byte(text), "routes.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

func TestLoadSeedTask(t *testing.T) {
	want := map[string]Task{"support_ticket_summary": {
		Primary: Ref{"anthropic", "claude-sonnet-4.6"},
		Fallbacks: []Fallback{
			{Ref{"openai", "gpt-5.5"}, SetOf(Provider5xx, RateLimitAfterRetryBudget)},
			{Ref{"google", "gemini-3"}, SetOf(ContextLengthNeeded, PrimaryUnavailable)},
		},
		DegradeTo: &Fallback{Ref{"open_model_cluster", "qwen"}, SetOf(BatchLowPriority)},
	}}
	for _, text := range []string{seedTask, "[" + seedTask + "]", "[\n\t" + seedTask + "\n]", "\ufeff" + seedTask} {
		if c := load(t, text); !reflect.DeepEqual(c.Tasks, want) {
			t.Errorf("got %+v, want %+v", c.Tasks, want)
		}
	}
}

func TestLoadSeedRetry(t *testing.T) {
	want := map[string]retry.Policy{
		"interactive_chat":    {MaxAttempts: 3, MaxTotal: 8 * time.Second},
		"batch_summarization": {MaxAttempts: 8, MaxTotal: 300 * time.Second},
	}
	for _, text := range []string{seedRetry, `{"retry": ` + seedRetry + `}`} {
		if c := load(t, text); !reflect.DeepEqual(c.Retry, want) {
			t.Errorf("got %+v, want %+v", c.Retry, want)
		}
	}
}

// TestLoadSeeds takes the documents from the texts that they stand in.
func TestLoadSeeds(t *testing.T) {
	texts, _ := filepath.Glob("../../../shared/seeds/*.txt")
	if len(texts) == 0 {
		t.Skip("no seeds here")
	}
	found := 0
	for _, path := range texts {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, begin := range []string{"{\n  \"task\": ", "{\n  \"interactive_chat\": "} {
			_, rest, ok := strings.Cut(strings.ReplaceAll(string(data), "\r\n", "\n"), begin)
			if !ok {
				continue
			}
			doc, _, _ := strings.Cut(rest, "\n}")
			c := load(t, begin+doc+"\n}")
			found += len(c.Tasks) + len(c.Retry)
		}
	}
	if found < 3 {
		t.Errorf("got %d tasks and policies, want them all", found)
	}
}

func TestLoadContract(t *testing.T) {
	c := load(t, contract)
	want := Config{
		Providers: map[string]Provider{
			"anthropic": {Kind: "anthropic", KeyEnv: "ANTHROPIC_API_KEY"},
			"house":     {Kind: compatible, BaseURL: "http://127.0.0.1:8000/v1", KeyEnv: "HOUSE_KEY", LimitGroup: "house"},
		},
		Models: map[string]Model{"anthropic/claude-sonnet-4.6": {
			Limits:     limit.Limits{RPM: limit.Cap{N: 50, Set: true}, ITPM: limit.Cap{N: 40000, Set: true}, OTPM: limit.Cap{N: 8000, Set: true}, Concurrency: 20},
			Accounting: limit.Split, AccountingSet: true,
			Price: money.Price{Input: 3e6, Output: 15e6, Known: true}, Context: 200000,
		}},
		Retry: map[string]retry.Policy{"batch_summarization": {MaxAttempts: 8, MaxTotal: 300 * time.Second}},
		Tasks: map[string]Task{"default": {
			Primary:   Ref{"house", "small"},
			Fallbacks: []Fallback{{Ref{"anthropic", "claude-sonnet-4.6"}, SetOf(RateLimited)}},
			Retry:     "batch_summarization",
		}},
	}
	if !reflect.DeepEqual(*c, want) {
		t.Errorf("got %+v\nwant %+v", *c, want)
	}
}

func TestLoadEverything(t *testing.T) {
	c := load(t, everything)
	m := c.Models["house/big"]
	if want := (money.Price{Input: 75000, Output: 15000001, Known: true, Cached: 10000, CachedKnown: true}); m.Price != want {
		t.Errorf("got price %+v, want %+v", m.Price, want)
	}
	if want := (provider.Timeouts{Connect: 5 * time.Second, Headers: 90 * time.Second, Idle: 500 * time.Millisecond, Total: 10 * time.Minute}); m.Timeouts != want {
		t.Errorf("got timeouts %+v, want %+v", m.Timeouts, want)
	}
	if m.Factor != (Factor{1250000, 1000000}) || m.Limits.RPM != (limit.Cap{Set: true}) || m.Accounting != limit.Max {
		t.Errorf("got %+v", m)
	}
	if got := c.Degradation[Moderate]; !reflect.DeepEqual(got, Step{
		At:      Threshold{Overrun: 1.2, QueueWait: 90 * time.Second, Saturation: 0.95},
		Actions: Actions{Trim: []Trim{{"context", 8000}}, SmallerModel: []string{"tag"}},
	}) {
		t.Errorf("got %+v", got)
	}
	if f := c.Tasks["tag"].Fallbacks; f[0].When != SetOf(PrimaryUnavailable) || f[1] != (Fallback{Ref{Provider: "local"}, SetOf(CircuitOpen)}) {
		t.Errorf("got %+v", f)
	}
	if c.Tasks["tag"].DegradeTo.When != 0 || c.Providers["house"].BaseURL != "https://models.example/v1" {
		t.Errorf("got %+v, %+v", c.Tasks["tag"].DegradeTo, c.Providers["house"])
	}
}

func TestLoadEmpty(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}", "providers:\ntasks:\n", "null"} {
		if c := load(t, text); len(c.Providers)+len(c.Models)+len(c.Retry)+len(c.Tasks) > 0 || c.Degradation.Enabled() {
			t.Errorf("%q: got %+v, want nothing", text, c)
		}
	}
}

// TestLoadJSONEscapes reads what Python's json module writes for an emoji.
func TestLoadJSONEscapes(t *testing.T) {
	c := load(t, `{"degradation": {"light": {"fixed_answer": "a\/b \ud83d\ude00 \\ud83d \u00e9 \\\ud83d\ude00"}}}`)
	if got, want := c.Degradation[Light].Actions.FixedAnswer, `a/b 😀 \ud83d é \😀`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoadAliases(t *testing.T) {
	c := load(t, "models:\n  openai/a: &limits {rpm: 5}\n  openai/b: *limits\n")
	if got := c.Models["openai/b"].Limits.RPM.N; got != 5 {
		t.Errorf("got rpm %d, want 5", got)
	}
}

const all = "provider_5xx, rate_limit_after_retry_budget, context_length_needed, primary_unavailable, batch_low_priority, " +
	"rate_limited, overloaded, timeout, content_policy, spend_exhausted, daily_limit, circuit_open"

func TestLoadErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"providers:\n  house:\n    base_ulr: x", `routes.yaml:3: providers: house: unknown key "base_ulr"; did you mean "base_url"?`},
		{"provider: {}\ntasks: {}", `routes.yaml:1: unknown key "provider"; did you mean "providers"?`},
		{"frobnicate: 1", `routes.yaml:1: unknown key "frobnicate"`},
		{"models:\n  openai/a: {rpm: 1}\n\n  openai/a: {rpm: 2}", `routes.yaml:4: models: duplicate key "openai/a", first on line 2`},
		{"models:\n  openai/a: {rpm: 1,\n    rpm: 2}", `routes.yaml:3: models: openai/a: duplicate key "rpm", first on line 2`},
		{"providers:\n  a: {kind: gemni}", `routes.yaml:2: providers: a: kind: unknown kind "gemni"; want one of ` + strings.Join(Kinds(), ", ") + `; did you mean "gemini"?`},
		{"providers:\n  a/b: {}", `routes.yaml:2: providers: a/b: a provider's name has no slash`},
		{"providers:\n  a: {api_key: sk-secret}", `routes.yaml:2: providers: a: unknown key "api_key"; did you mean "api_key_env"?`},
		{"providers:\n  a: {api_key_env: sk-secret}", `routes.yaml:2: providers: a: api_key_env: want the name of an environment variable, never a key`},
		{"providers:\n  a: {base_url: ftp://h}", `routes.yaml:2: providers: a: base_url: scheme "ftp", want https`},
		{"providers:\n  a: {base_url: 'https://u:secret@h/v1'}", `routes.yaml:2: providers: a: base_url: base URL of h: holds a user name or password; give the key by variable or file`},
		{"providers:\n  a: {base_url: 'https://h/v1?key=secret'}", `routes.yaml:2: providers: a: base_url: base URL of h: holds a ?query; keys belong in a variable or file, other parameters in headers`},
		{"providers:\n  a: {headers: {Authorization: Bearer secret}}", `routes.yaml:2: providers: a: headers: Authorization: this header is not the file's to set; keys come from api_key_env`},
		{"providers:\n  a: {headers: {'a b': c}}", `routes.yaml:2: providers: a: headers: a b: is not the name of a header`},
		{"providers:\n  a: {headers: {X-A: \"b\\r\\nc\"}}", `routes.yaml:2: providers: a: headers: X-A: want text without control characters or spaces at its ends`},
		{"providers: [a]", `routes.yaml:1: providers: want an object, got a list`},
		{"models:\n  gpt: {}", `routes.yaml:2: models: gpt: want "provider/model"`},
		{"models:\n  openai/a: {rpm: -1}", `routes.yaml:2: models: openai/a: rpm: want a whole number from 0 to 1000000000000, got "-1"`},
		{"models:\n  openai/a: {rpm: 1e3}", `routes.yaml:2: models: openai/a: rpm: want a whole number from 0 to 1000000000000, got "1e3"`},
		{"models:\n  openai/a: {rpm: 010}", `routes.yaml:2: models: openai/a: rpm: want a whole number from 0 to 1000000000000, got "010"`},
		{"models:\n  openai/a: {tpm: .nan}", `routes.yaml:2: models: openai/a: tpm: want a whole number from 0 to 1000000000000, got ".nan"`},
		{"models:\n  openai/a: {tpm: 99999999999999999999}", `routes.yaml:2: models: openai/a: tpm: want a whole number from 0 to 1000000000000, got "99999999999999999999"`},
		{"models:\n  openai/a: {tpm: }", `routes.yaml:2: models: openai/a: tpm: want a whole number from 0 to 1000000000000, got nothing`},
		{"models:\n  openai/a: {tpm: {}}", `routes.yaml:2: models: openai/a: tpm: want a whole number from 0 to 1000000000000, got an object`},
		{"models:\n  openai/a: {concurrency: 0}", `routes.yaml:2: models: openai/a: concurrency: want a whole number from 1 to 100000, got "0"`},
		{"models:\n  openai/a: {accounting: most}", `routes.yaml:2: models: openai/a: accounting: want sum, max, input, split or none, got "most"`},
		{"models:\n  openai/a: {price: {input: 3}}", `routes.yaml:2: models: openai/a: price: want input and output, both per million tokens`},
		{"models:\n  openai/a: {price: {input: 3, output: 15, cached: 3.5}}", `routes.yaml:2: models: openai/a: price: cached is above input`},
		{"models:\n  openai/a: {price: {input: 3, output: 0.0000001}}", `routes.yaml:2: models: openai/a: price: output: want a number from 0 to 100000 with at most six decimals, got "0.0000001"`},
		{"models:\n  openai/a: {price: {input: -3, output: 1}}", `routes.yaml:2: models: openai/a: price: input: want a number from 0 to 100000 with at most six decimals, got "-3"`},
		{"models:\n  openai/a: {token_factor: 0}", `routes.yaml:2: models: openai/a: token_factor: want a number from 0.01 to 100 with at most six decimals, got "0"`},
		{"models:\n  openai/a: {timeouts: {total: 0}}", `routes.yaml:2: models: openai/a: timeouts: total: want a time above 0 and up to 30 days, in seconds or as 90s, got "0"`},
		{"models:\n  openai/a: {timeouts: {total: -1s}}", `routes.yaml:2: models: openai/a: timeouts: total: want a time above 0 and up to 30 days, in seconds or as 90s, got "-1s"`},
		{"retry:\n  slow: {max_attempts: 0}", `routes.yaml:2: retry: slow: max_attempts: want a whole number from 1 to 1000, got "0"`},
		{"retry:\n  slow: {base_seconds: 60}", `routes.yaml:2: retry: slow: base_seconds (1m0s) is above cap_seconds (30s)`},
		{"retry:\n  slow: {max_retries: 3}", `routes.yaml:2: retry: slow: unknown key "max_retries"`},
		{"tasks:\n  a: {}", `routes.yaml:2: tasks: a: want primary: {provider, model}`},
		{"tasks:\n  a:\n    primary: {model: m}", `routes.yaml:3: tasks: a: primary: want a provider`},
		{"tasks:\n  a:\n    primary: {provider: openai, model: m, when: [timeout]}", `routes.yaml:3: tasks: a: primary: unknown key "when"`},
		{
			"tasks:\n  a:\n    primary: {provider: openai}\n    fallbacks:\n      - {provider: groq,\n         when: [rate_limted]}",
			`routes.yaml:6: tasks: a: fallbacks 1: when 1: unknown condition "rate_limted"; want one of ` + all + `; did you mean "rate_limited"?`,
		},
		{
			"tasks:\n  a:\n    primary: {provider: openai}\n    fallbacks: [{provider: groq, when: []}]",
			`routes.yaml:4: tasks: a: fallbacks 1: when: want at least one of ` + all,
		},
		{"tasks:\n  a:\n    primary: {provider: openai}\n    fallbacks: [{provider: openai}]", `routes.yaml:3: tasks: a: fallback 1, openai, is there already`},
		{"tasks:\n  a:\n    primary: {provider: openai}\n    retry: slow\nretry: {slowly: {}}", `routes.yaml:4: tasks: a: retry: no retry policy "slow" is in the file; did you mean "slowly"?`},
		{"providers:\n  house: {}\ntasks:\n  a:\n    primary: {provider: hous}", `routes.yaml:5: tasks: a: primary: provider: unknown provider "hous"; did you mean "house"?`},
		{"providers:\n  house: {}\nmodels:\n  antropic/x: {}", `routes.yaml:4: models: antropic/x: unknown provider "antropic"; did you mean "anthropic"?`},
		{`{"task": "a"}`, `routes.yaml:1: task: want primary: {provider, model}`},
		{`{"primary": {"provider": "openai"}}`, `routes.yaml:1: task: want "task", the name that lines use`},
		{"[" + `{"task": "a", "primary": {"provider": "x"}},` + "\n" + `{"task": "a", "primary": {"provider": "x"}}]`, `routes.yaml:2: task: a: is there twice`},
		{"[1]", `routes.yaml:1: task: want an object, got a single value`},
		{"degradation:\n  some: {}", `routes.yaml:2: degradation: unknown key "some"`},
		{"degradation:\n  light: {hold: {priority: high}}", `routes.yaml:2: degradation: light: hold: priority: want low, got "high"`},
		{"degradation:\n  light: {trim: {field: x}}", `routes.yaml:2: degradation: light: trim: want field and max_chars`},
		{"degradation:\n  light: {cached_answer: yes}", `routes.yaml:2: degradation: light: cached_answer: want true or false, got "yes"`},
		{"degradation:\n  light: {fixed_answer: ''}", `routes.yaml:2: degradation: light: fixed_answer: want the text of the answer, got a single value`},
		{"degradation:\n  light: {at: {saturation: 1.5}}", `routes.yaml:2: degradation: light: at: saturation: want a number from 0.01 to 1 with at most six decimals, got "1.5"`},
		{"degradation:\n  light: {smaller_model: [a]}", `routes.yaml:2: degradation: light: smaller_model 1: no task "a" is in the file`},
		{"tasks:\n  a: {primary: {provider: openai}}\ndegradation:\n  light: {smaller_model: a}", `routes.yaml:4: degradation: light: smaller_model: task "a" has no degrade_to`},
		{"models:\n  <<: {rpm: 1}", `routes.yaml:2: models: merge keys (<<) are not supported; write the values out`},
		{"models:\n  [a]: {rpm: 1}", `routes.yaml:2: models: a key must be a name, got a list`},
		{"models: {}\n---\nmodels: {}", `routes.yaml:2: a second document; want one`},
		{"models:\n  a: @", `routes.yaml:2: found character that cannot start any token`},
		{"tasks:\n\ta: {}", `routes.yaml:2: found character that cannot start any token`},
		{"tasks:\n  a: {b: [\n\nmodels: {}", `routes.yaml:2: did not find expected ',' or ']'`},
		{"a: b: c", `routes.yaml:1: mapping values are not allowed in this context`},
		{"{\"tasks\":\n  {\"a\": 1,,\n}}", `routes.yaml:2: did not find expected node content`},
		{"tasks:\n  a: *x", `routes.yaml:2: unknown anchor 'x' referenced`},
		{"tasks: \x00", `routes.yaml: control characters are not allowed`},
		{"models:\n  openai/a: {accounting: []}", `routes.yaml:2: models: openai/a: accounting: want text, got a list`},
		{"providers:\n  a: {limit_group: ''}", `routes.yaml:2: providers: a: limit_group: is empty`},
		{"tasks:\n  a: {primary: {provider: x}, fallbacks: {}}", `routes.yaml:2: tasks: a: fallbacks: want a list, got an object`},
		{"providers:\n  \"a\\e\": {}", `routes.yaml:2: providers: "a\x1b": want text without control characters or spaces at its ends`},
		{"providers:\n  a: {limit_group: " + strings.Repeat("x", 513) + "}", `routes.yaml:2: providers: a: limit_group: is longer than 512 bytes`},
		{"text", `routes.yaml:1: want an object, got a single value`},
		{"models: \xff", `routes.yaml: is not UTF-8`},
		{
			"models:\n  openai/b: {tpm: x}\n  openai/a: {rpm: y}\nzzz: 1",
			`routes.yaml:2: models: openai/b: tpm: want a whole number from 0 to 1000000000000, got "x"` + "\n" +
				`routes.yaml:3: models: openai/a: rpm: want a whole number from 0 to 1000000000000, got "y"` + "\n" +
				`routes.yaml:4: unknown key "zzz"`,
		},
	} {
		_, err := Load([]byte(c.text), "routes.yaml")
		if err == nil {
			t.Errorf("%s\ngot no error, want %s", c.text, c.want)
		} else if err.Error() != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.text, err, c.want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s tells a key", err)
		}
	}
}

func TestLoadManyProblems(t *testing.T) {
	var b strings.Builder
	for i := range 31 {
		b.WriteString(strings.Repeat("x", i+5) + ": 1\n")
	}
	_, err := Load([]byte(b.String()), "routes.yaml")
	if err == nil || !strings.HasSuffix(err.Error(), "\nroutes.yaml: and 11 more") || strings.Count(err.Error(), "\n") != 20 {
		t.Errorf("got %v, want 20 problems and a count", err)
	}
}

// TestLoadAliasBomb walks no more nodes than the bound.
func TestLoadAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("providers:\n  a: &h\n    headers: &m\n")
	for i := range 2000 {
		b.WriteString("      X-" + strings.Repeat("a", i%50) + string(rune('a'+i/50%26)) + string(rune('a'+i/1300)) + ": v\n")
	}
	for i := range 2000 {
		b.WriteString("  p" + strings.Repeat("b", i%50) + string(rune('a'+i/50%26)) + string(rune('a'+i/1300)) + ": *h\n")
	}
	_, err := Load([]byte(b.String()), "routes.yaml")
	if err == nil || !strings.Contains(err.Error(), "more than 50000 entries") {
		t.Errorf("got %.200v, want a bound", err)
	}
}
