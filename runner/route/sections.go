package route

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// What a file may ask for at most.
const (
	mostLimit     = 1_000_000_000_000 // requests or tokens
	mostCalls     = 100_000           // on the wire at once
	mostTokens    = 1_000_000_000     // of one call
	mostPrice     = 100_000           // per million tokens
	mostTries     = 1_000
	mostFallbacks = 32 // of one task
)

// loader fills a Config. References are noted with their places and checked
// when the whole file is read.
type loader struct {
	*parser
	c     *Config
	refs  []place // providers that are named outside of providers
	names []place // retry policies that tasks name
	small []place // tasks that degradation names
}

type place struct {
	node       *yaml.Node
	path, name string
}

// fields are the handlers of an object's keys.
type fields = map[string]func(n *yaml.Node, path string)

func (l *loader) file(n *yaml.Node) {
	l.object(n, "", fields{
		"providers":   l.providers,
		"models":      l.models,
		"retry":       l.retry,
		"tasks":       l.tasks,
		"degradation": l.degradation,
	})
}

func (l *loader) providers(n *yaml.Node, path string) {
	l.each(n, path, func(key, value *yaml.Node) {
		at := join(path, key.Value)
		name, ok := l.text(key, at)
		if ok && strings.Contains(name, "/") {
			l.fault(key, at, "a provider's name has no slash")
			ok = false
		}
		pr := l.provider(value, at)
		if pr.Kind == "" {
			if pr.Kind = kindOf(name); pr.Kind == "" {
				pr.Kind = compatible
			}
		}
		if ok {
			l.c.Providers[name] = pr
		}
	})
}

var (
	envName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	// ours are the headers that the client writes itself; those that carry a
	// key come from the environment or a file of its own.
	ours = []string{
		"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie",
		"host", "content-length", "content-type", "transfer-encoding", "connection", "idempotency-key",
	}
)

func (l *loader) provider(n *yaml.Node, path string) (pr Provider) {
	l.object(n, path, fields{
		"kind": func(n *yaml.Node, path string) {
			name, ok := l.text(n, path)
			if pr.Kind = kindOf(name); ok && pr.Kind == "" {
				l.fault(n, path, "unknown kind %.80q; want one of %s%s", name, strings.Join(Kinds(), ", "), suggest(name, Kinds()))
			}
		},
		"base_url": func(n *yaml.Node, path string) {
			raw, ok := l.text(n, path)
			if !ok {
				return
			}
			// Whether plain HTTP may leave this machine is for a flag to say.
			u, err := provider.CheckBaseURL(raw, true)
			if err != nil {
				l.fault(n, path, "%s", strings.TrimPrefix(err.Error(), "base URL: "))
				return
			}
			pr.BaseURL = u.String()
		},
		"api_key_env": func(n *yaml.Node, path string) {
			// A key written here by mistake must not be repeated.
			name, ok := l.text(n, path)
			if ok && !envName.MatchString(name) {
				l.fault(n, path, "want the name of an environment variable, never a key")
				return
			}
			pr.KeyEnv = name
		},
		"limit_group": func(n *yaml.Node, path string) { pr.LimitGroup, _ = l.text(n, path) },
		"headers":     func(n *yaml.Node, path string) { pr.Headers = l.headers(n, path) },
	})
	return pr
}

func (l *loader) headers(n *yaml.Node, path string) map[string]string {
	all := map[string]string{}
	l.each(n, path, func(key, value *yaml.Node) {
		at := join(path, key.Value)
		switch v, ok := l.text(value, at); {
		case !headerName.MatchString(key.Value):
			l.fault(key, at, "is not the name of a header")
		case slices.Contains(ours, strings.ToLower(key.Value)):
			l.fault(key, at, "this header is not the file's to set; keys come from api_key_env")
		case ok:
			all[key.Value] = v
		}
	})
	return all
}

func (l *loader) models(n *yaml.Node, path string) {
	l.each(n, path, func(key, value *yaml.Node) {
		at := join(path, key.Value)
		prov, model, ok := strings.Cut(key.Value, "/")
		if !ok || prov == "" || model == "" {
			l.fault(key, at, `want "provider/model"`)
		} else if _, ok := l.text(key, at); ok {
			l.refs = append(l.refs, place{key, at, prov})
			l.c.Models[key.Value] = l.model(value, at)
		}
	})
}

func (l *loader) model(n *yaml.Node, path string) (m Model) {
	hard := func(to *limit.Cap) func(*yaml.Node, string) {
		return func(n *yaml.Node, path string) {
			if v, ok := l.whole(n, path, 0, mostLimit); ok {
				*to = limit.Cap{N: v, Set: true}
			}
		}
	}
	lim := &m.Limits
	l.object(n, path, fields{
		"rpm": hard(&lim.RPM), "tpm": hard(&lim.TPM), "rpd": hard(&lim.RPD), "tpd": hard(&lim.TPD),
		"itpm": hard(&lim.ITPM), "otpm": hard(&lim.OTPM),
		"burst": func(n *yaml.Node, path string) { lim.Burst, _ = l.whole(n, path, 1, mostLimit) },
		"concurrency": func(n *yaml.Node, path string) {
			v, _ := l.whole(n, path, 1, mostCalls)
			lim.Concurrency = int(v)
		},
		"accounting": func(n *yaml.Node, path string) {
			name, ok := l.text(n, path)
			if m.Accounting, m.AccountingSet = limit.ParseAccounting(name); ok && !m.AccountingSet {
				l.fault(n, path, "want sum, max, input, split or none, got %.80q", name)
			}
		},
		"price":   func(n *yaml.Node, path string) { m.Price = l.price(n, path) },
		"context": func(n *yaml.Node, path string) { m.Context, _ = l.whole(n, path, 1, mostTokens) },
		"token_factor": func(n *yaml.Node, path string) {
			if v, ok := l.decimal(n, path, 10_000, 100_000_000); ok {
				m.Factor = Factor{Num: v, Den: 1_000_000}
			}
		},
		"timeouts":    func(n *yaml.Node, path string) { m.Timeouts = l.timeouts(n, path) },
		"limit_group": func(n *yaml.Node, path string) { m.LimitGroup, _ = l.text(n, path) },
	})
	if (lim.ITPM.Set || lim.OTPM.Set) && !m.AccountingSet {
		m.Accounting, m.AccountingSet = limit.Split, true
	}
	return m
}

func (l *loader) price(n *yaml.Node, path string) (p money.Price) {
	seen := map[string]bool{}
	tokens := func(to *money.Amount) func(*yaml.Node, string) {
		return func(n *yaml.Node, at string) {
			seen[strings.TrimPrefix(at, path+": ")] = true
			// Millionths for a million tokens are the same number as whole ones for a token.
			if v, ok := l.decimal(n, at, 0, mostPrice*1_000_000); ok {
				*to = money.Amount(v)
			}
		}
	}
	l.object(n, path, fields{"input": tokens(&p.Input), "output": tokens(&p.Output), "cached": tokens(&p.Cached)})
	if !seen["input"] || !seen["output"] {
		l.fault(n, path, "want input and output, both per million tokens")
	}
	if p.Cached > p.Input { // a bound on the cost reckons without a cache
		l.fault(n, path, "cached is above input")
	}
	p.Known, p.CachedKnown = true, seen["cached"]
	return p
}

func (l *loader) timeouts(n *yaml.Node, path string) (t provider.Timeouts) {
	l.object(n, path, fields{
		"connect": l.seconded(&t.Connect), "headers": l.seconded(&t.Headers), "idle": l.seconded(&t.Idle), "total": l.seconded(&t.Total),
	})
	return t
}

func (l *loader) seconded(to *time.Duration) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) { *to, _ = l.seconds(n, path) }
}

var retryFields = []string{"max_attempts", "max_total_retry_seconds", "base_seconds", "cap_seconds"}

func (l *loader) retry(n *yaml.Node, path string) {
	l.each(n, path, func(key, value *yaml.Node) {
		at := join(path, key.Value)
		var p retry.Policy
		l.object(value, at, fields{
			"max_attempts": func(n *yaml.Node, path string) {
				v, _ := l.whole(n, path, 1, mostTries)
				p.MaxAttempts = int(v)
			},
			"max_total_retry_seconds": l.seconded(&p.MaxTotal),
			"base_seconds":            l.seconded(&p.Base),
			"cap_seconds":             l.seconded(&p.Cap),
		})
		if full := p.OrDefaults(); full.Base > full.Cap {
			l.fault(key, at, "base_seconds (%s) is above cap_seconds (%s)", full.Base, full.Cap)
		}
		if name, ok := l.text(key, at); ok {
			l.c.Retry[name] = p
		}
	})
}
