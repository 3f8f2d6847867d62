package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/series"
)

const start = int64(1_790_000_000_000)

// over is a source whose runs have so many calls each second, with these limits.
func over(seconds []int64, gap int64, limits ...series.Limit) *Source {
	s := &Source{Paths: runner.Paths{Input: "in/x.jsonl", Output: "in/x.results.jsonl"}}
	now := start
	for n, length := range seconds {
		run := series.Run{From: now, To: now + length*1000, End: runner.EndDone, Limits: limits}
		if n < len(seconds)-1 {
			run.End = ""
		}
		t := run.Target("house", "small")
		t.Group = "house/small"
		for range length {
			p := series.Point{Run: n, From: now, Span: 1000, Calls: 2, Answered: 2, Reserved: 2300, Used: 500, InFlight: 3, Bound: series.Tally{"tpm": 1000}}
			for range 2 {
				p.Wait.Add(1500)
				run.Latency.Add(900)
				run.Output.Add(100)
				run.Caps.Add(1000)
			}
			for range limits {
				p.Uses = append(p.Uses, series.Load{Used: 119_000, Max: 120_000})
			}
			t.Calls, t.Answered, t.Reserved, t.ReservedOutput = t.Calls+2, t.Answered+2, t.Reserved+2300, t.ReservedOutput+2000
			t.Used, t.Output, t.Latency = t.Used+500, t.Output+200, t.Latency+1800
			run.Reserved, run.Used, run.Completed = run.Reserved+2300, run.Used+500, run.Completed+2
			run.Bound.Add("tpm", 1000)
			s.Series.Points = append(s.Series.Points, p)
			now += 1000
		}
		s.Series.Runs = append(s.Series.Runs, run)
		s.Rows.Operations += run.Completed
		s.Rows.Completed += run.Completed
		now += gap * 1000
	}
	return s
}

func html(t *testing.T, d *Data) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func answer(d *Data, question string) string {
	for _, a := range d.Summary {
		if a.Question == question {
			return a.Text
		}
	}
	return ""
}

func TestAdviceOfAnOverReservedRun(t *testing.T) {
	d := Build(over([]int64{300}, 0, series.Limit{Group: "house/small", Name: "tpm", N: 120_000, Accounting: "sum"}), time.UnixMilli(start))
	if len(d.Advice) != 3 {
		t.Fatalf("got %d pieces of advice, want 3: %+v", len(d.Advice), d.Advice)
	}
	for i, want := range []struct {
		change string
		gain   float64
	}{{"max_tokens 130 instead of 1,000", 4}, {"--reserve learned", 4}, {"a limit of 240,000 tokens a minute instead of 120,000", 2}} {
		if a := d.Advice[i]; !slices.ContainsFunc(d.Advice, func(a Advice) bool { return a.Change == want.change }) || a.Gain < want.gain*0.9 {
			t.Errorf("got %q with a gain of %.1f, want %q with about %g", a.Change, a.Gain, want.change, want.gain)
		}
	}
	for question, words := range map[string][]string{
		"What ran":                  {"600 operations of x.jsonl", "house/small", "600 completed, 0 failed"},
		"How it ended":              {"It finished after 5 min"},
		"What limited it":           {"For 100 % of the time it was the limit of 120,000 tokens a minute (tpm, given)", "4.6 times as much as they needed"},
		"What failed":               {"No operation failed."},
		"What would make it faster": {"the 600 calls of house/small would take", "times as fast"},
	} {
		for _, w := range words {
			if got := answer(d, question); !strings.Contains(got, w) {
				t.Errorf("%s: got %q, want %q in it", question, got, w)
			}
		}
	}
}

func TestNoAdviceWithoutGain(t *testing.T) {
	for name, limits := range map[string][]series.Limit{
		"a limit that does not bind": {{Group: "house/small", Name: "rpm", N: 5000, Accounting: "sum"}},
		"no limit":                   nil,
	} {
		d := Build(over([]int64{60}, 0, limits...), time.UnixMilli(start))
		if len(d.Advice) != 0 || !strings.HasPrefix(answer(d, "What would make it faster"), "Nothing that can be reckoned") {
			t.Errorf("%s: got %+v, %q; want none", name, d.Advice, answer(d, "What would make it faster"))
		}
	}
}

// A server that gives room back all the time admits more than its limit in one
// minute; who reads of it is told why.
func TestMoreThanALearnedLimit(t *testing.T) {
	for _, test := range []struct {
		limit series.Limit
		want  bool
	}{
		{series.Limit{Group: "house/small", Name: "tpm", N: 100_000, Learned: true}, true},
		{series.Limit{Group: "house/small", Name: "tpm", N: 120_000, Learned: true}, false},
		{series.Limit{Group: "house/small", Name: "tpm", N: 120_000}, false},
	} {
		page := html(t, Build(over([]int64{30}, 0, test.limit), time.UnixMilli(start)))
		if got := strings.Contains(page, "More than a learned limit may count"); got != test.want {
			t.Errorf("%+v: explained %t, want %t", test.limit, got, test.want)
		}
	}
}

func TestResumedRunsShowTheirGap(t *testing.T) {
	for _, c := range []struct {
		gap, cut int64 // seconds
	}{{40, 0}, {3600, 3600 - 30}} {
		d := Build(over([]int64{60, 60}, c.gap), time.UnixMilli(start))
		if got := answer(d, "How it ended"); !strings.Contains(got, "The last of 2 runs finished after 1 min") || !strings.Contains(got, "one before it was killed") {
			t.Errorf("got %q, want two runs, of which the first was killed", got)
		}
		line := newTimeline(d.series.Points)
		if line.cut != c.cut*1000 {
			t.Errorf("a gap of %d s: %d ms of it are left out, want %d", c.gap, line.cut, c.cut*1000)
		}
		values := line.rate(func(p *series.Point) int64 { return p.Calls })
		gaps, shown := 0, false
		for i, v := range values {
			if math.IsNaN(v) {
				if shown {
					gaps++
				}
				shown = false
				continue
			}
			if shown = true; math.Abs(v-120) > 1 {
				t.Errorf("gap %d s, cell %d: %g calls a minute, want 120", c.gap, i, v)
			}
		}
		if gaps == 0 || gaps > 2 { // between the runs, and perhaps behind them
			t.Errorf("a gap of %d s: %d stretches without a value follow others, want one between the runs", c.gap, gaps)
		}
	}
}

func TestTimelineOfAnyLength(t *testing.T) {
	if newTimeline(nil) != nil {
		t.Error("no points have a timeline")
	}
	for _, seconds := range []int64{1, 59, 3600, 86_400, 700_000, 60_000_000} {
		points := []series.Point{{From: start, Span: seconds * 400, Calls: 4}, {From: start + seconds*400, Span: seconds * 600, Calls: 6}}
		line := newTimeline(points)
		if line.ticks < 2 || line.ticks > 8 || len(line.cells) != len(line.labels) || len(line.cells) != (line.ticks-1)*cellsPerTick+1 {
			t.Errorf("%d s: %d ticks, %d cells, %d labels", seconds, line.ticks, len(line.cells), len(line.labels))
		}
		total := line.soFar(func(p *series.Point) int64 { return p.Calls })
		last := 0.0
		for _, v := range total {
			if !math.IsNaN(v) {
				last = v
			}
		}
		if math.Abs(last-10) > 0.5 {
			t.Errorf("%d s: %g calls at the end, want 10", seconds, last)
		}
	}
}

func TestBarsKeepTheirSum(t *testing.T) {
	for name, values := range map[string][]int64{
		"one value": {7}, "zeros": {0, 0, 0}, "near": {100, 110, 120, 130, 500}, "far apart": {0, 3, 90, 4000, 250_000}, "large": {1 << 40, 1 << 41},
	} {
		var h series.Histogram
		for _, v := range values {
			h.Add(v)
		}
		q := quantiles(&h)
		edges := edgesOf(q.Buckets)
		sum := 0.0
		for _, n := range spread(q.Buckets, edges) {
			sum += n
		}
		if math.Abs(sum-float64(len(values))) > 1e-6 || len(edges) > 3*mostBars {
			t.Errorf("%s: %d bars hold %g values, want %d", name, len(edges)-1, sum, len(values))
		}
	}
}

// hostile is text that would do harm on a page or on a terminal.
const hostile = "<script>alert(1)</script>\x1b[2J\u202e\u0000\"'&{{.}}<img src=x onerror=alert(1)>\r\n"

func TestHostileTextIsEscaped(t *testing.T) {
	s := over([]int64{30}, 0, series.Limit{Group: hostile, Name: "tpm", N: 120_000, Accounting: "sum"}, series.Limit{Group: "b", Name: hostile, N: 5})
	run := &s.Series.Runs[0]
	run.Target(hostile, hostile).Group = hostile
	run.End, run.Reason = runner.EndProvider, hostile+strings.Repeat("long ", 10_000)
	for _, tally := range []*series.Tally{&run.Failed, &run.Refused, &run.Retried, &run.Bound, &run.Fallbacks, &run.Dead} {
		tally.Add(hostile, 3)
	}
	s.Series.Points[3].Refused.Add(hostile, 3)
	s.Series.Points[3].Retried.Add(hostile, 3)
	s.Paths.Input, s.Paths.Output = hostile, hostile
	f := failures{}
	for i := range 500 {
		f.add(lineOf(t, fmt.Sprintf("%s%d", hostile, i), hostile+strings.Repeat("x", 100_000), i+1))
	}
	s.Failures = f.sorted()
	page := html(t, Build(s, time.UnixMilli(start)))
	for _, bad := range []string{"<script", "<img", "\x1b", "\u202e", "\x00", "onerror=alert(1)>"} {
		if strings.Contains(page, bad) {
			at := strings.Index(page, bad)
			t.Errorf("the page holds %q: %q", bad, page[max(0, at-80):at+40])
		}
	}
	if len(page) > 1<<20 || len(s.Failures) > maxClasses+1 {
		t.Errorf("the page has %d bytes, %d classes; want it bounded", len(page), len(s.Failures))
	}
}

func TestPageNeedsNothing(t *testing.T) {
	page := html(t, Build(over([]int64{90, 60}, 30, series.Limit{Group: "house/small", Name: "tpm", N: 120_000, Accounting: "sum"}), time.UnixMilli(start)))
	for _, bad := range []string{"<script", "<link rel=\"stylesheet", "src=", "url(", "@import", "https://"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, want := range []string{
		`aria-label="Tokens a minute"`, `aria-label="Requests a minute"`, `aria-label="Queue wait"`, `aria-label="Calls in flight"`, `aria-label="Reserved and used tokens"`,
		`aria-label="Latency"`, `aria-label="Output length"`, "prefers-color-scheme: dark", "@media print", "limit 120,000",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "rgb(") {
		t.Error("a chart has a colour that the page's style does not set")
	}
}

func TestCheckpointWithoutSamples(t *testing.T) {
	dir := t.TempDir()
	paths := runner.Paths{Input: filepath.Join(dir, "x.jsonl"), Output: filepath.Join(dir, "x.results.jsonl"), Errors: filepath.Join(dir, "x.errors.jsonl"), Checkpoint: filepath.Join(dir, "x.llmbatch.db")}
	if _, err := Read(paths); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	store, err := checkpoint.Create(paths.Checkpoint, checkpoint.Meta{Operations: 3}, checkpoint.Options{CommitGap: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.PutAll([]*checkpoint.Operation{
		{ID: "a", Status: checkpoint.Completed, LatencyMS: 800, Usage: checkpoint.Usage{Input: 10, Output: 40, Known: true}},
		{ID: "b", Status: checkpoint.DeadLetter, Class: "content_policy"},
		{ID: "c", Status: checkpoint.InFlight},
	}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(paths); !errors.Is(err, checkpoint.ErrLocked) {
		t.Errorf("of a run that has published nothing: got %v, want ErrLocked", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(paths.Errors, append(lineOf(t, "content_policy", "no", 2).Encode(), "\n{\"torn"...), 0o600); err != nil {
		t.Fatal(err)
	}
	src, err := Read(paths)
	if err != nil {
		t.Fatal(err)
	}
	d := Build(src, time.UnixMilli(start))
	if d.Sampled || d.Completed != 1 || d.Failed != 1 || d.Unknown != 1 || d.Latency.N != 1 || len(d.Failures) != 1 || d.Failures[0].Line != 2 {
		t.Errorf("got %+v", d)
	}
	page := html(t, d)
	for _, want := range []string{"This checkpoint has no samples", "content_policy", `aria-label="Latency"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	var b bytes.Buffer
	if err := d.WriteJSON(&b); err != nil || !json.Valid(b.Bytes()) || strings.Contains(b.String(), "null") {
		t.Errorf("its data is %s, %v; want lists where there is nothing", b.String(), err)
	}
}

func TestSpan(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0.0 s", 9.96: "10.0 s", 31.4: "31 s", 59.6: "60 s", 60: "1 min", 305: "5 min 5 s", 3600: "1 h", 3660: "1 h 1 min", 86_400: "1 d", 9 * 86_400: "9 d", 100_000: "1 d 3 h",
	} {
		if got := span(seconds); got != want {
			t.Errorf("%g seconds are %q, want %q", seconds, got, want)
		}
	}
}

// rate is what happened in each cell, by the minute; NaN in a gap.
func (t *timeline) rate(of func(*series.Point) int64) []float64 {
	return t.each(func(c *cell) float64 {
		sum, span := 0.0, int64(0)
		for _, p := range c.points {
			part := min(p.End(), c.to) - max(p.From, c.from)
			if part > 0 && p.Span > 0 {
				sum += float64(of(p)) * float64(part) / float64(p.Span)
				span += part
			}
		}
		return sum / float64(max(span, 1)) * 60_000
	})
}
