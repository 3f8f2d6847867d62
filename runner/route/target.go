package route

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// Target is a model at a provider with everything that calls to it need. Two
// targets of one Config with the same Ref are alike in all but Timeouts.
type Target struct {
	Ref            // without Model, each line keeps its own: see Config.WithModel
	Kind    string // the profile's name; empty = a provider that nothing is known of
	BaseURL string // empty = the profile's own, or what its variable says
	KeyEnv  string // empty = the profile's own variables
	Headers map[string]string

	Group         string       // of the limits: targets of one group share one limiter
	Limits        limit.Limits // the group's, but for Concurrency
	Accounting    limit.Accounting
	AccountingSet bool // the user's; false = corrected by what the server shows
	Price         money.Price
	Context       int64 // tokens of prompt and output together; 0 = not known
	Factor        Factor
	Timeouts      provider.Timeouts

	task provider.Timeouts // those of the task alone
}

// Usable says why no call can go to the target; nil = it can, given a key.
func (t *Target) Usable() error {
	if t.Kind == mock || t.BaseURL != "" {
		return nil
	}
	p, ok := provider.Lookup(t.Kind)
	switch {
	case ok && (p.BaseURL != "" || p.BaseEnv != ""):
		return nil
	case t.Kind == "":
		return fmt.Errorf("provider %q is not in the config file, and no provider of that name is known%s", t.Provider, suggest(t.Provider, Kinds()))
	default:
		return fmt.Errorf("provider %q needs a base_url in the config file", t.Provider)
	}
}

// Defaults are the settings that flags give. Those that are set go ahead of the
// file. They describe one target: the one that Provider and Model name, else the
// primary of the default task; Policy and Timeouts hold for every route.
type Defaults struct {
	Provider, Model string // empty = not given
	BaseURL, KeyEnv string
	Headers         map[string]string // added to those of the file
	Limits          limit.Limits
	Accounting      limit.Accounting
	AccountingSet   bool
	Price           money.Price
	Policy          retry.Policy
	Timeouts        provider.Timeouts
}

// defaultProvider is where calls go if nothing says where.
const defaultProvider = "openai"

// main is the target that flags describe, and the task of the file behind it;
// nil if the flags name their own.
func (c *Config) main(d *Defaults) (Ref, *Task) {
	t, ok := c.Tasks[DefaultTask]
	if ok && d.Provider == "" {
		r := t.Primary
		if r.Model == "" {
			r.Model = d.Model
		}
		return r, &t
	}
	r := Ref{Provider: d.Provider, Model: d.Model}
	if r.Provider == "" {
		r.Provider = defaultProvider
	}
	return r, nil
}

// WithModel is the target for a line that keeps its own model. Where the route
// names one, that one stands.
func (c *Config) WithModel(t Target, model string, d Defaults) Target {
	if t.Model != "" || model == "" {
		return t
	}
	return c.taskTarget(Ref{t.Provider, model}, t.task, d)
}

func (c *Config) taskTarget(r Ref, task provider.Timeouts, d Defaults) Target {
	t := c.Target(r, d)
	t.task = task
	overlay(&t.Timeouts, task)
	overlay(&t.Timeouts, d.Timeouts)
	return t
}

// Target puts together what is known of one model at a provider.
func (c *Config) Target(r Ref, d Defaults) Target {
	m := c.Models[r.String()]
	t := Target{
		Ref: r, Kind: c.kind(r.Provider), Group: c.group(r), Limits: m.Limits, Accounting: m.Accounting,
		AccountingSet: m.AccountingSet, Price: m.Price, Context: m.Context, Factor: m.Factor, Timeouts: m.Timeouts,
	}
	p := c.Providers[r.Provider]
	t.BaseURL, t.KeyEnv, t.Headers = p.BaseURL, p.KeyEnv, p.Headers
	c.shareLimits(&t)
	all, limits := d.describes(c, r)
	if all {
		d.describe(&t)
	}
	if limits {
		d.limit(&t)
	}
	profile, _ := provider.Lookup(t.Kind)
	if !t.AccountingSet {
		t.Accounting, _ = limit.ParseAccounting(profile.Accounting)
	}
	if t.Limits.Concurrency == 0 {
		t.Limits.Concurrency = profile.Concurrency
	}
	overlay(&t.Timeouts, d.Timeouts)
	return t
}

// describes reports that the flags hold for a target, and that their limits do:
// those go for its whole group. Where the flags name no model, they hold for
// every model of their provider.
func (d *Defaults) describes(c *Config, r Ref) (all, limits bool) {
	main, _ := c.main(d)
	all = r.Provider == main.Provider && (main.Model == "" || r.Model == main.Model)
	if main.Model == "" {
		main.Model = r.Model
	}
	return all, all || c.group(r) == c.group(main)
}

// describe sets what the flags say of a target.
func (d *Defaults) describe(t *Target) {
	if d.BaseURL != "" {
		t.BaseURL = d.BaseURL
	}
	if d.KeyEnv != "" {
		t.KeyEnv = d.KeyEnv
	}
	if len(d.Headers) > 0 {
		headers := maps.Clone(d.Headers)
		for name, v := range t.Headers {
			if _, given := headers[name]; !given {
				headers[name] = v
			}
		}
		t.Headers = headers
	}
	if d.Limits.Concurrency > 0 {
		t.Limits.Concurrency = d.Limits.Concurrency
	}
	if d.Price.Known {
		t.Price = d.Price
	}
}

// limit sets what the flags say of a target's group.
func (d *Defaults) limit(t *Target) {
	for i, given := range caps(&d.Limits) {
		if given.Set {
			*caps(&t.Limits)[i] = *given
		}
	}
	if d.Limits.Burst > 0 {
		t.Limits.Burst = d.Limits.Burst
	}
	switch {
	case d.AccountingSet:
		t.Accounting, t.AccountingSet = d.Accounting, true
	case d.Limits.ITPM.Set || d.Limits.OTPM.Set:
		t.Accounting, t.AccountingSet = limit.Split, true
	}
}

// caps lists the limits of a group.
func caps(l *limit.Limits) []*limit.Cap {
	return []*limit.Cap{&l.RPM, &l.TPM, &l.ITPM, &l.OTPM, &l.RPD, &l.TPD}
}

// kind is a provider's kind, "" if nothing is known of it.
func (c *Config) kind(name string) string {
	if p, ok := c.Providers[name]; ok {
		return p.Kind
	}
	return kindOf(name)
}

// account names whose limits a provider's calls count against. Entries of the
// same kind, host and key are one account: a second name does not multiply its
// limits.
func (c *Config) account(name string) string {
	type place struct{ kind, base, key string }
	at := func(kind string, p Provider) place {
		if profile, ok := provider.Lookup(kind); ok && slices.Contains(profile.KeyEnv, p.KeyEnv) {
			p.KeyEnv = "" // as if not said
		}
		return place{kind, p.BaseURL, p.KeyEnv}
	}
	kind := c.kind(name)
	mine := at(kind, c.Providers[name])
	if kind == "" || kind == mock || mine == (place{kind: compatible}) {
		return name
	}
	// Whichever of its names comes first.
	if _, ok := c.Providers[kind]; !ok && kind < name && at(kind, Provider{}) == mine {
		name = kind
	}
	for other, p := range c.Providers {
		if other < name && at(p.Kind, p) == mine {
			name = other
		}
	}
	return name
}

// group names the limits of a target. A name from the file cannot be mistaken
// for that of an account and model, which has a slash ahead of any space.
func (c *Config) group(r Ref) string {
	name := c.Models[r.String()].LimitGroup
	if name == "" {
		name = c.Providers[r.Provider].LimitGroup
	}
	account := c.account(r.Provider)
	switch {
	case name != "":
		return "group " + name
	case c.kind(r.Provider) == "openrouter" && strings.HasSuffix(r.Model, ":free"):
		// OpenRouter counts the calls to all free models of an account together.
		return account + "/:free"
	default:
		return Ref{account, r.Model}.String()
	}
}

// shareLimits gives a target the tightest limits that the file states for any
// member of its group: a limit that the user gave is hard.
func (c *Config) shareLimits(t *Target) {
	for name, m := range c.Models {
		prov, model, _ := strings.Cut(name, "/")
		if c.group(Ref{prov, model}) != t.Group {
			continue
		}
		mine := caps(&t.Limits)
		for i, other := range caps(&m.Limits) {
			// N 0 says that there is no limit; any number is tighter.
			if other.Set && (!mine[i].Set || mine[i].N == 0 || other.N > 0 && other.N < mine[i].N) {
				*mine[i] = *other
			}
		}
		if b := m.Limits.Burst; b > 0 && (t.Limits.Burst == 0 || b < t.Limits.Burst) {
			t.Limits.Burst = b
		}
	}
}

// overlay sets the fields of t that over gives.
func overlay(t *provider.Timeouts, over provider.Timeouts) {
	take(&t.Connect, over.Connect)
	take(&t.Headers, over.Headers)
	take(&t.Idle, over.Idle)
	take(&t.Total, over.Total)
}

// take sets a field to a value that is given, which 0 is not.
func take[T int | time.Duration](field *T, over T) {
	if over > 0 {
		*field = over
	}
}

// ErrNoRoute is wrapped by the error of Resolve for a task without a route.
var ErrNoRoute = errors.New("no route")

// Resolve gives the route of a line's task; "" is a line without one. A task
// that the file does not have goes the default way, which Route.Task shows: a
// task may be a mere label. It is an error where the file has tasks and no
// default, and no flag says where to go.
func (c *Config) Resolve(task string, d Defaults) (Route, error) {
	r := Route{Task: task, Degrade: -1, Policy: c.Policy(task)}
	override(&r.Policy, d.Policy)
	t, ok := c.Tasks[task]
	if !ok {
		r.Task = DefaultTask
		first, entry := c.main(&d)
		if entry == nil && len(c.Tasks) > 0 && d.Provider == "" && d.Model == "" {
			names := slices.Sorted(maps.Keys(c.Tasks))
			if task == "" {
				return r, fmt.Errorf("%w: the config file has no task %q for lines without one", ErrNoRoute, DefaultTask)
			}
			return r, fmt.Errorf("%w: the config file has neither task %.80q nor %q%s", ErrNoRoute, task, DefaultTask, suggest(task, names))
		}
		if entry == nil {
			r.add(c.Target(first, d), 0)
			return r, nil
		}
		t = *entry
		t.Primary = first
	}
	add := func(ref Ref, when Set) {
		r.add(c.taskTarget(ref, t.Timeouts, d), when)
	}
	add(t.Primary, 0)
	for _, f := range t.Fallbacks {
		add(f.Ref, f.When)
	}
	if t.DegradeTo != nil {
		r.Degrade = len(r.Targets)
		add(t.DegradeTo.Ref, t.DegradeTo.When)
	}
	for level := Severe; level > None; level-- {
		if slices.Contains(c.Degradation[level].Actions.SmallerModel, r.Task) {
			r.DegradeAt = level
		}
	}
	return r, nil
}

func (r *Route) add(t Target, when Set) {
	r.Targets = append(r.Targets, t)
	r.When = append(r.When, when)
}

// override sets the fields of p that flags give.
func override(p *retry.Policy, over retry.Policy) {
	take(&p.MaxAttempts, over.MaxAttempts)
	take(&p.MaxTotal, over.MaxTotal)
	take(&p.Base, over.Base)
	take(&p.Cap, over.Cap)
	take(&p.MaxWait, over.MaxWait)
	take(&p.MaxOutage, over.MaxOutage)
	p.HoldUnknown = p.HoldUnknown || over.HoldUnknown
}
