package cmd

import (
	"encoding/json"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/limit"
)

// jobOptions say how lines become requests.
type jobOptions struct {
	model, override, system, template, promptField, idField, extraBody, temperature string
	maxTokens, maxLineBytes                                                         int
}

func (o *jobOptions) flags(fl *pflag.FlagSet) {
	fl.StringVar(&o.model, "model", "", "model of lines that name none")
	fl.StringVar(&o.override, "override-model", "", "`model` for every line, also in bodies that name one")
	fl.StringVar(&o.system, "system", "", "system message of plain lines that have none")
	fl.StringVar(&o.template, "template", "", "`file` with a Go text/template over a line's fields, which gives the prompt")
	fl.StringVar(&o.promptField, "prompt-field", "", "`name` of the field that holds the prompt, in any JSONL")
	fl.StringVar(&o.idField, "id-field", "", "`name` of the field that holds the operation's ID")
	fl.StringVar(&o.extraBody, "extra-body", "", "`JSON` object whose fields plain lines get in their body")
	fl.IntVar(&o.maxTokens, "max-tokens", 0, "output cap of plain lines that have none; 0 = no cap is sent")
	fl.StringVar(&o.temperature, "temperature", "", "temperature of plain lines that have none")
	fl.IntVar(&o.maxLineBytes, "max-line-bytes", 64<<20, "a longer line is invalid")
}

func (o *jobOptions) apply(cfg *runner.Config) error {
	s := cfg.Settings
	s.Model, s.OverrideModel, s.System, s.PromptField, s.IDField = o.model, o.override, o.system, o.promptField, o.idField
	s.MaxTokens, s.MaxLineBytes, s.Temperature = o.maxTokens, o.maxLineBytes, o.temperature
	if o.maxTokens < 0 {
		return usagef("", "--max-tokens %d: want 0 or more", o.maxTokens)
	}
	if o.maxLineBytes < 0 {
		return usagef("", "--max-line-bytes %d: want 0 or more", o.maxLineBytes)
	}
	if t, err := strconv.ParseFloat(o.temperature, 64); o.temperature != "" && (err != nil || t < 0 || t > 2 || !json.Valid([]byte(o.temperature))) {
		return usagef("", "--temperature %q: want a number from 0 to 2", o.temperature)
	}
	if o.template != "" {
		text, err := os.ReadFile(o.template)
		if err != nil {
			return usagef("", "--template: %s", err)
		}
		s.Template = string(text)
	}
	if o.extraBody != "" {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(o.extraBody), &fields); err != nil {
			return usagef(`for example --extra-body '{"top_k": 40}'`, "--extra-body is not a JSON object: %s", err)
		}
		s.ExtraBody = json.RawMessage(o.extraBody)
	}
	return nil
}

// paceOptions are the limits.
type paceOptions struct {
	rpm, tpm, rpd, tpd, itpm, otpm, burst int64
	concurrency                           int
	accounting, reserve                   string
}

func (o *paceOptions) flags(fl *pflag.FlagSet) {
	const learned = "; not given = learned from the server, 0 = none"
	fl.Int64Var(&o.rpm, "rpm", 0, "requests a minute"+learned)
	fl.Int64Var(&o.tpm, "tpm", 0, "tokens a minute"+learned)
	fl.Int64Var(&o.rpd, "rpd", 0, "requests a day"+learned)
	fl.Int64Var(&o.tpd, "tpd", 0, "tokens a day"+learned)
	fl.Int64Var(&o.itpm, "itpm", 0, "input tokens a minute, where they are counted apart"+learned)
	fl.Int64Var(&o.otpm, "otpm", 0, "output tokens a minute, where they are counted apart"+learned)
	fl.Int64Var(&o.burst, "burst", 0, "requests that may go at once; 0 = the whole limit")
	fl.IntVar(&o.concurrency, "concurrency", 0, "most calls on the wire at once; 0 = found by itself, up to the provider's ceiling")
	fl.StringVar(&o.accounting, "accounting", "", "what a call charges: `sum|max|input|split|none` (default: the provider's own)")
	fl.StringVar(&o.reserve, "reserve", "max", "`max|learned`: of a call with a cap, reserve all of the cap or what outputs turn out to take")
}

// apply sets the limits of the target that the flags name; accounting is its
// provider's own.
func (o *paceOptions) apply(c *cobra.Command, cfg *runner.Config, accounting string) error {
	t := &cfg.Targets[0]
	lim, err := o.limits(c)
	if err != nil {
		return err
	}
	if lim.Concurrency == 0 {
		lim.Concurrency = t.Limits.Concurrency
	}
	t.Limits = lim
	name := o.accounting
	if name == "" {
		name = accounting
	}
	if lim.ITPM.Set || lim.OTPM.Set {
		name = "split"
	}
	acc, ok := limit.ParseAccounting(name)
	if !ok {
		return usagef("", "--accounting %q: want sum, max, input, split or none", o.accounting)
	}
	t.Accounting, t.Given = acc, o.accounting != "" || lim.ITPM.Set || lim.OTPM.Set
	return nil
}

// limits are those that the flags give.
func (o *paceOptions) limits(c *cobra.Command) (lim limit.Limits, err error) {
	for _, f := range []struct {
		name string
		n    int64
		to   *limit.Cap
	}{{"rpm", o.rpm, &lim.RPM}, {"tpm", o.tpm, &lim.TPM}, {"rpd", o.rpd, &lim.RPD}, {"tpd", o.tpd, &lim.TPD}, {"itpm", o.itpm, &lim.ITPM}, {"otpm", o.otpm, &lim.OTPM}} {
		if f.n < 0 {
			return lim, usagef("", "--%s %d: want 0 or more", f.name, f.n)
		}
		*f.to = limit.Cap{N: f.n, Set: c.Flags().Changed(f.name)}
	}
	if o.burst < 0 || o.concurrency < 0 {
		return lim, usagef("", "--burst and --concurrency: want 0 or more")
	}
	lim.Burst, lim.Concurrency = o.burst, o.concurrency
	return lim, nil
}

// learned says whether the learned output is reserved under a cap too.
func (o *paceOptions) learned() (bool, error) {
	switch o.reserve {
	case "max":
		return false, nil
	case "learned":
		return true, nil
	default:
		return false, usagef("", "--reserve %q: want max or learned", o.reserve)
	}
}

// retryOptions are the policy for failures.
type retryOptions struct {
	maxAttempts                      int
	maxRetryTime, maxWait, maxOutage time.Duration
}

func (o *retryOptions) flags(fl *pflag.FlagSet) {
	d := runner.DefaultPolicy()
	fl.IntVar(&o.maxAttempts, "max-attempts", d.MaxAttempts, "attempts of one operation")
	fl.DurationVar(&o.maxRetryTime, "max-retry-time", d.MaxTotal, "`time` one operation may spend backing off")
	fl.DurationVar(&o.maxWait, "max-wait", d.MaxWait, "longest `wait` a provider may ask for; beyond it the run stops and says when to come back")
	fl.DurationVar(&o.maxOutage, "max-outage", d.MaxOutage, "`time` the provider may be down before the run stops")
}

func (o *retryOptions) apply(cfg *runner.Config) error {
	if o.maxAttempts < 1 {
		return usagef("", "--max-attempts %d: want 1 or more", o.maxAttempts)
	}
	cfg.Policy.MaxAttempts, cfg.Policy.MaxTotal = o.maxAttempts, o.maxRetryTime
	cfg.Policy.MaxWait, cfg.Policy.MaxOutage = o.maxWait, o.maxOutage
	return nil
}
