package route

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
)

// redacted stands for the value of a header that may hold a key.
const redacted = "[redacted]"

type (
	shownConfig struct {
		Providers   map[string]shownProvider `yaml:",omitempty"`
		Models      map[string]shownModel    `yaml:",omitempty"`
		Retry       map[string]shownPolicy   `yaml:",omitempty"`
		Tasks       map[string]shownTask     `yaml:",omitempty"`
		Degradation *shownSteps              `yaml:",omitempty"`
	}
	shownProvider struct {
		Kind       string
		BaseURL    string            `yaml:"base_url,omitempty"`
		KeyEnv     string            `yaml:"api_key_env,omitempty"`
		LimitGroup string            `yaml:"limit_group,omitempty"`
		Headers    map[string]string `yaml:",omitempty"`
	}
	shownModel struct {
		RPM         *int64         `yaml:",omitempty"`
		TPM         *int64         `yaml:",omitempty"`
		RPD         *int64         `yaml:",omitempty"`
		TPD         *int64         `yaml:",omitempty"`
		ITPM        *int64         `yaml:",omitempty"`
		OTPM        *int64         `yaml:",omitempty"`
		Burst       int64          `yaml:",omitempty"`
		Concurrency int            `yaml:",omitempty"`
		Accounting  string         `yaml:",omitempty"`
		Price       *shownPrice    `yaml:",omitempty"`
		Context     int64          `yaml:",omitempty"`
		TokenFactor *decimal       `yaml:"token_factor,omitempty"`
		Timeouts    *shownTimeouts `yaml:",omitempty"`
		LimitGroup  string         `yaml:"limit_group,omitempty"`
	}
	shownPrice struct {
		Input, Output decimal
		Cached        *decimal `yaml:",omitempty"`
	}
	shownTimeouts struct {
		Connect time.Duration `yaml:",omitempty"`
		Headers time.Duration `yaml:",omitempty"`
		Idle    time.Duration `yaml:",omitempty"`
		Total   time.Duration `yaml:",omitempty"`
	}
	shownPolicy struct {
		MaxAttempts int     `yaml:"max_attempts"`
		MaxTotal    decimal `yaml:"max_total_retry_seconds"`
		Base        decimal `yaml:"base_seconds"`
		Cap         decimal `yaml:"cap_seconds"`
	}
	shownTarget struct {
		Provider string
		Model    string   `yaml:",omitempty"`
		When     []string `yaml:",flow,omitempty"`
	}
	shownTask struct {
		Primary   shownTarget
		Fallbacks []shownTarget  `yaml:",omitempty"`
		DegradeTo *shownTarget   `yaml:"degrade_to,omitempty"`
		Retry     string         `yaml:",omitempty"`
		Timeouts  *shownTimeouts `yaml:",omitempty"`
	}
	shownThreshold struct {
		Overrun    *decimal `yaml:",omitempty"`
		QueueWait  *decimal `yaml:"queue_wait_seconds,omitempty"`
		Saturation *decimal `yaml:",omitempty"`
	}
	shownStep struct {
		At           *shownThreshold `yaml:",omitempty"`
		MaxTokens    int64           `yaml:"max_tokens,omitempty"`
		Trim         []shownTrim     `yaml:",omitempty"`
		SmallerModel []string        `yaml:"smaller_model,flow,omitempty"`
		Hold         *shownHold      `yaml:",omitempty"`
		CachedAnswer bool            `yaml:"cached_answer,omitempty"`
		FixedAnswer  string          `yaml:"fixed_answer,omitempty"`
	}
	shownSteps struct {
		Light, Moderate, High, Severe *shownStep `yaml:",omitempty"`
	}
	shownTrim struct {
		Field    string
		MaxChars int64 `yaml:"max_chars"`
	}
	shownHold struct {
		Priority string   `yaml:",omitempty"`
		Tenants  []string `yaml:",flow,omitempty"`
	}
)

// decimal is a number as it is written, in millionths.
type decimal int64

// MarshalYAML writes the number exactly.
func (d decimal) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: millionths(int64(d))}, nil
}

// Show prints the file as it was understood, with the defaults of retry
// policies and with providers that are only named by tasks, and below it, as
// comments, where the calls to each provider go and which variable holds the
// key. getenv finds the variables of the providers' own tools. The values of
// headers that may hold a key are redacted; without such headers the result
// loads as the same Config.
func (c *Config) Show(getenv func(string) string) []byte {
	s := shownConfig{Providers: map[string]shownProvider{}, Models: map[string]shownModel{}, Retry: map[string]shownPolicy{}, Tasks: map[string]shownTask{}}
	for _, name := range c.named() {
		s.Providers[name] = c.showProvider(name)
	}
	for name := range c.Models {
		s.Models[name] = showModel(c.Models[name])
	}
	for name, p := range c.Retry {
		p = p.OrDefaults()
		s.Retry[name] = shownPolicy{p.MaxAttempts, inSeconds(p.MaxTotal), inSeconds(p.Base), inSeconds(p.Cap)}
	}
	for name, t := range c.Tasks {
		s.Tasks[name] = showTask(t)
	}
	s.Degradation = showDegradation(&c.Degradation)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(s); err != nil {
		// Plain data has no reason to fail.
		return []byte("# " + err.Error() + "\n")
	}
	for _, name := range c.named() {
		fmt.Fprintf(&b, "# %s: %s\n", name, c.destination(name, getenv))
	}
	return b.Bytes()
}

// named lists the providers that the file configures or uses.
func (c *Config) named() []string {
	seen := map[string]bool{}
	for name := range c.Providers {
		seen[name] = true
	}
	for name := range c.Models {
		provider, _, _ := strings.Cut(name, "/")
		seen[provider] = true
	}
	for _, t := range c.Tasks {
		seen[t.Primary.Provider] = true
		for _, f := range t.Fallbacks {
			seen[f.Provider] = true
		}
		if t.DegradeTo != nil {
			seen[t.DegradeTo.Provider] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func (c *Config) showProvider(name string) shownProvider {
	p := c.Providers[name]
	s := shownProvider{Kind: c.kind(name), BaseURL: p.BaseURL, KeyEnv: p.KeyEnv, LimitGroup: p.LimitGroup, Headers: maps.Clone(p.Headers)}
	if s.Kind == "" {
		s.Kind = compatible
	}
	for header := range s.Headers {
		if secretive(header) {
			s.Headers[header] = redacted
		}
	}
	return s
}

// secretive reports that a header's value may be a key.
func secretive(header string) bool {
	h := strings.ToLower(header)
	return slices.ContainsFunc([]string{"auth", "key", "token", "secret", "cookie", "password", "credential", "signature"}, func(part string) bool {
		return strings.Contains(h, part)
	})
}

// destination says where a provider's calls go.
func (c *Config) destination(name string, getenv func(string) string) string {
	t := c.Target(Ref{Provider: name}, Defaults{})
	if err := t.Usable(); err != nil {
		return err.Error()
	}
	if t.Kind == mock {
		return "inside this process"
	}
	profile, _ := provider.Lookup(t.Kind)
	base, keys := t.BaseURL, profile.KeyEnv
	if base == "" {
		base, _ = profile.Base(getenv)
	}
	if base == "" {
		return "no host: " + profile.BaseEnv + " is not set"
	}
	u, err := provider.CheckBaseURL(base, true)
	if err != nil {
		return "no host: " + profile.BaseEnv + " holds no usable URL"
	}
	// A provider's own variable is for its own host.
	if home, err := provider.CheckBaseURL(profile.BaseURL, true); err == nil && home.Host != u.Host {
		keys = nil
	}
	if t.KeyEnv != "" {
		keys = []string{t.KeyEnv}
	}
	switch {
	case len(keys) > 0:
		return u.String() + ", key from " + strings.Join(keys, " or ")
	case profile.KeyFree:
		return u.String() + ", without a key"
	default:
		return u.String() + ", without a key: api_key_env would name its variable"
	}
}

func showModel(m Model) shownModel {
	s := shownModel{Burst: m.Limits.Burst, Concurrency: m.Limits.Concurrency, Context: m.Context, LimitGroup: m.LimitGroup, Timeouts: showTimeouts(m.Timeouts)}
	for to, c := range map[**int64]limit.Cap{
		&s.RPM: m.Limits.RPM, &s.TPM: m.Limits.TPM, &s.RPD: m.Limits.RPD, &s.TPD: m.Limits.TPD, &s.ITPM: m.Limits.ITPM, &s.OTPM: m.Limits.OTPM,
	} {
		if c.Set {
			*to = &c.N
		}
	}
	if m.AccountingSet {
		s.Accounting = m.Accounting.String()
	}
	if m.Price.Known {
		s.Price = &shownPrice{Input: decimal(m.Price.Input), Output: decimal(m.Price.Output)}
		if m.Price.CachedKnown {
			s.Price.Cached = new(decimal(m.Price.Cached))
		}
	}
	if m.Factor != (Factor{}) {
		s.TokenFactor = new(decimal(m.Factor.Num))
	}
	return s
}

func showTimeouts(t provider.Timeouts) *shownTimeouts {
	if t == (provider.Timeouts{}) {
		return nil
	}
	return &shownTimeouts{t.Connect, t.Headers, t.Idle, t.Total}
}

func inSeconds(d time.Duration) decimal { return decimal(d / time.Microsecond) }

func showTarget(r Ref, when Set) shownTarget {
	s := shownTarget{Provider: r.Provider, Model: r.Model}
	for _, c := range when.List() {
		s.When = append(s.When, c.String())
	}
	return s
}

func showTask(t Task) shownTask {
	s := shownTask{Primary: showTarget(t.Primary, 0), Retry: t.Retry, Timeouts: showTimeouts(t.Timeouts)}
	for _, f := range t.Fallbacks {
		s.Fallbacks = append(s.Fallbacks, showTarget(f.Ref, f.When))
	}
	if t.DegradeTo != nil {
		s.DegradeTo = new(showTarget(t.DegradeTo.Ref, t.DegradeTo.When))
	}
	return s
}

func showDegradation(d *Degradation) *shownSteps {
	all := &shownSteps{}
	for level, to := range map[Level]**shownStep{Light: &all.Light, Moderate: &all.Moderate, High: &all.High, Severe: &all.Severe} {
		*to = showStep(&d[level])
	}
	if *all == (shownSteps{}) {
		return nil
	}
	return all
}

func showStep(step *Step) *shownStep {
	at, a := step.At, &step.Actions
	if at == (Threshold{}) && !a.any() {
		return nil
	}
	s := &shownStep{MaxTokens: a.MaxTokens, SmallerModel: a.SmallerModel, CachedAnswer: a.CachedAnswer, FixedAnswer: a.FixedAnswer}
	for _, t := range a.Trim {
		s.Trim = append(s.Trim, shownTrim(t))
	}
	if a.HoldLow || len(a.HoldTenants) > 0 {
		s.Hold = &shownHold{Tenants: a.HoldTenants}
		if a.HoldLow {
			s.Hold.Priority = "low"
		}
	}
	if at != (Threshold{}) {
		s.At = &shownThreshold{Overrun: share(at.Overrun), Saturation: share(at.Saturation)}
		if at.QueueWait > 0 {
			s.At.QueueWait = new(inSeconds(at.QueueWait))
		}
	}
	return s
}

// share writes a share; nil for 0, which is not given.
func share(f float64) *decimal {
	if f == 0 {
		return nil
	}
	d := decimal(f*1e6 + 0.5)
	return &d
}
