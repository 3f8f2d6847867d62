package cmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

// mockOptions are the flags of the mock provider.
type mockOptions struct {
	cfg                               fake.Config
	window, accounting, style, models string
	listen, addrFile                  string
	perModel                          []string
}

func newMock(env Env) *cobra.Command {
	o := &mockOptions{}
	c := &cobra.Command{
		Use:   "mock",
		Short: "Serve a loopback provider that enforces limits and injects faults",
		Long: `Mock serves a provider on the loopback: OpenAI's chat completions, responses,
embeddings, completions and moderations, Anthropic's messages and Gemini's
generateContent and embedContent, streamed where a call asks for it. It enforces
the limits it is given, answers without a model, and keeps a ledger of what was
asked, refused, answered, billed and billed twice at /stats (calls one by one at
/log; POST /reset forgets).

With --model-limit one mock is several providers: a model with limits, failures
or a dialect of its own has nothing to do with those of the others.

A prompt may name a fault, such as [[fault:500x2]] for two failures and then an
answer:

` + faultHelp(),
		Example: `  llmbatch mock --rpm 60 --window sliding --headers openai
  llmbatch mock --listen 127.0.0.1:0 --addr-file mock.addr --latency 300ms
  llmbatch mock --model-limit primary:rpm=20,down-from=60,down-until=120 --model-limit spare:rpm=600
  llmbatch run testdata/tickets.jsonl --provider openai-compatible --base-url http://127.0.0.1:8081/v1`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serveMock(c.Context(), env, o) },
	}
	fl := c.Flags()
	fl.StringVar(&o.listen, "listen", "127.0.0.1:8081", "loopback `address`; port 0 takes a free one")
	fl.StringVar(&o.addrFile, "addr-file", "", "`file` that gets host:port once the mock is ready")
	o.flags(fl)
	completeFlag(c, "headers", fake.Styles)
	return c
}

func (o *mockOptions) flags(fl *pflag.FlagSet) {
	c := &o.cfg
	fl.IntVar(&c.RPM, "rpm", 0, "requests a minute; 0 = no limit")
	fl.IntVar(&c.TPM, "tpm", 0, "tokens a minute; 0 = no limit")
	fl.IntVar(&c.ITPM, "itpm", 0, "input tokens a minute; 0 = no limit")
	fl.IntVar(&c.OTPM, "otpm", 0, "output tokens a minute, charged when they are generated; 0 = no limit")
	fl.IntVar(&c.RPD, "rpd", 0, "requests a day; 0 = no limit")
	fl.IntVar(&c.TPD, "tpd", 0, "tokens a day; 0 = no limit")
	fl.IntVar(&c.Concurrency, "concurrency", 0, "calls at once; 0 = no limit")
	fl.StringVar(&o.window, "window", "bucket", "how a minute's limits are kept: `bucket|fixed|sliding|slices`")
	fl.IntVar(&c.Burst, "burst", 0, "requests that a bucket holds; 0 = the limit")
	fl.DurationVar(&c.WindowLength, "window-length", time.Minute, "length of the minute")
	fl.StringVar(&o.accounting, "accounting", "sum", "what a call charges of --tpm and --tpd: `sum|max|input|none`; native Gemini calls: input")
	fl.BoolVar(&c.Refund, "refund", false, "give back what a call did not use")
	fl.BoolVar(&c.CountRefused, "count-refused", false, "refused calls use up the limit too")
	fl.StringVar(&o.style, "headers", "openai", "`dialect` of headers and errors: "+strings.Join(fake.Styles(), "|")+"; messages and generateContent have their own")
	fl.BoolVar(&c.OneDialect, "one-dialect", false, "--headers and --accounting hold on messages and generateContent too")
	fl.DurationVar(&c.RefuseDelay, "refuse-delay", 0, "`time` that a refusal takes")
	fl.DurationVar(&c.Latency, "latency", 0, "`time` from admission to the answer")
	fl.DurationVar(&c.LatencyJitter, "jitter", 0, "plus or minus this `time`")
	fl.IntVar(&c.Output, "output-tokens", 32, "tokens of an answer")
	fl.IntVar(&c.OutputJitter, "output-jitter", 0, "plus or minus so many tokens")
	fl.IntVar(&c.Cached, "cached-tokens", 0, "tokens of a prompt that are read from a cache")
	fl.IntVar(&c.Reasoning, "reasoning-tokens", 0, "tokens of an answer that are reasoning")
	fl.IntVar(&c.Chunks, "chunks", 8, "pieces of a streamed answer's text, spread over --latency")
	fl.BoolVar(&c.Echo, "echo", false, "answer with the prompt's text")
	fl.Uint64Var(&c.Seed, "seed", 0, "seed of everything that is drawn")
	fl.Float64Var(&c.ErrorRate, "error-rate", 0, "share of calls that fail with 500, 503 or 529")
	fl.IntVar(&c.ErrorMax, "error-max", 0, "`calls` that --error-rate fails at most; 0 = no bound")
	fl.IntVar(&c.FailFirst, "fail-first", 0, "the first `N` admitted calls fail")
	fl.IntVar(&c.FailStatus, "fail-status", 500, "`status` of those")
	fl.Float64Var(&c.LostRate, "lost-rate", 0, "share of answers that are billed and lost with the connection")
	fl.BoolVar(&c.HonourKeys, "honour-keys", false, "answer an Idempotency-Key again without a second bill")
	fl.StringVar(&c.APIKey, "key", "", "key that calls must carry (a made-up one: it stands in the command line)")
	fl.StringVar(&o.models, "models", "", "comma-separated `names`; other models are refused")
	fl.IntVar(&c.QuotaAfter, "quota-after", 0, "billed `calls` after which the quota is spent")
	fl.IntVar(&c.DownFrom, "down-from", 0, "down from the `N`th call on")
	fl.IntVar(&c.DownUntil, "down-until", 0, "and up again from the `N`th")
	fl.DurationVar(&c.DownAfter, "down-after", 0, "down from this `time` after the first call on")
	fl.DurationVar(&c.UpAfter, "up-after", 0, "and up again from this `time` after it")
	fl.IntVar(&c.DownStatus, "down-status", 0, "`status` while down; 0 = the connection is cut")
	fl.StringArrayVar(&o.perModel, "model-limit", nil, "`NAME:SETTING=VALUE,...`: limits and manners of one model alone; repeat for more. Settings: "+fake.ModelSettings())
	fl.IntVar(&c.LogMax, "log-max", 100_000, "calls kept for /log")
}

// config finishes what flags alone cannot say.
func (o *mockOptions) config() (c fake.Config, err error) {
	c = o.cfg
	if c.Window, err = fake.ParseWindow(o.window); err != nil {
		return c, usagef("", "--window: %s", err)
	}
	if c.Accounting, err = fake.ParseAccounting(o.accounting); err != nil {
		return c, usagef("", "--accounting: %s", err)
	}
	if c.Style, err = fake.ParseStyle(o.style); err != nil {
		return c, usagef("", "--headers: %s", err)
	}
	if o.models != "" {
		c.Models = strings.Split(o.models, ",")
	}
	c.Count = countWith(estimate.NewCounter())
	if len(o.perModel) > 0 {
		c.PerModel = make(map[string]fake.Config, len(o.perModel))
	}
	for _, text := range o.perModel {
		name, own, err := fake.ParseModel(c, text)
		if err != nil {
			return c, usagef("", "--model-limit: %s", err)
		}
		c.PerModel[name] = own
	}
	if err := c.Validate(); err != nil {
		return c, usagef("", "mock: %s", err)
	}
	return c, nil
}

// countWith lets the mock bill what the estimate reckons.
func countWith(counter *estimate.Counter) func(api, model string, body []byte) int {
	return func(api, model string, body []byte) int {
		t, err := counter.Request(api, model, body)
		if err != nil {
			return 0 // an API that is not counted: the mock's own estimate holds
		}
		return t.Prompt
	}
}

func serveMock(ctx context.Context, env Env, o *mockOptions) error {
	cfg, err := o.config()
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return usagef("for example --listen 127.0.0.1:0", "--listen: %s", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usagef("", "--listen %s: the mock serves the loopback only", o.listen)
	}
	ln, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	srv := fake.New(cfg)
	fmt.Fprintf(env.Stderr, "llmbatch: mock provider at http://%s/v1, ledger at http://%s/stats\n", ln.Addr(), ln.Addr())
	if o.addrFile != "" {
		if err := writeWhole(o.addrFile, ln.Addr().String()+"\n"); err != nil {
			return errors.Join(err, ln.Close())
		}
	}
	return fake.Serve(ctx, ln, srv)
}

// writeWhole replaces a file at once, so that a reader never sees half.
func writeWhole(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func faultHelp() string {
	var b strings.Builder
	for _, f := range fake.Faults() {
		fmt.Fprintf(&b, "  %-28s %s\n", f.Marker, f.Doc)
	}
	return strings.TrimRight(b.String(), "\n")
}
