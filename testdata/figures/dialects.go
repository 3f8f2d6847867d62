package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// native is how one provider's own API is asked at the mock.
func native(base, kind string) []string {
	switch kind {
	case "anthropic", "azure":
		base = strings.TrimSuffix(base, "/v1")
	case "gemini":
		base += "beta"
	}
	return []string{"run", "x.jsonl", "--provider", kind, "--base-url", base, "--api-key-env", "OPENAI_API_KEY", "--model", "m", "--json"}
}

// marked writes lines that name a fault.
func marked(dir, fault string, n int) error {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"id":"op-%d","prompt":"[[fault:%s]] case %d","max_tokens":20}`+"\n", i, fault, i)
	}
	return os.WriteFile(dir+"/x.jsonl", []byte(text.String()), 0o600)
}

// spentOnce is point 4: an account without credit is asked once, however it
// says so.
func spentOnce(ctx context.Context, b *bench) error {
	for _, c := range []struct{ kind, form string }{
		{"openai", "insufficient_quota"},
		{"openai", "credit_balance_exhausted"},
		{"openai", "organization_spend_limit_exceeded"},
		{"openai", "project_spend_limit_exceeded"},
		{"openai", "billing_hard_limit_reached"},
		{"anthropic", "enforced_spend_limit"},
		{"anthropic", "usage_limits"},
		{"anthropic", "credit_balance"},
		{"anthropic", "billing_error"},
		{"gemini", "gemini_credit"},
		{"gemini", "gemini_no_quota"},
		{"deepseek", "deepseek_balance"},
		{"mistral", "mistral_payment"},
		{"openrouter", "openrouter_credits"},
		{"openrouter", "openrouter_key_limit"},
		{"openrouter", "openrouter_guardrail_budget"},
		{"openrouter", "openrouter_workspace_budget"},
	} {
		r, l, _, err := b.asked(ctx, c.kind, "quota="+c.form, 5)
		if err != nil {
			return err
		}
		b.equal("r4", c.kind+" "+c.form, fmt.Sprintf("exit %d, %d calls, %d pending", r.Exit, l.Asked, r.Pending), "exit 4, 1 calls, 5 pending")
	}
	r, _, _, err := b.asked(ctx, "openrouter", "quota=openrouter_in_flight_budgetx1", 3)
	if err != nil {
		return err
	}
	b.equal("r4", "openrouter in-flight budget", fmt.Sprintf("exit %d, %d completed", r.Exit, r.Completed), "exit 0, 3 completed")
	p, err := b.pair(ctx, "spent", 40, []string{"--quota-after", "10", "--latency", "100ms"}, nil, "", "spend_exhausted")
	if err != nil {
		return err
	}
	defer p.kill()
	o, err := p.run(ctx)
	b.equal("r4", "spent after 10, with a fallback", fmt.Sprintf("exit %d, %d completed", o.report.Exit, o.report.Completed), "exit 0, 40 completed")
	return err
}

// asked runs lines that name a fault against one provider's API.
func (b *bench) asked(ctx context.Context, kind, fault string, n int) (r harness.Report, l harness.Ledger, p *harness.Process, err error) {
	dir, err := b.folder("asked")
	if err != nil {
		return r, l, nil, err
	}
	if err := marked(dir, fault, n); err != nil {
		return r, l, nil, err
	}
	style := kind
	if !slices.Contains([]string{"openai", "anthropic", "openrouter", "gemini", "groq", "azure", "deepseek", "mistral"}, kind) {
		style = "openai"
	}
	m, err := b.mock(ctx, dir, "--headers", style)
	if err != nil {
		return r, l, nil, err
	}
	defer m.Kill()
	// One call at a time, so that none leaves before the first is answered.
	if p, err = b.run(ctx, dir, append(native(m.URL(), kind), "--concurrency", "1")...); err != nil {
		return r, l, p, err
	}
	if r, err = p.Report(); err != nil {
		return r, l, p, fmt.Errorf("%s %s: %w", kind, fault, err)
	}
	l, err = m.Ledger(ctx)
	return r, l, p, err
}

// dailies is point 5: a day's limit parks its target until the reset.
func dailies(ctx context.Context, b *bench) error {
	for _, kind := range []string{"openai", "openrouter", "groq", "mistral", "gemini", "azure", "anthropic"} {
		r, _, p, err := b.asked(ctx, kind, "daily", 5)
		if err != nil {
			return err
		}
		midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		_, said, _ := strings.Cut(p.Errs.String(), "come back at ")
		said, _, _ = strings.Cut(said, "\n")
		at, err := time.ParseInLocation(time.DateTime, said, time.Local)
		switch kind {
		case "gemini": // midnight in the Pacific time zone, whatever its RetryInfo says
			midnight = pacificMidnight()
		case "azure": // says 86400 seconds at any hour
			midnight = time.Now().Add(24 * time.Hour)
		}
		ok := err == nil && at.Sub(midnight).Abs() < 10*time.Minute && r.Exit == 5 && r.Pending == 5
		b.add("r5", kind+": a day's limit", "exit 5, 5 pending, back at "+midnight.Format(time.DateTime), ok, "exit %d, %d pending, back at %s", r.Exit, r.Pending, said)
	}
	return nil
}

func pacificMidnight() time.Time {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		zone = time.FixedZone("PST", -8*3600)
	}
	y, m, d := time.Now().In(zone).Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, zone).UTC()
}

// budgets is point 6: separate input and output budgets, and an input budget
// alone, with answers a tenth of their cap.
func budgets(ctx context.Context, b *bench) {
	// The climb of the first minute shifts all that follow by two seconds, which
	// weigh less the more there are: the short form has one minute after it.
	windows, target := 4, 0.97
	if b.short {
		windows, target = 2, 0.95-crowd
	}
	var all sync.WaitGroup
	for _, c := range []struct {
		name, kind  string
		mock, run   []string
		limit       int // the binding one
		perMinute   int // calls, about as many as it admits
		outputBinds bool
	}{
		{name: "anthropic, input binds", kind: "anthropic", mock: []string{"--itpm", "20000", "--otpm", "8000"}, run: []string{"--itpm", "20000", "--otpm", "8000"}, limit: 20000, perMinute: 65},
		{name: "anthropic, output binds", kind: "anthropic", mock: []string{"--itpm", "80000", "--otpm", "5000"}, run: []string{"--itpm", "80000", "--otpm", "5000"}, limit: 5000, perMinute: 50, outputBinds: true},
		{name: "gemini, input alone", kind: "gemini", mock: []string{"--tpm", "20000"}, run: []string{"--tpm", "20000"}, limit: 20000, perMinute: 65},
	} {
		all.Go(func() {
			b.try("r6", c.name, func() error {
				s, err := b.scene(ctx, "budgets", same(windows*c.perMinute, 290), 1000,
					append(c.mock, "--window", "sliding", "--headers", c.kind, "--latency", "300ms", "--output-tokens", "100")...)
				if err != nil {
					return err
				}
				defer s.mock.Kill()
				o, err := s.finish(ctx, append(native(s.url, c.kind), c.run...)...)
				if err != nil {
					return err
				}
				l := o.ledger
				used := l.Input
				if c.outputBinds {
					used = l.Output
				}
				// Each minute's worth may go at once.
				rate := 60 * (math.Ceil(float64(used)/float64(c.limit)) - 1) / l.LastSend
				b.equal("r6", c.name+": completed", o.report.Completed, len(o.ids))
				b.add("r6", c.name+": utilization of the binding limit", fmt.Sprintf(">= %.2f", target), rate >= target, "%.3f (%d input, %d output tokens, %.0f s, %d refused)", rate, l.Input, l.Output, l.LastSend, l.Refused)
				return nil
			})
		})
	}
	all.Wait()
}
