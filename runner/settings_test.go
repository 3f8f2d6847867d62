package runner

import (
	"slices"
	"strings"
	"testing"

	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/retry"
)

func TestSettingsThatChangeRequests(t *testing.T) {
	base := func() *Config {
		return &Config{Targets: []Target{{Provider: "openai", BaseURL: "https://a/v1"}}, Settings: &input.Settings{Model: "m"}}
	}
	tests := []struct {
		name string
		edit func(*Config)
		want []string
	}{
		{"nothing", func(*Config) {}, nil},
		{"limits, retries, bounds and outputs", func(c *Config) {
			caps(5, 6)(c)
			c.Limit, c.Dedupe, c.Policy, c.Deadline, c.MaxCost = 7, true, retry.Policy{MaxAttempts: 2}, 9, 10
			c.Paths.Output, c.Settings.MaxLineBytes, c.Learned = "elsewhere", 1<<20, true
		}, nil},
		{"provider", func(c *Config) { c.Targets[0].Provider = "groq" }, []string{`provider: was "openai", now "groq"`}},
		{"base URL", func(c *Config) { c.Targets[0].BaseURL = "https://b/v1" }, []string{`base_url: was "https://a/v1", now "https://b/v1"`}},
		{"model", func(c *Config) { c.Settings.Model = "n" }, []string{`model: was "m", now "n"`}},
		{"system and temperature", func(c *Config) { c.Settings.System, c.Settings.Temperature = "be brief", "0.2" }, []string{
			`system: was not set, now "be brief"`, `temperature: was not set, now "0.2"`,
		}},
		{"max-tokens", func(c *Config) { c.Settings.MaxTokens = 9 }, []string{`max_tokens: was not set, now "9"`}},
		{"the rest", func(c *Config) {
			c.Settings.OverrideModel, c.Settings.Template, c.Settings.PromptField, c.Settings.ExtraBody = "o", "{{.q}}", "q", []byte(`{"a":1}`)
		}, []string{
			`extra_body: was not set, now "{\"a\":1}"`, `override_model: was not set, now "o"`,
			`prompt_field: was not set, now "q"`, `template: was not set, now "{{.q}}"`,
		}},
	}
	for _, test := range tests {
		c := base()
		test.edit(c)
		if got := settingsDiff(requestSettings(base()), requestSettings(c)); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestLongSettingsAreKeptAsDigests(t *testing.T) {
	of := func(system string) map[string]string {
		return requestSettings(&Config{Targets: make([]Target, 1), Settings: &input.Settings{System: system}})
	}
	secret := strings.Repeat("the whole secret text ", 10)
	if s := of(secret)["system"]; strings.Contains(s, "secret") || !strings.Contains(s, "220 bytes") {
		t.Errorf("got %q, want a digest and the length", s)
	}
	if settingsDiff(of(secret+"a"), of(secret+"b")) == nil {
		t.Error("two long texts of the same length do not differ")
	}
}

func TestIdempotencyKey(t *testing.T) {
	digest := [32]byte{1, 2, 3}
	key := idempotencyKey("salt", "op", digest, 0)
	// Pinned: a newer version has to send the keys of the older one.
	if want := "llmbatch-7973ddb2afc81b5b15dd649f93d10fc5"; key != want {
		t.Errorf("got %q, want %q", key, want)
	}
	others := []string{
		idempotencyKey("salt2", "op", digest, 0), idempotencyKey("salt", "op2", digest, 0), idempotencyKey("salt", "op", [32]byte{1, 2}, 0),
		idempotencyKey("salt", "op", digest, 1), idempotencyKey("sal", "top", digest, 0), idempotencyKey("salt", "", digest, 0),
	}
	all := append(others, key)
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != len(others)+1 {
		t.Errorf("got %d distinct keys of %d operations", n, len(others)+1)
	}
}

func TestChangedSettings(t *testing.T) {
	model := func(m string) func(*Config) { return func(c *Config) { c.Settings.Model = m } }
	on := func(w OnChanged) func(*Config) { return func(c *Config) { c.Changed = w } }
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(append(prompts(4), `{"custom_id":"own","prompt":"hi","model":"mine"}`)...)
		d.run()
		calls, before := d.asked(), d.text(d.paths.Output)

		_, err := d.try(model("large"))
		wantUsage(d, err, `model: was "small", now "large"`)
		if d.wantCalls(calls, 0); d.text(d.paths.Output) != before {
			d.Error("the refused run changed the output")
		}

		s := d.run(model("large"), on(Keep))
		if d.wantCalls(calls, 0); s.Completed != 5 || d.text(d.paths.Output) != before {
			d.Errorf("keep: got %d completed; want 5 and the output as it was", s.Completed)
		}
		d.run(model("large"))
		d.wantCalls(calls, 0)

		d.run(model("large"), on(Rerun))
		d.wantCalls(calls, 4)
		out := d.whole("p0", "p1", "p2", "p3", "own")
		if out["p3"].LLM.Model != "large" || out["own"].LLM.Model != "mine" {
			d.Errorf("got models %q and %q, want large and mine", out["p3"].LLM.Model, out["own"].LLM.Model)
		}
		if n := len(d.lines(d.paths.Superseded)); n != 4 {
			d.Errorf("got %d superseded results, want 4", n)
		}
		d.run(model("large"))
		d.wantCalls(calls, 4)
	})
}

func TestLimitsAndRetriesAreNoChange(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(4)...)
		d.run()
		calls := d.asked()
		d.run(caps(10, 1000), func(c *Config) {
			c.Policy.MaxAttempts, c.Dedupe, c.Grace, c.Targets[0].Limits.Concurrency = 3, true, 1, 5
		})
		d.wantCalls(calls, 0)
	})
}
