package cmd

import (
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

// targetOptions say where the calls go.
type targetOptions struct {
	provider, baseURL, keyEnv, keyFile, caFile string
	headers                                    []string
	timeout                                    time.Duration
	allowPlain                                 bool
}

func (o *targetOptions) flags(fl *pflag.FlagSet) {
	fl.StringVar(&o.provider, "provider", "openai", "`name`: "+strings.Join(providerNames(), ", "))
	fl.StringVar(&o.baseURL, "base-url", "", "`URL` of the API, up to and with its version (…/v1)")
	fl.StringVar(&o.keyEnv, "api-key-env", "", "`name` of the variable that holds the key")
	fl.StringVar(&o.keyFile, "api-key-file", "", "`file` that holds the key; - is standard input")
	fl.StringArrayVar(&o.headers, "header", nil, "`K:V` sent with each request; may be given again")
	fl.DurationVar(&o.timeout, "timeout", 15*time.Minute, "longest `time` of one call")
	fl.BoolVar(&o.allowPlain, "allow-plain-http", false, "allow http:// to another machine")
	fl.StringVar(&o.caFile, "ca-file", "", "PEM `file` of certificate authorities to trust instead of the system's")
}

var (
	envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// shown are names that can be repeated: a key given in their place is longer,
	// or not of capitals alone.
	shown = regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,39}$|^[A-Za-z_]{1,16}$`)
)

// check finds what is wrong with the flags before anything is read.
func (o *targetOptions) check(input string) error {
	if isStdin(input) && isStdin(o.keyFile) {
		return usagef("give the key by a variable (--api-key-env NAME) or in a file", "run %s and --api-key-file %s both read standard input", input, o.keyFile)
	}
	if o.keyEnv != "" && !envName.MatchString(o.keyEnv) {
		return usagef("for example --api-key-env HOUSE_KEY; a key on the command line can be read by others on this machine", "--api-key-env wants the name of a variable; what was given is none, and is not shown, for it may be a key")
	}
	return nil
}

func isStdin(name string) bool {
	return name == "-" || name == "/dev/stdin" || name == "/dev/fd/0" || name == "/proc/self/fd/0"
}

const mockName = "mock"

func providerNames() []string {
	var names []string
	for _, p := range provider.Profiles() {
		names = append(names, p.Name)
	}
	return append(names, mockName)
}

// apply makes the target that the flags name, with its client, and returns
// its provider's profile.
func (o *targetOptions) apply(c *cobra.Command, env Env, all *runOptions, cfg *runner.Config) (p provider.Profile, err error) {
	if o.provider == mockName {
		return o.applyMock(c, cfg)
	}
	p, ok := provider.Lookup(o.provider)
	if !ok {
		return p, usagef("one of: "+strings.Join(providerNames(), ", "), "no provider %q is known", o.provider)
	}
	t := &cfg.Targets[0]
	t.Provider = p.Name
	base, elsewhere, err := o.base(env, p, all.dry.on)
	if err != nil {
		return p, err
	}
	t.BaseURL = base.String()
	if t.Limits.Concurrency = all.pace.concurrency; t.Limits.Concurrency == 0 {
		t.Limits.Concurrency = p.Concurrency
	}
	cfg.Settings.OutputCap, t.CapParam = capFor(p), p.CapParam
	cfg.Settings.Anthropic = p.TakesMessages()
	if t.DefaultCap = p.DefaultCap; p.DefaultCap > 0 {
		env.say("%s requires an output cap: requests without one get %d", p.Name, p.DefaultCap)
	}
	if all.dry.on {
		return p, nil
	}
	if o.baseURL != "" {
		p = withStandardKey(p)
	}
	header, err := o.header()
	if err != nil {
		return p, err
	}
	roots, err := o.roots()
	if err != nil {
		return p, err
	}
	key, err := o.key(env, p, elsewhere)
	if err != nil {
		return p, err
	}
	t.Client, err = runner.NewClient(runner.Endpoint{
		Profile: p, BaseURL: t.BaseURL, AllowPlain: o.allowPlain, Key: key, Header: header,
		Version: versionOf(p, env.Getenv),
		Transport: provider.TransportOptions{
			Timeouts: provider.Timeouts{Total: o.timeout, Headers: min(o.timeout, 10*time.Minute)}, Concurrency: t.Limits.Concurrency, RootCAs: roots,
		},
	})
	if err != nil {
		return p, usagef("", "%s", err)
	}
	env.say("calls go to %s (%s)", base.Host, p.Name)
	return p, nil
}

// base is the URL that calls go to; elsewhere says that a variable led it away
// from the provider's own host.
func (o *targetOptions) base(env Env, p provider.Profile, dry bool) (u *url.URL, elsewhere bool, err error) {
	base, fromEnv := p.Base(env.Getenv)
	if o.baseURL != "" {
		base, fromEnv = o.baseURL, false
	}
	if base == "" && dry {
		base = "http://127.0.0.1" // nothing is sent to it
	}
	if base == "" {
		return nil, false, usagef("for example --base-url http://127.0.0.1:8000/v1", "--provider %s needs --base-url", o.provider)
	}
	base = strings.TrimRight(base, "/")
	u, err = provider.CheckBaseURL(base, o.allowPlain)
	if err != nil {
		return nil, false, usagef(baseHint(err), "%s", err)
	}
	// A provider without a host of its own (azure) has the one that its
	// variable names.
	return u, fromEnv && p.BaseURL != "" && !sameHost(base, p.BaseURL), nil
}

// baseHint says what to do about a base URL that was refused.
func baseHint(err error) string {
	if errors.Is(err, provider.ErrPlainHTTP) {
		return "--allow-plain-http allows it: prompts and key are then readable on the way"
	}
	return "for example --base-url http://localhost:8000/v1"
}

// applyMock puts the mock provider into this process: no network, no key.
func (o *targetOptions) applyMock(c *cobra.Command, cfg *runner.Config) (p provider.Profile, err error) {
	for _, name := range []string{"base-url", "api-key-env", "api-key-file", "ca-file"} {
		if c.Flags().Changed(name) {
			return p, usagef("llmbatch mock serves one as a process of its own, for --provider openai-compatible", "--%s does not apply to --provider mock, which is inside this process", name)
		}
	}
	header, err := o.header()
	if err != nil {
		return p, err
	}
	p = mockProfile()
	cfg.Settings.OutputCap = capFor(p)
	t := &cfg.Targets[0]
	t.Provider, t.BaseURL = mockName, p.BaseURL
	t.Client, err = runner.NewClient(runner.Endpoint{
		Profile: p, BaseURL: t.BaseURL, Header: header,
		Transport: provider.TransportOptions{Timeouts: provider.Timeouts{Total: o.timeout}, RoundTripper: &fake.Transport{Server: newInnerMock()}},
	})
	if err != nil {
		return p, usagef("", "%s", err)
	}
	return p, nil
}

func capFor(p provider.Profile) func(string) string {
	return func(model string) string { return p.CapParam("/chat/completions", model) }
}

func versionOf(p provider.Profile, getenv func(string) string) string {
	if p.VersionEnv == "" {
		return ""
	}
	return getenv(p.VersionEnv)
}

// key finds the API key. One from the provider's own variable goes to the
// provider's host or to a base URL named on the command line, nowhere else.
func (o *targetOptions) key(env Env, p provider.Profile, elsewhere bool) (key provider.Secret, err error) {
	switch {
	case o.keyFile != "" && o.keyEnv != "":
		return key, usagef("", "--api-key-file and --api-key-env exclude each other")
	case o.keyFile == "-":
		if key, err = provider.ReadSecret(env.Stdin); err != nil {
			return key, usagef("", "--api-key-file: %s", err)
		}
		return key, nil
	case o.keyFile != "":
		key, warning, err := provider.ReadSecretFile(o.keyFile)
		if err != nil {
			return key, usagef("", "--api-key-file: %s", err)
		}
		if warning != "" {
			env.say("%s", warning)
		}
		return key, nil
	}
	names := p.KeyEnv
	if o.keyEnv != "" {
		names = []string{o.keyEnv}
	}
	for _, name := range names {
		v := env.Getenv(name)
		if strings.TrimSpace(v) == "" {
			continue
		}
		if elsewhere && o.keyEnv == "" {
			return key, usagef("name the URL with --base-url, or the variable with --api-key-env", "%s points to another host than the provider's; the key in %s is not sent there", p.BaseEnv, name)
		}
		if key, err = provider.NewSecret(v); err != nil {
			return key, usagef("", "%s: %s", name, err)
		}
		return key, nil
	}
	if o.keyEnv != "" || !p.KeyFree {
		if o.keyEnv != "" && !shown.MatchString(o.keyEnv) {
			names = []string{"the variable that was named (not shown, for it may be a key)"}
		}
		return key, usagef("set it, or name a file with --api-key-file; --provider mock answers without a key, to try things out", "no key: %s is not set", strings.Join(names, " or "))
	}
	return key, nil
}

// withStandardKey lets a compatible server that the command line names have the
// key of the API that it speaks, if that is set.
func withStandardKey(p provider.Profile) provider.Profile {
	if p.Name == "openai-compatible" {
		p.KeyEnv = []string{"OPENAI_API_KEY"}
	}
	return p
}

func sameHost(a, b string) bool {
	ua, err := url.Parse(a)
	if err != nil {
		return false
	}
	ub, err := url.Parse(b)
	return err == nil && ua.Host == ub.Host
}

func (o *targetOptions) header() (http.Header, error) {
	h := http.Header{}
	for i, kv := range o.headers {
		k, v, ok := strings.Cut(kv, ":")
		if !ok || strings.TrimSpace(k) == "" {
			return nil, usagef("for example --header 'X-Title: tickets'", "--header %d of %d: want K:V", i+1, len(o.headers))
		}
		h.Add(strings.TrimSpace(k), strings.TrimSpace(v))
	}
	return h, nil
}

func (o *targetOptions) roots() (*x509.CertPool, error) {
	if o.caFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(o.caFile)
	if err != nil {
		return nil, usagef("", "--ca-file: %s", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, usagef("", "--ca-file %s holds no certificate in PEM form", o.caFile)
	}
	return pool, nil
}
