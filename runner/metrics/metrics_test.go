package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner"
)

func config() *runner.Config {
	return &runner.Config{
		Targets: []runner.Target{{Provider: "openai"}, {Provider: "house", Model: "small"}},
		Routes:  &runner.Routes{Tasks: []string{"triage"}},
	}
}

// scrape is what a Prometheus would read.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("got status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestNamesAndLabels(t *testing.T) {
	m := New(config())
	call := func(what runner.Transition) runner.Event {
		return runner.Event{What: what, Op: "op-1", Provider: "openai", Model: "gpt-4o-mini", Task: "triage"}
	}
	for _, what := range []runner.Transition{runner.Queued, runner.Queued, runner.Left, runner.Suppressed, runner.CacheHit, runner.Completed, runner.Held} {
		m.Observe(call(what))
	}
	for _, change := range []func(*runner.Event){
		func(e *runner.Event) { e.What, e.Reserved, e.Wait = runner.Granted, 120, 2*time.Second },
		func(e *runner.Event) { e.What, e.Reserved = runner.Sent, 120 },
		func(e *runner.Event) { e.What, e.Used, e.Latency, e.Cost = runner.Answered, 90, time.Second, 5e11 },
		func(e *runner.Event) { e.What, e.Class, e.Unknown = runner.Failed, "broken", true },
		func(e *runner.Event) { e.What, e.Class, e.Unsent = runner.Failed, "connect", true },
		func(e *runner.Event) { e.What, e.Class = runner.Retried, "unknown" },
		func(e *runner.Event) { e.What, e.Class = runner.DeadLettered, "request_exceeds_tpm" },
		func(e *runner.Event) { e.What, e.Limit = runner.Refused, "tokens" },
		func(e *runner.Event) { e.What, e.Reason = runner.LookedUp, "found" },
		func(e *runner.Event) { e.What, e.FromProvider, e.Reason = runner.FellBack, "house", "rate_limited" },
		func(e *runner.Event) { e.What, e.Model, e.Limit, e.Used, e.Max = runner.Measured, "", "rpm", 3, 60 },
	} {
		e := call(runner.Queued)
		change(&e)
		m.Observe(e)
	}
	text := scrape(t, m)
	const target = `model="gpt-4o-mini",provider="openai"`
	for _, want := range []string{
		`llm_requests_total{` + target + `,status="ok"} 1`,
		`llm_requests_total{` + target + `,status="broken"} 1`,
		`llm_requests_unsent_total{error_type="connect",` + target + `} 1`,
		`llm_tokens_reserved_total{` + target + `} 120`,
		`llm_tokens_used_total{` + target + `} 90`,
		`llm_retries_total{error_type="unknown",` + target + `} 1`,
		`llm_queue_depth{priority="normal",task_type="triage"} 0`,
		`llm_queue_wait_seconds_sum{priority="normal",task_type="triage"} 2`,
		`llm_rate_limit_hits_total{limit_type="tokens",` + target + `} 1`,
		`llm_fallbacks_total{from_provider="house",reason="rate_limited",to_provider="openai"} 1`,
		`llm_duplicate_suppressed_total{task_type="triage"} 1`,
		`llm_cache_hits_total{` + target + `} 1`,
		`llm_lookups_total{` + target + `,result="found"} 1`,
		`llm_in_flight{` + target + `} -2`, // one granted, three ended
		`llm_cost_total{` + target + `} 0.5`,
		`llm_unknown_outcomes_total{` + target + `} 1`,
		`llm_operations_total{status="completed"} 1`,
		`llm_operations_total{status="dead_letter"} 1`,
		`llm_operations_total{status="held"} 1`,
		`llm_dead_letters_total{error_type="request_exceeds_tpm",` + target + `} 1`,
		`llm_request_duration_seconds_count{` + target + `} 2`,
		`llm_limit{limit="rpm",model="any",provider="openai"} 60`,
		`llm_limit_used{limit="rpm",model="any",provider="openai"} 3`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, "op-1") {
		t.Error("an operation's ID is a label")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// A server, an input or a mended checkpoint may say what it wants: the number of
// series stays bounded.
func TestSeriesAreBounded(t *testing.T) {
	m := New(config())
	for i := range 1000 {
		text := fmt.Sprintf("text-%d\xff", i)
		if i%2 == 1 {
			text += strings.Repeat("x", maxName)
		}
		e := runner.Event{Provider: text, Model: text, Task: text, Class: text, Limit: text, RequestID: text, FromProvider: text, FromModel: text, Reason: "rate_limited"}
		for what := range runner.Measured {
			e.What = what
			m.Observe(e)
		}
	}
	text := scrape(t, m)
	if got := strings.Count(text, "\nllm_requests_total{"); got != 2*(maxModels+1) {
		t.Errorf("got %d series of llm_requests_total, want an ok and a failed one of %d models and of all others", got, maxModels)
	}
	for _, label := range []string{"provider", "from_provider", "task_type", "error_type", "status", "limit_type"} {
		if strings.Contains(text, label+`="text-`) {
			t.Errorf("label %s takes any text", label)
		}
	}
}

func TestFileIsReplacedWhole(t *testing.T) {
	m := New(config())
	path := filepath.Join(t.TempDir(), "llmbatch.prom")
	for range 2 {
		if err := m.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		if ok, err := IsMetricsFile(path); !ok || err != nil {
			t.Fatalf("got %v, %v of a file of metrics; want true, nil", ok, err)
		}
		m.Observe(runner.Event{What: runner.Completed})
	}
	for _, text := range []string{`{"prompt":"hello"}`, "# HELP", "# HELP go_info"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if ok, err := IsMetricsFile(path); ok || err != nil {
			t.Errorf("got %v, %v of %q; want false, nil", ok, err, text)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("got %d files, %v; want the one", len(entries), err)
	}
}
