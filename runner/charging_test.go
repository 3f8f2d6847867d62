package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

// recorded is a call that was made to OpenAI's API, and what the headers of its
// answer said that it took from the token limit.
type recorded struct {
	Provider string
	Model    string
	Messages json.RawMessage
	Tools    int    `json:"n_tools"`
	NoText   int    `json:"nontext_parts"`
	Cap      int    `json:"max_tokens"`
	Prompt   int64  `json:"prompt_tokens"`
	Charged  *int64 `json:"tpm_charged"`
	Source   string
}

func recordedCalls(t *testing.T) (all []recorded) {
	data, err := os.ReadFile("../../shared/data/real_usage_pairs.jsonl")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the recordings are not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var r recorded
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if r.Charged != nil {
			all = append(all, r)
		}
	}
	return all
}

// job is the call as a run would make it.
func (r *recorded) job(t *testing.T) *job {
	body := append(append([]byte(`{"messages":`), r.Messages...), '}')
	tokens, err := counter.Request("/chat/completions", r.Model, body)
	if err != nil {
		t.Fatal(err)
	}
	tokens.MaxOutput = r.Cap
	j := &job{tokens: tokens}
	j.rec.Model, j.rec.API = r.Model, "/chat/completions"
	return j
}

// Within a few answers, OpenAI's limiter is predicted from its headers: what it
// charged is neither what its guide says nor what was billed.
func TestRecordedCharges(t *testing.T) {
	calls := recordedCalls(t)
	// One answer's header tells of several calls that were under way together: 811
	// for a prompt of 637 characters.
	together := func(r *recorded) bool {
		return strings.HasSuffix(r.Source, "TestMapReduceQA.httprr") && *r.Charged == 811
	}
	plain, others, far, most := 0, 0, 0, int64(0)
	for i := range calls {
		if together(&calls[i]) {
			continue
		}
		l := openAI(t)
		// The recordings before it, as many as it takes for two dozen answers.
		for k := range 24 {
			l.answer(t, &calls[(i+len(calls)-24+k)%len(calls)])
		}
		c, _ := l.costOf(calls[i].job(t))
		off := max(c.Tokens-*calls[i].Charged, *calls[i].Charged-c.Tokens)
		if calls[i].Tools > 0 || calls[i].NoText > 0 {
			if others++; off > 2 {
				far++
				t.Logf("%s %s: %d, charged %d (cap %d)", calls[i].Model, calls[i].Source, c.Tokens, *calls[i].Charged, calls[i].Cap)
			}
			continue
		}
		plain++
		if most = max(most, off); off > 2 {
			t.Errorf("%s %s: got %d, want %d as charged (cap %d)", calls[i].Model, calls[i].Source, c.Tokens, *calls[i].Charged, calls[i].Cap)
		}
	}
	if plain < 30 {
		t.Errorf("%d plain calls with a charge, want them all", plain)
	}
	t.Logf("%d plain calls within %d; of %d with tools or media %d further off", plain, most, others, far)
}

// account is OpenAI's limiter as the recordings found it: idle in between.
type account struct {
	*lane
	now time.Time
}

func openAI(t *testing.T) *account {
	p, _ := provider.Lookup("openai")
	accounting, _ := limit.ParseAccounting(p.Accounting)
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	c := &Config{Targets: []Target{{Accounting: accounting}}}
	s := newScheduler(c, &plan{}, now)
	s.lanes[0].limiter.Follow()
	return &account{s.lanes[0], now}
}

func (a *account) answer(t *testing.T, r *recorded) {
	const whole = 200_000
	a.now = a.now.Add(2 * time.Minute)
	j := r.job(t)
	a.charge(j)
	ticket, wait := a.limiter.Reserve(a.now, j.cost)
	if wait.Reason != limit.Granted {
		t.Fatalf("waits: %s", wait.Reason)
	}
	a.limiter.Sent(a.now, ticket)
	u := provider.Usage{Input: r.Prompt, Output: 50, Known: true}
	rate := provider.NoRate()
	rate.Tokens = provider.Window{Limit: whole, Remaining: whole - *r.Charged, ResetAfter: time.Duration(float64(*r.Charged) / whole * float64(time.Minute))}
	a.limiter.Settle(a.now.Add(time.Second), ticket, limit.Answer{Report: report(rate), Call: a.seen(j, u)})
}

// A profile's accounting is left for what the headers show. A run then uses the
// limit to the full, or no longer more than it; the next run starts there.
func TestAccountingMoves(t *testing.T) {
	for _, test := range []struct {
		name    string
		server  fake.Accounting
		start   limit.Accounting
		want    string
		refund  bool
		fastest float64 // minutes that the whole may take: 6.5 if every cap is charged and kept
	}{
		{name: "more than it charges", server: fake.In, start: limit.Sum, want: "input", fastest: 2.1},
		{name: "less than it charges", server: fake.Sum, start: limit.Max, want: "sum", fastest: 6.7},
		{name: "what it gives back", server: fake.Sum, start: limit.Sum, want: "the unused part given back", refund: true, fastest: 3.5},
	} {
		t.Run(test.name, func(t *testing.T) {
			const calls, tpm = 300, 12_000
			server := fake.Config{
				TPM: tpm, Accounting: test.server, Refund: test.refund, Style: fake.OpenAI,
				Latency: 400 * time.Millisecond, LatencyJitter: 200 * time.Millisecond, Output: 25,
			}
			bubble(t, server, func(d *desk) {
				lines := make([]string, calls)
				for i := range lines {
					lines[i] = fmt.Sprintf(`{"id":"p%d","prompt":"%s","max_tokens":%d}`, i, strings.Repeat("word ", 20+i*7%60), 180+i*13%40)
				}
				d.input(lines...)
				edit := func(c *Config) {
					c.Targets[0].Accounting = test.start
					c.Targets[0].Limits.TPM = limit.Cap{N: tpm, Set: true}
				}
				s := d.run(edit)
				if s.Completed != calls || s.RateLimited > 1 {
					t.Errorf("got %d completed, %d refused, want %d and at most one, before it is known", s.Completed, s.RateLimited, calls)
				}
				if s.Seconds > 60*test.fastest {
					t.Errorf("took %.0f s, want at most %.1f minutes", s.Seconds, test.fastest)
				}
				if len(s.Charged) != 1 || !strings.Contains(s.Charged[0].As, test.want) {
					t.Errorf("summary: got %+v, want %q", s.Charged, test.want)
				}
				d.mustTell("headers show that calls are charged")
				f, err := Estimate(context.Background(), d.config(edit), Assume{}, nil)
				if err != nil || !strings.Contains(f.Charging, test.want) {
					t.Errorf("estimate: got %q, %v, want %q", f.Charging, err, test.want)
				}
				// What the user says stands.
				s = d.run(edit, func(c *Config) { c.Restart, c.Targets[0].Given, c.Limit = true, true, 40 })
				if len(s.Charged) != 0 || d.told("headers show") {
					t.Errorf("with an accounting of the user's: got %+v", s.Charged)
				}
			})
		})
	}
}
