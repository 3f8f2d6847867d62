package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// pressure measures runs whose deadline leaves no time for whole answers.
func pressure(ctx context.Context, b *bench) {
	cases := []func(context.Context, *bench) error{smaller, shorter, fixedAnswers, heldBack}
	for _, c := range cases {
		b.try("d", "pressure", func() error { return c(ctx, b) })
	}
}

// pressed is a pair whose config has a degradation section; task and models are
// of the primary.
func (b *bench) pressed(ctx context.Context, n int, house []string, models, task, section string) (*pair, error) {
	p, err := b.pair(ctx, "pressure", n, house, []string{"--latency", "300ms"}, "", "rate_limited")
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`providers:
  house: {kind: openai-compatible, base_url: %q}
  cloud: {kind: openai-compatible, base_url: %q}
models: {%s}
tasks:
  default: {primary: {provider: house, model: small}%s}
degradation: {%s}
`, p.mock.URL(), p.cloud.URL(), models, task, section)
	return p, os.WriteFile(p.dir+"/routes.yaml", []byte(text), 0o600)
}

// marked counts the results that say that they gave something up, and those
// that hold a text; each of either must be both.
func (p *pair) marked(action, text string) (n int, err error) {
	done, err := harness.ReadLines(p.dir + "/x.results.jsonl")
	for id, l := range done {
		mark := strings.Contains(l, `"degraded":["`+action+`"]`)
		if mark != strings.Contains(l, text) || !mark && strings.Contains(l, `"degraded":`) {
			return n, fmt.Errorf("the result of %s is marked wrongly: %.600s", id, l)
		}
		if mark {
			n++
		}
	}
	return n, err
}

// smaller: 60 calls at 20 a minute, half a minute, and a smaller model.
func smaller(ctx context.Context, b *bench) error {
	const name = "60 at 20 a minute in 30 s, degrade_to"
	p, err := b.pressed(ctx, 60, []string{"--latency", "300ms", "--rpm", "20", "--window", "sliding"}, "house/small: {rpm: 20}",
		", degrade_to: {provider: cloud, model: large}", "moderate: {smaller_model: [default]}")
	if err != nil {
		return err
	}
	defer p.kill()
	o, err := p.run(ctx, "--deadline", "30s")
	if err != nil {
		return err
	}
	l, err := p.cloud.Ledger(ctx)
	if err != nil {
		return err
	}
	r := o.report
	n, err := p.marked("smaller_model", `"model":"large","attempts"`)
	if err != nil {
		return err
	}
	b.equal("d1", name+": completed, exit", fmt.Sprint(r.Completed, r.Exit), "60 0")
	b.atMost("d1", name+": seconds", r.Seconds, 30, " s")
	b.equal("d1", name+": marked, of the smaller model, told", fmt.Sprint(n, l.Billed, r.Degraded), fmt.Sprint(n, n, n))
	b.equal("d1", name+": billed by both", o.ledger.Billed+l.Billed, 60)
	again, err := p.run(ctx)
	b.equal("d1", name+": calls of a second run", again.report.Calls, 0)
	return err
}

// shorter: 60 answers of 1,000 tokens at 40,000 a minute in 40 s.
func shorter(ctx context.Context, b *bench) error {
	const name = "60 answers of 1,000 tokens at 40,000 a minute in 40 s, max_tokens: 200"
	p, err := b.pressed(ctx, 60, []string{"--latency", "300ms", "--tpm", "40000", "--window", "sliding", "--output-tokens", "1000"},
		"house/small: {tpm: 40000}", "", "light: {max_tokens: 200}")
	if err != nil {
		return err
	}
	defer p.kill()
	if p.ids, err = write(p.dir, same(60, 10), 1000); err != nil {
		return err
	}
	o, err := p.run(ctx, "--deadline", "40s")
	if err != nil {
		return err
	}
	r, l := o.report, o.ledger
	n, err := p.marked("max_tokens:200", `"output_tokens":200,`)
	if err != nil {
		return err
	}
	b.equal("d2", name+": completed, exit", fmt.Sprint(r.Completed, r.Exit), "60 0")
	b.atMost("d2", name+": seconds", r.Seconds, 40, " s")
	b.add("d2", name+": shorter, as each says", "25 to 60, as told", n >= 25 && n == r.Degraded, "%d", n)
	b.equal("d2", name+": output billed", l.Output, 200*n+1000*(60-n))
	b.equal("d2", name+": refused", l.Refused, 0)
	return nil
}

// fixedAnswers: 60 calls at 20 a minute in 30 s, and a text in their place.
func fixedAnswers(ctx context.Context, b *bench) error {
	const name = "60 at 20 a minute in 30 s, fixed_answer"
	p, err := b.pressed(ctx, 60, []string{"--latency", "300ms", "--rpm", "20", "--window", "sliding"}, "house/small: {rpm: 20}", "",
		`severe: {fixed_answer: "Ask again tomorrow."}`)
	if err != nil {
		return err
	}
	defer p.kill()
	o, err := p.finish(ctx, routed("--deadline", "30s")...) // whose results name no model
	if err != nil {
		return err
	}
	r, l := o.report, o.ledger
	n, err := p.marked("fixed_answer", `"content":"Ask again tomorrow."`)
	if err != nil {
		return err
	}
	b.equal("d3", name+": completed, exit", fmt.Sprint(r.Completed, r.Exit), "60 0")
	b.atMost("d3", name+": seconds", r.Seconds, 30, " s")
	b.equal("d3", name+": marked and billed", fmt.Sprint(n == r.Degraded, n+l.Billed), "true 60")
	b.add("d3", name+": real answers", ">= 18 of the 20 that the limit admits", l.Billed >= 18, "%d", l.Billed)
	return nil
}

// heldBack: 20 operations and 40 of low priority, at 20 a minute in 30 s.
func heldBack(ctx context.Context, b *bench) error {
	const name = "20 and 40 of low priority at 20 a minute in 30 s, held"
	p, err := b.pressed(ctx, 60, []string{"--latency", "300ms", "--rpm", "20", "--window", "sliding"}, "house/small: {rpm: 20}", "",
		"light: {hold: {priority: low}}")
	if err != nil {
		return err
	}
	defer p.kill()
	raw, err := os.ReadFile(p.dir + "/x.jsonl")
	if err != nil {
		return err
	}
	var text strings.Builder
	for i, line := range strings.SplitAfter(strings.TrimSpace(string(raw)), "\n") {
		if i < 40 {
			line = strings.Replace(line, "{", `{"priority":"low",`, 1)
		}
		text.WriteString(line)
	}
	if err := os.WriteFile(p.dir+"/x.jsonl", []byte(text.String()+"\n"), 0o600); err != nil {
		return err
	}
	o, err := p.run(ctx, "--deadline", "30s")
	if err != nil {
		return err
	}
	done, err := harness.ReadLines(p.dir + "/x.results.jsonl")
	if err != nil {
		return err
	}
	r, low := o.report, 0
	for _, id := range p.ids[:40] {
		if done[id] != "" {
			low++
		}
	}
	b.equal("d4", name+": completed, pending, held back, exit", fmt.Sprint(r.Completed, r.Pending, r.HeldBack, r.Exit), "20 40 40 5")
	b.equal("d4", name+": low ones among them", low, 0)
	b.atMost("d4", name+": seconds", r.Seconds, 30, " s")
	if b.short {
		return nil
	}
	if o, err = p.run(ctx, "--deadline", "1h"); err != nil {
		return err
	}
	b.equal("d4", name+": completed, calls with an hour", fmt.Sprint(o.report.Completed, o.report.Calls), "60 40")
	return nil
}
