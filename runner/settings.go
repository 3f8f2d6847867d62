package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// requestSettings are the settings that change requests' bytes or
// destination, as the checkpoint keeps them (spec §4). Limits, concurrency,
// retries, timeouts, outputs and keys are not among them. Long texts are
// kept as their digest.
func requestSettings(c *Config) map[string]string {
	s := map[string]string{}
	put := func(name, value string) {
		if value != "" {
			s[name] = value
		}
	}
	put("provider", c.Targets[0].Provider)
	put("base_url", c.Targets[0].BaseURL)
	if c.Routes != nil {
		for line := range strings.Lines(c.Routes.Text) {
			task, text, named := strings.Cut(strings.TrimSpace(line), ": ")
			if !named {
				task, text = "", task
			}
			if len(text) > longRoute {
				text = long(text)
			}
			put(strings.TrimSpace("routes "+task), text)
		}
	}
	put("model", c.Settings.Model)
	put("override_model", c.Settings.OverrideModel)
	put("system", long(c.Settings.System))
	put("template", long(c.Settings.Template))
	put("prompt_field", c.Settings.PromptField)
	put("temperature", c.Settings.Temperature)
	put("extra_body", long(string(c.Settings.ExtraBody)))
	if c.Settings.MaxTokens > 0 {
		put("max_tokens", strconv.Itoa(c.Settings.MaxTokens))
	}
	return s
}

// longRoute is the longest text of a route that is shown as it is.
const longRoute = 1000

func long(text string) string {
	if len(text) <= 80 {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%d bytes, sha256 %s", len(text), hex.EncodeToString(sum[:6]))
}

// settingsDiff lists what differs, a line each, in the order of the names.
func settingsDiff(was, now map[string]string) []string {
	names := map[string]bool{}
	for n := range was {
		names[n] = true
	}
	for n := range now {
		names[n] = true
	}
	var diff []string
	for n := range names {
		if was[n] != now[n] {
			diff = append(diff, fmt.Sprintf("%s: was %s, now %s", n, orNone(was[n]), orNone(now[n])))
		}
	}
	slices.Sort(diff)
	return diff
}

func orNone(s string) string {
	if s == "" {
		return "not set"
	}
	return strconv.Quote(s)
}
