package cmd

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/route"
)

// configEnv names the config file where no flag does.
const configEnv = "LLMBATCH_CONFIG"

func newConfig(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check or show a config file of providers, models and routes",
		Args:  noCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:     "check FILE",
		Short:   "Tell every mistake in a config file",
		Example: "  llmbatch config check testdata/routes/support.yaml",
		Args:    one("FILE", "a config file, YAML or JSON"),
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := loadConfig(args[0], "")
			if err == nil {
				env.say("%s is in order", args[0])
			}
			return err
		},
	}, &cobra.Command{
		Use:     "show FILE",
		Short:   "Print a config file as it is understood, without secrets",
		Example: "  llmbatch config show testdata/routes/support.yaml",
		Args:    one("FILE", "a config file, YAML or JSON"),
		RunE: func(_ *cobra.Command, args []string) error {
			rc, err := loadConfig(args[0], mendConfig(args[0]))
			if err != nil {
				return err
			}
			_, err = env.Stdout.Write(rc.Show(env.Getenv))
			return err
		},
	})
	return c
}

// loadConfig reads a config file; hint says what to do where it is wrong.
func loadConfig(path, hint string) (*route.Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("", "config: %s", err)
	}
	rc, err := route.Load(data, path)
	if err != nil {
		return nil, usagef(hint, "%s", err)
	}
	return rc, nil
}

func mendConfig(path string) string {
	return "mend the file; llmbatch config check " + path + " says when it is in order"
}

// configured makes the targets and routes of a config file. Flags that are
// given describe the main target and go ahead of the file.
type configured struct {
	env    Env
	file   *route.Config
	flags  route.Defaults
	target *targetOptions
	dry    bool

	targets []runner.Target
	from    []route.Target // what those were made of
	lanes   map[route.Ref]int
	reasons map[int]error // why a target cannot be used
}

// apply resolves every task ahead of the run, so that a mistake shows before
// the first call.
func (f *configured) apply(cfg *runner.Config) error {
	if f.file.Degradation.CachesAnswers() && cfg.Cache == "" && !f.dry {
		return usagef("give --cache DIR, or take it out of the file", "degradation: cached_answer: it takes answers of a cache, and there is none")
	}
	if f.file.Degrades() {
		cfg.Degradation = &f.file.Degradation
	}
	tasks := slices.Sorted(maps.Keys(f.file.Tasks))
	routes, text, err := f.resolve(append([]string{""}, tasks...))
	if err != nil {
		return err
	}
	cfg.Targets, cfg.ForModel = f.targets, f.forModel
	cfg.Settings.Anthropic = slices.ContainsFunc(f.from, func(t route.Target) bool {
		p, _ := provider.Lookup(t.Kind)
		return p.TakesMessages()
	})
	cfg.Routes = &runner.Routes{Tasks: tasks, Text: text, Resolve: func(task string) (*runner.Route, error) {
		r := routes[task]
		if r == nil {
			r = routes[""]
		}
		if r == nil {
			_, err := f.file.Resolve(task, f.flags)
			return nil, err
		}
		return r, f.usable(r)
	}}
	cfg.Settings.TaskModel = func(task string) string {
		r := routes[task]
		if r == nil {
			return ""
		}
		return r.Targets[0].Model
	}
	if main := routes[""]; main != nil && cfg.Settings.Model == "" {
		cfg.Settings.Model = main.Targets[0].Model
	}
	return nil
}

// resolve makes the route of each task ("" is a line without one) that has one,
// the targets' lanes and the text of all.
func (f *configured) resolve(tasks []string) (routes map[string]*runner.Route, all string, err error) {
	f.lanes, f.reasons = map[route.Ref]int{}, map[int]error{}
	routes = map[string]*runner.Route{}
	var text strings.Builder
	for _, name := range tasks {
		r, err := f.file.Resolve(name, f.flags)
		if errors.Is(err, route.ErrNoRoute) {
			continue // no line may need it
		}
		if err != nil {
			return nil, "", usagef("", "%s", err)
		}
		mine := &runner.Route{Route: r}
		for i := range r.Targets {
			n := f.add(&r.Targets[i])
			mine.Lanes = append(mine.Lanes, n)
			mine.Clients = append(mine.Clients, f.hurried(n, &r.Targets[i]))
		}
		routes[name] = mine
		if _, same := f.file.Tasks[route.DefaultTask]; same && name == "" && f.flags.Provider+f.flags.Model == "" {
			continue // its text is that of the default task
		}
		fmt.Fprintf(&text, "%s: %s\n", name, runner.RouteText(mine, f.targets))
	}
	return routes, text.String(), nil
}

// usable refuses a route whose first target cannot be called, nor one that takes
// over then.
func (f *configured) usable(r *runner.Route) error {
	if f.dry {
		return nil
	}
	var first error
	for i, n := range r.Lanes {
		if f.targets[n].Client != nil && (first == nil || r.When[i].Has(route.PrimaryUnavailable)) {
			return nil
		}
		if first == nil {
			first = f.reasons[n]
		}
	}
	return first
}

// add makes a target, once.
func (f *configured) add(t *route.Target) int {
	if n, ok := f.lanes[t.Ref]; ok {
		return n
	}
	n := len(f.targets)
	f.lanes[t.Ref] = n
	out := targetOf(t)
	p, base, err := f.place(t)
	if err == nil {
		out.BaseURL = base.String()
		out.Configured = !f.named(base)
	}
	if !f.dry {
		if err == nil {
			out.Client, err = f.client(t, p, base)
		}
		if err != nil {
			f.reasons[n], out.Fault = err, err
		} else if t.Kind != mockName {
			f.env.say("calls for %s go to %s", t, base.Host)
		}
	}
	f.targets, f.from = append(f.targets, out), append(f.from, *t)
	return n
}

func targetOf(t *route.Target) runner.Target {
	p := profileOf(t.Kind)
	return runner.Target{
		Provider: t.Provider, Model: t.Model, Group: t.Group, Limits: t.Limits, Accounting: t.Accounting, Given: t.AccountingSet, Price: t.Price, Context: t.Context,
		Factor: runner.Factor(t.Factor), DefaultCap: p.DefaultCap, CapParam: p.CapParam,
	}
}

// profileOf is what is known of a provider of some kind.
func profileOf(kind string) provider.Profile {
	if kind == mockName {
		return mockProfile()
	}
	p, known := provider.Lookup(kind)
	if !known {
		p, _ = provider.Lookup("openai-compatible")
	}
	return p
}

// hurried is the client of a task with other timeouts than the task has that a
// target was made for; nil where the target's own will do.
func (f *configured) hurried(n int, t *route.Target) provider.Client {
	if f.targets[n].Client == nil || t.Timeouts == f.from[n].Timeouts {
		return nil
	}
	p, base, err := f.place(t)
	if err != nil {
		return nil
	}
	client, err := f.client(t, p, base)
	if err != nil {
		return nil // it was made before, so it can be
	}
	return client
}

// forModel is the target of a model that lines keep, with what the file says of
// that model.
func (f *configured) forModel(n int, model string) runner.Target {
	t := f.file.WithModel(f.from[n], model, f.flags)
	out, base := targetOf(&t), f.targets[n]
	out.Client, out.BaseURL, out.Configured, out.Fault = base.Client, base.BaseURL, base.Configured, base.Fault
	if c := f.hurried(n, &t); c != nil {
		out.Client = c
	}
	return out
}

// place is where a target's calls go and what is known of the provider there.
func (f *configured) place(t *route.Target) (p provider.Profile, base *url.URL, err error) {
	if err := t.Usable(); err != nil {
		return p, nil, usagef("give it a base_url in the config file", "%s", err)
	}
	p = profileOf(t.Kind)
	text := t.BaseURL
	if text == "" {
		text, _ = p.Base(f.env.Getenv)
	}
	if base, err = provider.CheckBaseURL(strings.TrimRight(text, "/"), f.target.allowPlain); err != nil {
		return p, nil, usagef(baseHint(err), "provider %s: %s", t.Provider, err)
	}
	return p, base, nil
}

// client makes a target's client. A key from a provider's own variable goes to
// the provider's own host alone; elsewhere the file has to name one.
func (f *configured) client(t *route.Target, p provider.Profile, base *url.URL) (provider.Client, error) {
	keys := *f.target
	keys.keyEnv = t.KeyEnv
	own := t.BaseURL == "" && p.BaseURL == "" || sameHost(base.String(), p.BaseURL)
	named := f.named(base)
	elsewhere := !own && !named
	if named {
		p = withStandardKey(p)
	}
	if elsewhere && t.KeyEnv == "" {
		p.KeyEnv, p.KeyFree = nil, true
	}
	key, err := keys.key(f.env, p, false)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for k, v := range t.Headers {
		header.Set(k, v)
	}
	opts := provider.TransportOptions{Timeouts: t.Timeouts, Concurrency: t.Limits.Concurrency}
	if opts.Timeouts.Total == 0 {
		opts.Timeouts.Total = f.target.timeout
	}
	if t.Kind == mockName {
		opts.RoundTripper = &fake.Transport{Server: newInnerMock()}
	}
	if opts.RootCAs, err = f.target.roots(); err != nil {
		return nil, err
	}
	client, err := runner.NewClient(runner.Endpoint{
		Profile: p, Name: t.Provider, BaseURL: base.String(), AllowPlain: f.target.allowPlain, Key: key, Header: header,
		Version: versionOf(p, f.env.Getenv), Transport: opts,
	})
	if err != nil {
		return nil, usagef("", "provider %s: %s", t.Provider, err)
	}
	return client, nil
}

// named says that a URL is the one of the command line.
func (f *configured) named(base *url.URL) bool {
	return f.target.baseURL != "" && base.String() == strings.TrimRight(f.target.baseURL, "/")
}

// mockProfile is that of the mock provider inside this process.
func mockProfile() provider.Profile {
	return provider.Profile{Name: mockName, BaseURL: "http://127.0.0.1/v1", KeyFree: true, AuthHeader: "Authorization", Accounting: "sum"}
}

func newInnerMock() *fake.Server {
	return fake.New(fake.Config{Latency: 300 * time.Millisecond, LatencyJitter: 100 * time.Millisecond, Count: countWith(estimate.NewCounter())})
}

// defaults gathers the flags that were given, for the main target.
func (o *runOptions) defaults(c *cobra.Command) (d route.Defaults, err error) {
	given := c.Flags().Changed
	if given("provider") {
		d.Provider = o.target.provider
	}
	d.Model, d.BaseURL, d.KeyEnv = o.job.model, o.target.baseURL, o.target.keyEnv
	h, err := o.target.header()
	if err != nil {
		return d, err
	}
	for k := range h {
		if d.Headers == nil {
			d.Headers = map[string]string{}
		}
		d.Headers[k] = h.Get(k)
	}
	if d.Limits, err = o.pace.limits(c); err != nil {
		return d, err
	}
	if d.AccountingSet = o.pace.accounting != ""; d.AccountingSet {
		var ok bool
		if d.Accounting, ok = limit.ParseAccounting(o.pace.accounting); !ok {
			return d, usagef("", "--accounting %q: want sum, max, input, split or none", o.pace.accounting)
		}
	}
	if given("max-attempts") {
		d.Policy.MaxAttempts = o.retry.maxAttempts
	}
	if given("max-retry-time") {
		d.Policy.MaxTotal = o.retry.maxRetryTime
	}
	if given("timeout") {
		d.Timeouts.Total = o.target.timeout
	}
	d.Price, err = o.price()
	return d, err
}
