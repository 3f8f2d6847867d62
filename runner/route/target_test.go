package route

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/retry"
)

func resolve(t *testing.T, c *Config, task string, d Defaults) Route {
	t.Helper()
	r, err := c.Resolve(task, d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *Route) names() []string {
	var all []string
	for _, t := range r.Targets {
		all = append(all, t.String())
	}
	return all
}

func TestResolve(t *testing.T) {
	both := load(t, contract+"  tag:\n    primary: {provider: groq, model: llama}\n")
	for _, c := range []struct {
		name   string
		config *Config
		task   string
		flags  Defaults
		want   []string
		served string
	}{
		{"flags alone", &Config{}, "", Defaults{Provider: "groq", Model: "m"}, []string{"groq/m"}, "default"},
		{"nothing at all", &Config{}, "", Defaults{}, []string{"openai"}, "default"},
		{"a label without a file", &Config{}, "label", Defaults{Model: "m"}, []string{"openai/m"}, "default"},
		{"default", both, "", Defaults{}, []string{"house/small", "anthropic/claude-sonnet-4.6"}, "default"},
		{"a task", both, "tag", Defaults{}, []string{"groq/llama"}, "tag"},
		{"a label", both, "other", Defaults{}, []string{"house/small", "anthropic/claude-sonnet-4.6"}, "default"},
		{"a provider by flag", both, "", Defaults{Provider: "openai", Model: "m"}, []string{"openai/m"}, "default"},
		{"a task stands against a provider by flag", both, "tag", Defaults{Provider: "openai", Model: "m"}, []string{"groq/llama"}, "tag"},
		{"the file's model stands against a model by flag", both, "", Defaults{Model: "m"}, []string{"house/small", "anthropic/claude-sonnet-4.6"}, "default"},
		{"a model by flag where the file has none", load(t, "tasks:\n  default: {primary: {provider: house}}"), "", Defaults{Model: "m"}, []string{"house/m"}, "default"},
		{"flags beside a file without a default", load(t, seedTask), "", Defaults{Model: "m"}, []string{"openai/m"}, "default"},
	} {
		r := resolve(t, c.config, c.task, c.flags)
		if got := r.names(); !reflect.DeepEqual(got, c.want) || r.Task != c.served || r.Degrade != -1 {
			t.Errorf("%s: got %v for %s, want %v for %s", c.name, got, r.Task, c.want, c.served)
		}
	}
}

func TestResolveErrors(t *testing.T) {
	c := load(t, seedTask)
	for task, want := range map[string]string{
		"":                      `no route: the config file has no task "default" for lines without one`,
		"support_ticket_sumary": `no route: the config file has neither task "support_ticket_sumary" nor "default"; did you mean "support_ticket_summary"?`,
	} {
		if _, err := c.Resolve(task, Defaults{}); !errors.Is(err, ErrNoRoute) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestUsable(t *testing.T) {
	c := load(t, seedTask)
	r := resolve(t, c, "support_ticket_summary", Defaults{})
	for i, want := range []string{"", "", "", `provider "open_model_cluster" is not in the config file, and no provider of that name is known`} {
		if err := r.Targets[i].Usable(); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: got %v, want %q", r.Targets[i], err, want)
		}
	}
	c = load(t, "providers: {house: {}, mine: {kind: mock}, cloud: {kind: azure}}")
	for name, want := range map[string]string{
		"house": `provider "house" needs a base_url in the config file`, "mine": "", "cloud": "", "ollama": "", "vllm": "",
		"antropic": `provider "antropic" is not in the config file, and no provider of that name is known; did you mean "anthropic"?`,
	} {
		target := c.Target(Ref{Provider: name}, Defaults{})
		if err := target.Usable(); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	target := c.Target(Ref{Provider: "house"}, Defaults{Provider: "house", BaseURL: "http://127.0.0.1/v1"})
	if err := target.Usable(); err != nil {
		t.Errorf("with --base-url: %v", err)
	}
}

func TestFlagsGoAheadOfTheFile(t *testing.T) {
	c := load(t, contract)
	d := Defaults{
		Model: "ignored", BaseURL: "http://127.0.0.1:9/v1", KeyEnv: "K", Headers: map[string]string{"X-A": "b"},
		Limits:     limit.Limits{RPM: limit.Cap{N: 7, Set: true}, Burst: 2, Concurrency: 3},
		Accounting: limit.Input, AccountingSet: true, Price: money.Price{Input: 1, Known: true},
		Policy:   retry.Policy{MaxAttempts: 2, HoldUnknown: true, MaxWait: time.Minute},
		Timeouts: provider.Timeouts{Total: time.Second},
	}
	r := resolve(t, c, "", d)
	first, second := r.Targets[0], r.Targets[1]
	if first.BaseURL != d.BaseURL || first.KeyEnv != "K" || first.Headers["X-A"] != "b" || first.Limits != d.Limits ||
		first.Accounting != limit.Input || first.Price != d.Price || first.Timeouts != d.Timeouts {
		t.Errorf("the primary: got %+v", first)
	}
	if second.BaseURL != "" || second.Limits.RPM.N != 50 || second.Limits.Concurrency != 20 || second.Accounting != limit.Split ||
		second.Price.Input != 3e6 || second.Timeouts != d.Timeouts || len(second.Headers) > 0 {
		t.Errorf("the fallback: got %+v", second)
	}
	want := retry.Policy{MaxAttempts: 2, MaxTotal: 300 * time.Second, HoldUnknown: true, MaxWait: time.Minute}
	if r.Policy != want {
		t.Errorf("got policy %+v, want %+v", r.Policy, want)
	}
}

func TestPolicy(t *testing.T) {
	c := load(t, "retry:\n  interactive_chat: {max_attempts: 3}\n  named: {max_attempts: 4}\n  default: {max_attempts: 5}\ntasks:\n  a: {primary: {provider: openai}, retry: named}\n")
	for task, want := range map[string]int{"interactive_chat": 3, "a": 4, "b": 5, "": 5} {
		if got := c.Policy(task).MaxAttempts; got != want {
			t.Errorf("%q: got %d attempts, want %d", task, got, want)
		}
	}
	if got := (&Config{}).Policy("a"); got != (retry.Policy{}) {
		t.Errorf("got %+v, want the zero policy", got)
	}
}

func TestGroups(t *testing.T) {
	c := load(t, `
providers:
  router: {kind: openrouter}
  house: {base_url: http://127.0.0.1/v1, limit_group: pool}
  other: {base_url: http://127.0.0.1/v1, limit_group: pool}
models:
  house/a: {rpm: 100, tpm: 0, concurrency: 5, burst: 9}
  other/b: {rpm: 60, tpm: 1000, concurrency: 2, burst: 4}
  openai/x: {limit_group: pool, tpd: 7}
  openai/y: {rpm: 1}
`)
	pool := limit.Limits{RPM: limit.Cap{N: 60, Set: true}, TPM: limit.Cap{N: 1000, Set: true}, TPD: limit.Cap{N: 7, Set: true}, Burst: 4}
	with := func(l limit.Limits, concurrency int) limit.Limits { l.Concurrency = concurrency; return l }
	for _, g := range []struct {
		ref    Ref
		group  string
		limits limit.Limits
	}{
		{Ref{"house", "a"}, "group pool", with(pool, 5)},
		{Ref{"other", "b"}, "group pool", with(pool, 2)},
		{Ref{"other", "not in the file"}, "group pool", pool},
		{Ref{"openai", "x"}, "group pool", pool},
		{Ref{"openai", "y"}, "openai/y", limit.Limits{RPM: limit.Cap{N: 1, Set: true}}},
		{Ref{"router", "meta/llama:free"}, "openrouter/:free", limit.Limits{}},
		{Ref{"router", "qwen/qwen3:free"}, "openrouter/:free", limit.Limits{}},
		{Ref{"router", "qwen/qwen3"}, "openrouter/qwen/qwen3", limit.Limits{}},
		{Ref{"openrouter", "a:free"}, "openrouter/:free", limit.Limits{}},
		{Ref{"openai", "a:free"}, "openai/a:free", limit.Limits{}},
		{Ref{"ollama", "m"}, "ollama/m", limit.Limits{Concurrency: 4}},
	} {
		got := c.Target(g.ref, Defaults{})
		if got.Group != g.group || got.Limits != g.limits {
			t.Errorf("%s: got %q %+v, want %q %+v", g.ref, got.Group, got.Limits, g.group, g.limits)
		}
	}
}

// TestAccounts: another name for the same key is no other account.
func TestAccounts(t *testing.T) {
	c := load(t, `
providers:
  a: {base_url: https://h/v1, api_key_env: K}
  b: {base_url: https://h/v1, api_key_env: K}
  c: {base_url: https://h/v1, api_key_env: OTHER}
  team: {kind: openai, api_key_env: TEAM_KEY}
  plain: {kind: openai, api_key_env: OPENAI_API_KEY}
  here: {kind: mock}
  there: {kind: mock}
  nowhere: {}
`)
	for name, want := range map[string]string{
		"a": "a/m", "b": "a/m", "c": "c/m", "team": "team/m", "plain": "openai/m", "openai": "openai/m", "google": "gemini/m",
		"gemini": "gemini/m", "here": "here/m", "there": "there/m", "nowhere": "nowhere/m", "unknown": "unknown/m", "openai-compatible": "openai-compatible/m",
	} {
		if got := c.Target(Ref{name, "m"}, Defaults{}).Group; got != want {
			t.Errorf("%s: got group %s, want %s", name, got, want)
		}
	}
	// The flags' limits are the group's.
	d := Defaults{Provider: "a", Model: "m", Limits: limit.Limits{RPM: limit.Cap{N: 3, Set: true}, Concurrency: 2}}
	if got := c.Target(Ref{"b", "m"}, d).Limits; got != (limit.Limits{RPM: d.Limits.RPM}) {
		t.Errorf("another name: got %+v", got)
	}
	if got := c.Target(Ref{"c", "m"}, d).Limits; got != (limit.Limits{}) {
		t.Errorf("another account: got %+v", got)
	}
}

func TestWithModel(t *testing.T) {
	c := load(t, `
models:
  house/a: {rpm: 5, timeouts: {total: 10, idle: 3}}
tasks:
  default:
    primary: {provider: house}
    timeouts: {total: 20}
`)
	d := Defaults{Limits: limit.Limits{Burst: 3}, Timeouts: provider.Timeouts{Connect: time.Second}}
	r := resolve(t, c, "", d)
	got := c.WithModel(r.Targets[0], "a", d)
	if got.Group != "house/a" || got.Limits != (limit.Limits{RPM: limit.Cap{N: 5, Set: true}, Burst: 3}) ||
		got.Timeouts != (provider.Timeouts{Connect: time.Second, Idle: 3 * time.Second, Total: 20 * time.Second}) {
		t.Errorf("got %+v", got)
	}
	if again := c.WithModel(got, "b", d); again.Model != "a" {
		t.Errorf("got model %s, want that of the route", again.Model)
	}
}

func TestSlash(t *testing.T) {
	c := load(t, "models: {openrouter/meta/llama: {rpm: 3}}")
	if got := c.Target(Ref{"openrouter", "meta/llama"}, Defaults{}); got.Limits.RPM.N != 3 {
		t.Errorf("got %+v, want rpm 3", got.Limits)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"base_url", "kind", "headers"}
	for name, want := range map[string]string{"base_ulr": "base_url", "kin": "", "knid": "kind", "knd": "", "kinds": "kind", "header": "headers", "": "", "zzzz": ""} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
