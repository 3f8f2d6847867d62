package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// forecastCase is one batch of which the dry run tells the time, and one mock
// that keeps to what the dry run is told of it.
type forecastCase struct {
	name        string
	lengths     []int // of the prompts, in words
	maxTokens   int   // 0 = no cap
	output      int   // tokens of an answer
	latency     time.Duration
	rpm         int     // 0 = none
	windows     float64 // charged tokens over the token limit; 0 = no such limit
	concurrency int     // 0 = found by itself
	flags       []string
	binding     string
	short       bool // one of those that -short runs
}

func forecastCases() []forecastCase {
	ms := time.Millisecond
	return []forecastCase{
		{"short uniform", same(310, 8), 40, 20, 300 * ms, 100, 0, 0, nil, "rpm", true},
		{"long uniform", same(150, 700), 200, 60, time.Second, 1000, 3.3, 0, nil, "tpm", false},
		{"lognormal", spread(400), 100, 40, 500 * ms, 400, 3.4, 0, nil, "tpm", true},
		{"heavy first, both limits", heavyFirst(spread(300)), 60, 20, 300 * ms, 105, 2.7, 0, nil, "rpm", false},
		{"bimodal, both limits", bimodal(300), 80, 30, 800 * ms, 125, 3.3, 0, nil, "tpm", false},
		{"in flight", same(300, 20), 40, 20, 3 * time.Second, 0, 0, 8, nil, "concurrency", true},
		{"in flight, short latency", same(500, 20), 40, 20, 600 * ms, 5000, 0, 4, nil, "concurrency", false},
		{"day not reached", same(250, 30), 40, 20, 100 * ms, 90, 0, 0, []string{"--rpd", "100000"}, "rpm", false},
		{"slow answers", same(180, 100), 300, 120, 3 * time.Second, 80, 2.1, 40, []string{"--tpd", "0"}, "rpm", false},
		{"learned outputs, no cap", spread(500), 0, 30, 300 * ms, 2000, 2.4, 0, nil, "tpm", false},
	}
}

// bimodal is mostly short, with a long prompt here and there.
func bimodal(n int) []int {
	random := rand.New(rand.NewPCG(13, 17))
	lengths := same(n, 12)
	for i := range lengths {
		if random.IntN(8) == 0 {
			lengths[i] = 900
		}
	}
	return lengths
}

// forecast is what estimate says, against what run takes on a mock.
func forecast(ctx context.Context, b *bench) {
	var all sync.WaitGroup
	for _, c := range forecastCases() {
		if b.short && !c.short {
			continue
		}
		all.Go(func() { b.try("forecast", c.name, func() error { return c.measure(ctx, b) }) })
		harness.Pause(ctx, 1500*time.Millisecond, nil)
	}
	all.Wait()
	methodExamples(ctx, b)
}

func (c forecastCase) measure(ctx context.Context, b *bench) error {
	s, same, err := c.begin(ctx, b)
	if err != nil {
		return err
	}
	defer s.mock.Kill()
	said, err := b.estimate(ctx, s.dir, append(same, "--assume-latency", c.latency.String(), "--assume-output-tokens", strconv.Itoa(c.output))...)
	if err != nil {
		return err
	}
	o, err := s.finish(ctx, append([]string{"run", "--base-url", s.url}, same...)...)
	if err != nil {
		return err
	}
	b.equal("forecast", c.name+": completed", o.report.Completed, len(c.lengths))
	b.equal("forecast", c.name+": binds", said.Binding, c.binding)
	took := o.ledger.Makespan
	off := math.Abs(said.Makespan-took) / took
	within := 0.03
	if b.short {
		within += crowd
	}
	b.add("forecast", c.name+": off by", fmt.Sprintf("<= %.3f", within), off <= within, "%.4f (said %.2f s, took %.2f s)", off, said.Makespan, took)
	b.atMost("forecast", c.name+": lower bound/makespan", said.Lower/said.Makespan, 1, "")
	return nil
}

// begin makes the case's input and starts its mock, and gives what dry run and run
// are told alike.
func (c forecastCase) begin(ctx context.Context, b *bench) (s *scene, args []string, err error) {
	if s, err = b.input("forecast", c.lengths, c.maxTokens); err != nil {
		return nil, nil, err
	}
	limits, err := c.limits(ctx, b, s.dir)
	if err != nil {
		return nil, nil, err
	}
	args = append(slices.Concat(limits, c.flags), "x.jsonl", "--accounting", "sum", "--json")
	if c.concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(c.concurrency))
	}
	return s, args, s.serve(ctx, append(limits, "--accounting", "sum", "--latency", c.latency.String(), "--output-tokens", strconv.Itoa(c.output))...)
}

// limits are the case's own, for dry run, run and mock alike.
func (c forecastCase) limits(ctx context.Context, b *bench, dir string) ([]string, error) {
	var flags []string
	if c.rpm > 0 {
		flags = append(flags, "--rpm", strconv.Itoa(c.rpm))
	}
	if c.windows > 0 {
		said, err := b.estimate(ctx, dir, "x.jsonl", "--accounting", "sum", "--json")
		if err != nil {
			return nil, err
		}
		charged := said.Reserved
		if c.maxTokens == 0 {
			charged += int64(len(c.lengths) * (c.output - 1024)) // what is reserved until outputs are known
		}
		flags = append(flags, "--tpm", strconv.Itoa(int(float64(charged)/c.windows)))
	}
	return flags, nil
}

// estimated is what `estimate --json` prints.
type estimated struct {
	Operations int64
	Reserved   int64   `json:"reserved_tokens"`
	Binding    string  `json:"binding_limit"`
	Requests   float64 `json:"requests_per_minute"`
	Makespan   float64 `json:"makespan_seconds"`
	Lower      float64 `json:"lower_bound_seconds"`
}

func (b *bench) estimate(ctx context.Context, dir string, args ...string) (e estimated, err error) {
	p, err := b.run(ctx, dir, append([]string{"estimate"}, args...)...)
	if err != nil {
		return e, err
	}
	if status := p.Wait(); status != 0 {
		return e, fmt.Errorf("estimate: exit status %d: %s", status, p.Tail())
	}
	return e, json.Unmarshal([]byte(p.Out.String()), &e)
}

// methodExamples are the three calculations of the method that the program
// follows: prompts of exactly so many tokens, by the program's own count.
func methodExamples(ctx context.Context, b *bench) {
	for _, c := range []struct {
		name                string
		calls, prompt, caps int
		flags               []string
		binding             string
		perMinute           float64
	}{
		{"120,000 a minute, 4,000 + 1,000", 48, 4000, 1000, []string{"--tpm", "120000"}, "tpm", 24},
		{"600 and 300,000 a minute, 1,000 x 200", 1000, 150, 50, []string{"--rpm", "600", "--tpm", "300000"}, "rpm", 600},
		{"600 and 300,000 a minute, 100 x 5,000", 100, 4000, 1000, []string{"--rpm", "600", "--tpm", "300000"}, "tpm", 60},
	} {
		b.try("method", c.name, func() error {
			dir, err := b.folder("example")
			if err != nil {
				return err
			}
			if err := exactly(ctx, b, dir, c.calls, c.prompt, c.caps); err != nil {
				return err
			}
			said, err := b.estimate(ctx, dir, append(c.flags, "x.jsonl", "--accounting", "sum", "--json")...)
			if err != nil {
				return err
			}
			b.equal("method", c.name+": reserved", said.Reserved, c.calls*(c.prompt+c.caps))
			b.equal("method", c.name+": binds", said.Binding, c.binding)
			b.equal("method", c.name+": calls a minute", said.Requests, c.perMinute)
			b.atMost("method", c.name+": lower bound/makespan", said.Lower/said.Makespan, 1, "")
			return nil
		})
	}
}

// exactly writes x.jsonl with prompts that the program counts as that many
// tokens: a prompt of two words tells what framing adds.
func exactly(ctx context.Context, b *bench, dir string, calls, tokens, caps int) error {
	lines := func(n, words int) error {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, `{"id":%d,"prompt":"a%s","model":"gpt-4o-mini","max_tokens":%d}`+"\n", i, strings.Repeat(" a", words-1), caps)
		}
		return os.WriteFile(dir+"/x.jsonl", []byte(all.String()), 0o600)
	}
	if err := lines(1, tokens); err != nil {
		return err
	}
	said, err := b.estimate(ctx, dir, "x.jsonl", "--accounting", "sum", "--json")
	if err != nil {
		return err
	}
	return lines(calls, 2*tokens+caps-int(said.Reserved))
}
