package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// routes measures fallbacks between providers, each a mock of its own.
func routes(ctx context.Context, b *bench) {
	cases := []func(context.Context, *bench) error{
		func(ctx context.Context, b *bench) error { return spilled(ctx, b, true) },
		func(ctx context.Context, b *bench) error { return spilled(ctx, b, false) },
		failover, died, gone, spentOnce, dailies,
	}
	var waiting sync.WaitGroup
	waiting.Go(func() { budgets(ctx, b) })
	for _, c := range cases {
		b.try("r", "routes", func() error { return c(ctx, b) })
	}
	waiting.Wait()
}

// line is a config of two providers, the second of which takes over under a
// condition.
func line(dir, first, second, models, when string) error {
	text := fmt.Sprintf(`providers:
  house: {kind: openai-compatible, base_url: %q}
  cloud: {kind: openai-compatible, base_url: %q}
models: {%s}
tasks:
  default:
    primary: {provider: house, model: small}
    fallbacks: [{provider: cloud, model: large, when: [%s]}]
`, first, second, models, when)
	return os.WriteFile(dir+"/routes.yaml", []byte(text), 0o600)
}

// pair is a case of two mocks, an input and a config; the scene's mock is house.
type pair struct {
	*scene
	cloud *harness.Mock
}

// pair starts both mocks; the caller kills them.
func (b *bench) pair(ctx context.Context, name string, n int, house, cloud []string, models, when string) (p *pair, err error) {
	p = &pair{}
	if p.scene, err = b.scene(ctx, name, same(n, 10), 40, house...); err != nil {
		return nil, err
	}
	if p.cloud, err = b.mock(ctx, p.dir, cloud...); err != nil {
		p.mock.Kill()
		return nil, err
	}
	return p, line(p.dir, p.mock.URL(), p.cloud.URL(), models, when)
}

func (p *pair) kill() {
	p.mock.Kill()
	p.cloud.Kill()
}

// routed is the command of a run by the config.
func routed(flags ...string) []string {
	return append([]string{"run", "x.jsonl", "--config", "routes.yaml", "--json"}, flags...)
}

// run runs the case to its end and checks that no result is lost or doubled. The
// ledger is that of house.
func (p *pair) run(ctx context.Context, flags ...string) (outcome, error) {
	o, err := p.finish(ctx, routed(flags...)...)
	if err == nil {
		err = p.check(o.report)
	}
	return o, err
}

func (p *pair) check(r harness.Report) error {
	done, err := harness.ReadLines(p.dir + "/x.results.jsonl")
	if err != nil {
		return err
	}
	if len(done) != r.Completed {
		return fmt.Errorf("the file holds %d results, the report says %d", len(done), r.Completed)
	}
	for id, l := range done {
		if !strings.Contains(l, `"provider":"house","model":"small"`) && !strings.Contains(l, `"provider":"cloud","model":"large"`) {
			return fmt.Errorf("the result of %s does not name its model: %.300s", id, l)
		}
	}
	return nil
}

// spilled is point 1: 60 calls at 20 a minute, and a second model for the rest.
func spilled(ctx context.Context, b *bench, given bool) error {
	name, models, most := "60 at 20 a minute, limit given", "house/small: {rpm: 20}", 1.1
	if !given {
		name, models, most = "60 at 20 a minute, limit learned", "", 1.3
	}
	if b.short {
		most += 2 * crowd // both passes are timed
	}
	slow := []string{"--latency", "2s"}
	free, err := b.pair(ctx, "free", 60, slow, slow, "", "rate_limited")
	if err != nil {
		return err
	}
	defer free.kill()
	alone, err := free.run(ctx)
	if err != nil {
		return err
	}
	p, err := b.pair(ctx, "spill", 60, append(slow, "--rpm", "20", "--window", "sliding"), slow, models, "rate_limited")
	if err != nil {
		return err
	}
	defer p.kill()
	o, err := p.run(ctx)
	if err != nil {
		return err
	}
	b.equal("r1", name+": completed", o.report.Completed, 60)
	b.atMost("r1", name+": time/unthrottled pass", o.report.Seconds/alone.report.Seconds, most, "")
	refusals := 4.0
	if given {
		refusals = 0
	}
	b.atMost("r1", name+": refused", float64(o.ledger.Refused), refusals, "")
	again, err := p.run(ctx)
	b.equal("r1", name+": calls of a second run", again.report.Calls, 0)
	return err
}

// failover is point 2: a provider that fails up to 32 of 150 calls, and one
// that loses answers which it was paid for.
func failover(ctx context.Context, b *bench) error {
	for _, c := range []struct {
		name  string
		house []string
	}{
		{"up to 32 of 150 calls fail", []string{"--error-rate", "0.3", "--error-max", "32", "--latency", "100ms"}},
		{"answers lost, keys honoured", []string{"--lost-rate", "0.1", "--honour-keys", "--latency", "100ms"}},
		{"answers lost, keys ignored", []string{"--lost-rate", "0.1", "--latency", "100ms"}},
	} {
		p, err := b.pair(ctx, "failover", 150, c.house, []string{"--latency", "100ms"}, "", "provider_5xx, primary_unavailable")
		if err != nil {
			return err
		}
		defer p.kill()
		o, err := p.run(ctx)
		if err != nil {
			return err
		}
		l, err := p.cloud.Ledger(ctx)
		if err != nil {
			return err
		}
		r := o.report
		b.equal("r2", c.name+": completed", r.Completed, 150)
		twice := o.ledger.Billed + l.Billed - 150
		b.add("r2", c.name+": billed twice", fmt.Sprintf("<= %d, the unknown outcomes that are told", r.PossiblyTwice), twice <= r.PossiblyTwice && (r.PossiblyTwice == 0) == (len(r.UnknownOps) == 0), "%d", twice)
	}
	return nil
}

// died is point 3 by the books: a primary that answers 503 from 40 % to 80 %.
func died(ctx context.Context, b *bench) error {
	const name = "down from 40 to 80 %"
	p, err := b.pair(ctx, "died", 600,
		[]string{"--latency", "200ms", "--down-after", "6s", "--up-after", "30s", "--down-status", "503"}, []string{"--latency", "500ms"},
		"house/small: {concurrency: 8}, cloud/large: {concurrency: 5}", "primary_unavailable")
	if err != nil {
		return err
	}
	defer p.kill()
	o, err := p.run(ctx)
	if err != nil {
		return err
	}
	entries, err := logged(ctx, p.mock)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(x, y entry) int { return x.Time.Compare(y.Time) })
	back := entries[0].Time.Add(30 * time.Second)
	returned := slices.IndexFunc(entries, func(e entry) bool { return e.Time.After(back) && e.Status == 200 })
	b.equal("r3", name+": completed", o.report.Completed, 600)
	b.equal("r3", name+": possibly billed twice", o.report.PossiblyTwice, 0)
	// Probes after 1, 2, 4, 8 and 16 s beside those that open the circuit.
	b.atMost("r3", name+": calls to the dead server", float64(o.ledger.Rejected), 25, "")
	if returned < 0 {
		return errors.New(name + ": traffic did not return")
	}
	b.atMost("r3", name+": traffic returned after", entries[returned].Time.Sub(back).Seconds(), 17, " s")
	return nil
}

// gone is point 3 with a primary that is killed, and started again.
func gone(ctx context.Context, b *bench) error {
	const name = "killed at 40 %, started at 80 %"
	p, err := b.pair(ctx, "gone", 400, []string{"--latency", "200ms"}, []string{"--latency", "500ms"},
		"house/small: {concurrency: 8}, cloud/large: {concurrency: 10}", "primary_unavailable")
	if err != nil {
		return err
	}
	defer func() { p.kill() }()
	run, err := b.spawn(ctx, p.dir, nil, routed()...)
	if err != nil {
		return err
	}
	reached := func(n int) error {
		return harness.Until(ctx, func() bool {
			done, err := harness.Acknowledged(p.dir + "/x.results.jsonl")
			return err == nil && len(done) >= n || !run.Running()
		})
	}
	if err := reached(160); err != nil {
		return err
	}
	p.mock.Kill()
	if err := reached(320); err != nil {
		return err
	}
	back, err := harness.StartMock(ctx, b.binary, p.dir, p.mock.Addr, "--latency", "200ms")
	if err != nil {
		return err
	}
	p.mock = back
	o, err := p.ended(ctx, run)
	if err != nil {
		return err
	}
	r, l := o.report, o.ledger
	b.equal("r3", name+": completed", r.Completed, 400)
	b.add("r3", name+": unknown outcomes", "<= 8 in flight", r.PossiblyTwice <= 8+2, "%d", r.PossiblyTwice)
	b.add("r3", name+": traffic returned", "> 0 calls", l.Billed > 0, "%d calls", l.Billed)
	return p.check(r)
}
