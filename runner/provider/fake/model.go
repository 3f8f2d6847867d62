package fake

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// group is the models that share limits, counts and manners: one of Config.PerModel, or all the others. cfg does not
// change; the rest is guarded by Server.mu.
type group struct {
	cfg    Config
	admit  admission
	billed int // calls
	failed int // by FailFirst
	errors int // by ErrorRate
}

// newGroups makes the groups of a configuration; "" is the one for models that have none of their own.
func newGroups(c *Config, now int64) map[string]*group {
	groups := map[string]*group{"": {cfg: *c, admit: newAdmission(c, now)}}
	for name, m := range c.PerModel {
		def(&m.WindowLength, c.WindowLength)
		def(&m.Day, c.Day)
		m.Seed, m.Count = c.Seed, c.Count
		m = m.withDefaults()
		groups[name] = &group{cfg: m, admit: newAdmission(&m, now)}
	}
	return groups
}

// group finds the group of a model.
func (s *Server) group(model string) *group {
	if g, own := s.groups[model]; own {
		return g
	}
	return s.groups[""]
}

// down says whether the serial-th call, asked this long after the first, finds its provider down.
func (c *Config) down(serial uint64, since time.Duration) bool {
	byCount := c.DownFrom > 0 && serial >= uint64(c.DownFrom) && (c.DownUntil == 0 || serial < uint64(c.DownUntil))
	byTime := c.DownAfter > 0 && since >= c.DownAfter && (c.UpAfter == 0 || since < c.UpAfter)
	return byCount || byTime
}

// ParseModel reads NAME:SETTING=VALUE,... into an entry of Config.PerModel. What is not set is as in base, but limits,
// failures and times of being down, of which it then has none. The settings are those of ModelSettings.
func ParseModel(base Config, text string) (name string, c Config, err error) {
	at := strings.LastIndexByte(text, ':') // names have colons too
	if at <= 0 {
		return "", c, fmt.Errorf("%q: want NAME:SETTING=VALUE", text)
	}
	name, c = text[:at], base
	c.PerModel = nil
	for _, s := range modelSettings {
		if s.own {
			_ = s.set(&c, "0") // every one of them takes 0
		}
	}
	for part := range strings.SplitSeq(text[at+1:], ",") {
		key, value, _ := strings.Cut(part, "=")
		set, known := settingOf(key)
		if !known {
			return "", c, fmt.Errorf("model %s: %q is none of %s", name, key, ModelSettings())
		}
		if err := set(&c, value); err != nil {
			return "", c, fmt.Errorf("model %s: %s: %w", name, key, err)
		}
	}
	return name, c, c.Validate()
}

// ModelSettings lists what ParseModel reads, for help texts.
func ModelSettings() string {
	names := make([]string, len(modelSettings))
	for i, s := range modelSettings {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

func settingOf(key string) (set func(*Config, string) error, known bool) {
	for _, s := range modelSettings {
		if s.name == key {
			return s.set, true
		}
	}
	return nil, false
}

// modelSettings are named as the flags are; own = nothing is taken over from the base.
var modelSettings = [...]struct {
	name string
	own  bool
	set  func(c *Config, value string) error
}{
	{"rpm", true, whole(func(c *Config) *int { return &c.RPM })},
	{"tpm", true, whole(func(c *Config) *int { return &c.TPM })},
	{"itpm", true, whole(func(c *Config) *int { return &c.ITPM })},
	{"otpm", true, whole(func(c *Config) *int { return &c.OTPM })},
	{"rpd", true, whole(func(c *Config) *int { return &c.RPD })},
	{"tpd", true, whole(func(c *Config) *int { return &c.TPD })},
	{"concurrency", true, whole(func(c *Config) *int { return &c.Concurrency })},
	{"burst", true, whole(func(c *Config) *int { return &c.Burst })},
	{"window", false, named(ParseWindow, func(c *Config) *Window { return &c.Window })},
	{"accounting", false, named(ParseAccounting, func(c *Config) *Accounting { return &c.Accounting })},
	{"headers", false, named(ParseStyle, func(c *Config) *Style { return &c.Style })},
	{"latency", false, named(time.ParseDuration, func(c *Config) *time.Duration { return &c.Latency })},
	{"jitter", false, named(time.ParseDuration, func(c *Config) *time.Duration { return &c.LatencyJitter })},
	{"output-tokens", false, whole(func(c *Config) *int { return &c.Output })},
	{"error-rate", true, named(share, func(c *Config) *float64 { return &c.ErrorRate })},
	{"error-max", true, whole(func(c *Config) *int { return &c.ErrorMax })},
	{"lost-rate", true, named(share, func(c *Config) *float64 { return &c.LostRate })},
	{"fail-first", true, whole(func(c *Config) *int { return &c.FailFirst })},
	{"fail-status", true, whole(func(c *Config) *int { return &c.FailStatus })},
	{"quota-after", true, whole(func(c *Config) *int { return &c.QuotaAfter })},
	{"down-from", true, whole(func(c *Config) *int { return &c.DownFrom })},
	{"down-until", true, whole(func(c *Config) *int { return &c.DownUntil })},
	{"down-after", true, named(time.ParseDuration, func(c *Config) *time.Duration { return &c.DownAfter })},
	{"up-after", true, named(time.ParseDuration, func(c *Config) *time.Duration { return &c.UpAfter })},
	{"down-status", true, whole(func(c *Config) *int { return &c.DownStatus })},
}

func share(s string) (float64, error) { return strconv.ParseFloat(s, 64) }

func whole(field func(*Config) *int) func(*Config, string) error {
	return named(strconv.Atoi, field)
}

func named[T any](read func(string) (T, error), field func(*Config) *T) func(*Config, string) error {
	return func(c *Config, value string) error {
		v, err := read(value)
		if err == nil {
			*field(c) = v
		}
		return err
	}
}
