// Command prometheus has a real Prometheus scrape a run of llmbatch while it
// lasts and once after it, and compares what it has then with what the server
// counted. Every expression of docs/grafana-dashboard.json and docs/alerts.yml is
// asked: it may name only metrics that there are, and has to find something, unless
// the reason why it does not is known. The alerts are tested by promtool.
//
//	go run ./testdata/prometheus [-short]
//
// It needs prometheus and promtool. It exits 1 if something is amiss. Which
// failures a run meets is chance: with -short, an expression that finds nothing is
// named and no more.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	short := flag.Bool("short", false, "name expressions that find nothing, without counting them as faults")
	flag.Parse()
	if err := measure(ctx, *short); err != nil {
		fmt.Fprintln(os.Stderr, "prometheus:", err)
		cancel()
		os.Exit(1)
	}
}

func measure(ctx context.Context, short bool) (err error) {
	if err := promtool(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "llmbatch-prometheus-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, binary: filepath.Join(dir, "llmbatch")}
	defer b.end()
	if err := harness.Build(ctx, b.binary); err != nil {
		return err
	}
	if err := b.scraped(ctx); err != nil {
		return err
	}
	expressions, err := expressions()
	if err != nil {
		return err
	}
	return b.ask(ctx, expressions, short)
}

// promtool checks the alerts' syntax and what they do.
func promtool(ctx context.Context) error {
	for _, args := range [][]string{
		{"check", "rules", "docs/alerts.yml"},
		{"test", "rules", "testdata/prometheus/alerts_test.yml"},
	} {
		if out, err := exec.CommandContext(ctx, "promtool", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("promtool %s: %w: %s", args[0], err, out)
		}
	}
	fmt.Println("ok    docs/alerts.yml: promtool check rules, promtool test rules")
	return nil
}

// scraped runs a batch under the eyes of a Prometheus and compares the counts.
func (b *bench) scraped(ctx context.Context) error {
	if err := b.begin(ctx); err != nil {
		return err
	}
	run, err := b.run(ctx)
	if err != nil {
		return err
	}
	// While it lasts.
	during := 0.0
	for during == 0 && run.Running() {
		if during, err = b.value(ctx, "sum(llm_requests_total)"); err != nil {
			return err
		}
		harness.Pause(ctx, 200*time.Millisecond, run)
	}
	if during == 0 {
		return fmt.Errorf("not scraped while the run lasted: %s", run.Errs.String())
	}
	fmt.Printf("ok    scraped while the run lasts: %.0f requests so far\n", during)
	select {
	case <-run.Exited:
	case <-ctx.Done():
		return fmt.Errorf("the run does not end: %s", run.Errs.String())
	}
	if status := run.Wait(); status != 3 { // some lines cannot be answered
		return fmt.Errorf("exit status %d: %s", status, run.Errs.String())
	}
	b.ended = time.Now()
	if strings.Contains(run.Errs.String(), "no longer served") {
		return errors.New(run.Errs.String())
	}
	l, err := b.mock.Ledger(ctx)
	if err != nil {
		return err
	}
	asked := float64(l.Asked)
	after, err := b.value(ctx, "sum(last_over_time(llm_requests_total[10m]))")
	if err != nil {
		return err
	}
	if after != asked || asked <= during {
		return fmt.Errorf("sum(llm_requests_total) is %.0f after the run, and was %.0f during it; the server counted %.0f", after, during, asked)
	}
	fmt.Printf("ok    scraped once after it: sum(llm_requests_total) = %.0f, and the server counted %.0f\n", after, asked)
	return nil
}

// expression is one of a file's.
type expression struct{ from, text string }

// quiet are those that find nothing in such a run, and why.
var quiet = map[string]string{
	"LLMRunStalled":  "operations were finished all the time",
	"LLMUnreachable": "another target of the provider's answers, or none was tried for five minutes",
	"LLMCost":        "a small run does not cost a hundred",
	"LLMQueueWait":   "no operation of high priority waited for five minutes",
}

var alerts = regexp.MustCompile(`(?s)- alert: (\w+)\n\s+expr: (?:>-\n)?(.*?)\n\s+(?:for|labels):`)

// expressions are those of the dashboard and of the alerts.
func expressions() (all []expression, err error) {
	raw, err := os.ReadFile("docs/grafana-dashboard.json")
	if err != nil {
		return nil, err
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	for _, p := range dashboard.Panels {
		for _, t := range p.Targets {
			text := strings.NewReplacer("$__rate_interval", "10s", "$instance", ".*").Replace(t.Expr)
			all = append(all, expression{p.Title, text})
		}
	}
	rules, err := os.ReadFile("docs/alerts.yml")
	if err != nil {
		return nil, err
	}
	for _, m := range alerts.FindAllSubmatch(rules, -1) {
		all = append(all, expression{string(m[1]), strings.Join(strings.Fields(string(m[2])), " ")})
	}
	if n := strings.Count(string(rules), "- alert:"); len(all) < n+20 {
		return nil, fmt.Errorf("found %d expressions, with %d alerts among them", len(all), n)
	}
	return all, nil
}

var metricName = regexp.MustCompile(`\bllm_\w+`)

// ask evaluates each expression over the time of the run.
func (b *bench) ask(ctx context.Context, all []expression, short bool) error {
	var there struct{ Data []string }
	if err := b.get(ctx, "/api/v1/label/__name__/values", nil, &there); err != nil {
		return err
	}
	var faults []string
	named := map[string]bool{}
	for _, e := range all {
		for _, name := range metricName.FindAllString(e.text, -1) {
			named[name] = true
			if !slices.Contains(there.Data, name) {
				faults = append(faults, fmt.Sprintf("%s: there is no %s", e.from, name))
			}
		}
		n, err := b.series(ctx, e.text)
		switch why := quiet[e.from]; {
		case err != nil:
			faults = append(faults, fmt.Sprintf("%s: %s", e.from, err))
		case n == 0 && why == "" && short:
			fmt.Printf("note  %s finds nothing: %s\n", e.from, e.text)
		case n == 0 && why == "":
			faults = append(faults, fmt.Sprintf("%s finds nothing: %s", e.from, e.text))
		case n == 0:
			fmt.Printf("ok    %s finds nothing: %s\n", e.from, why)
		}
	}
	for _, name := range there.Data {
		family := strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")
		if strings.HasPrefix(name, "llm_") && !named[name] && !named[family+"_bucket"] {
			faults = append(faults, fmt.Sprintf("no panel shows %s", name))
		}
	}
	if faults != nil {
		return errors.New(strings.Join(faults, "\n"))
	}
	fmt.Printf("ok    %d expressions over %d metrics\n", len(all), len(named))
	return nil
}

// series is how many an expression has over the time of the run. What comes at
// its very end is in the last scrape alone, which a failed one soon makes stale.
func (b *bench) series(ctx context.Context, expr string) (int, error) {
	var answer struct {
		Data struct{ Result []json.RawMessage }
	}
	query := url.Values{"query": {expr}, "start": {stamp(b.started)}, "end": {stamp(b.ended.Add(time.Second))}, "step": {"0.2"}}
	err := b.get(ctx, "/api/v1/query_range", query, &answer)
	return len(answer.Data.Result), err
}

func stamp(t time.Time) string { return fmt.Sprintf("%.3f", float64(t.UnixMilli())/1000) }

// value is what an expression is now; 0 if there is none.
func (b *bench) value(ctx context.Context, expr string) (v float64, err error) {
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := b.get(ctx, "/api/v1/query", url.Values{"query": {expr}}, &answer); err != nil || len(answer.Data.Result) == 0 {
		return 0, err
	}
	_, err = fmt.Sscan(fmt.Sprint(answer.Data.Result[0].Value[1]), &v)
	return v, err
}

func (b *bench) get(ctx context.Context, path string, query url.Values, to any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.prometheus+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var refusal struct{ Error string }
	if response.StatusCode != http.StatusOK {
		_ = json.NewDecoder(response.Body).Decode(&refusal) // the status says enough
		return fmt.Errorf("%s: %s %s", request.URL.Path, response.Status, refusal.Error)
	}
	return json.NewDecoder(response.Body).Decode(to)
}
