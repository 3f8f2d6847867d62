package route

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func nowhere(string) string { return "" }

var comment = regexp.MustCompile(`(?m)^#.*\n`)

func uncommented(b []byte) string { return comment.ReplaceAllString(string(b), "") }

func TestShowDestinations(t *testing.T) {
	c := load(t, `
providers:
  a: {kind: openai}
  b: {kind: openai, api_key_env: B}
  c: {kind: openai, base_url: https://h/v1}
  d: {kind: openai, base_url: https://h/v1, api_key_env: D}
  e: {kind: ollama}
  f: {kind: azure}
  g: {}
`)
	want := `# a: https://api.openai.com/v1, key from OPENAI_API_KEY
# b: https://api.openai.com/v1, key from B
# c: https://h/v1, without a key: api_key_env would name its variable
# d: https://h/v1, key from D
# e: http://localhost:11434/v1, without a key
# f: no host: AZURE_OPENAI_ENDPOINT is not set
# g: provider "g" needs a base_url in the config file
`
	if got := strings.Join(comment.FindAllString(string(c.Show(nowhere)), -1), ""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for endpoint, want := range map[string]string{
		"https://r.openai.azure.com": "https://r.openai.azure.com, key from AZURE_OPENAI_API_KEY", "secret": "no host: AZURE_OPENAI_ENDPOINT holds no usable URL",
	} {
		if got := c.destination("f", func(string) string { return endpoint }); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestShow(t *testing.T) {
	want := `providers:
  house:
    kind: openai-compatible
    base_url: https://models.example/v1
    api_key_env: HOUSE_KEY
    headers:
      X-Gateway-Token: '[redacted]'
      X-Title: tickets
  local:
    kind: mock
  router:
    kind: openrouter
    limit_group: shared
models:
  house/big:
    rpm: 0
    tpm: 120000
    rpd: 10000
    tpd: 5000000
    burst: 10
    concurrency: 7
    accounting: max
    price:
      input: 0.075
      output: 15.000001
      cached: 0.01
    context: 128000
    token_factor: 1.25
    timeouts:
      connect: 5s
      headers: 1m30s
      idle: 500ms
      total: 10m0s
    limit_group: shared
retry:
  patient:
    max_attempts: 20
    max_total_retry_seconds: 3600
    base_seconds: 0.25
    cap_seconds: 60
tasks:
  tag:
    primary:
      provider: house
      model: big
    fallbacks:
      - provider: router
        model: meta/llama-3:free
        when: [primary_unavailable]
      - provider: local
        when: [circuit_open]
    degrade_to:
      provider: house
      model: tiny
    retry: patient
    timeouts:
      total: 1m0s
degradation:
  light:
    max_tokens: 1024
  moderate:
    at:
      overrun: 1.2
      queue_wait_seconds: 90
      saturation: 0.95
    trim:
      - field: context
        max_chars: 8000
    smaller_model: [tag]
  high:
    hold:
      priority: low
      tenants: [acme, "42"]
    cached_answer: true
  severe:
    fixed_answer: |
      We are busy.
      Come back later.
# house: https://models.example/v1, key from HOUSE_KEY
# local: inside this process
# router: no host: OPENROUTER_BASE_URL holds no usable URL
`
	c := load(t, everything)
	got := string(c.Show(func(name string) string {
		return map[string]string{"OPENROUTER_BASE_URL": "http://127.0.0.1:9/v1?key=secret", "HOUSE_KEY": "secret", "OPENROUTER_API_KEY": "secret"}[name]
	}))
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	again := load(t, strings.ReplaceAll(got, "'[redacted]'", "abc"))
	if !reflect.DeepEqual(again, c) {
		t.Errorf("got %+v\nfrom %+v", again, c)
	}
}

func FuzzLoad(f *testing.F) {
	for _, s := range []string{seedTask, seedRetry, contract, everything, "a: &a [*a]", "{a: {b: [", "? [x]\n: y", "<<: *x", "--- |\n x\n...\n---\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Load(data, "f")
		if err != nil {
			return
		}
		shown := c.Show(nowhere)
		again, err := Load(shown, "again")
		if err != nil {
			t.Fatalf("%v\n%s", err, shown)
		}
		if twice := again.Show(nowhere); uncommented(twice) != uncommented(shown) {
			t.Fatalf("got\n%s\nfrom\n%s", twice, shown)
		}
		for task := range c.Tasks {
			if _, err := c.Resolve(task, Defaults{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
