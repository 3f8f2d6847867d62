package report

import (
	"cmp"
	"path/filepath"
	"slices"
	"time"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/series"
)

// Data is the report. Figures cover all runs of the checkpoint since it keeps
// samples; Operations to Degraded cover all of it.
type Data struct {
	Input      string    `json:"input"`
	Checkpoint string    `json:"checkpoint"`
	Made       time.Time `json:"made"`
	State      string    `json:"state"` // running, killed, nothing, or a runner's end
	Running    int       `json:"running_pid,omitempty"`
	Sampled    bool      `json:"sampled"` // false = the checkpoint has none: nothing is known over time
	Summary    []Answer  `json:"summary"`

	Operations int64 `json:"operations"`
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed"`
	Pending    int64 `json:"pending"`
	Unknown    int64 `json:"unknown"`
	InFlight   int64 `json:"in_flight"`
	Degraded   int64 `json:"degraded"` // of those completed

	Calls    int64  `json:"calls"`
	Reserved int64  `json:"tokens_reserved"`
	Used     int64  `json:"tokens_used"`
	Cost     string `json:"cost,omitempty"` // "" = no price is known
	CutOff   int64  `json:"answers_cut_off"`
	Doubtful int64  `json:"unknown_outcomes"`
	Copies   int64  `json:"copies"`

	Seconds   float64   `json:"seconds"` // that runs went on
	Runs      []Run     `json:"runs"`
	Bound     []Share   `json:"bound"` // what held calls back, the longest first
	Limits    []Limit   `json:"limits"`
	Targets   []Target  `json:"targets"`
	Advice    []Advice  `json:"advice"` // the largest gain first
	Basis     string    `json:"advice_basis,omitempty"`
	Failures  []Failure `json:"failures"`
	Attempts  []Count   `json:"failed_calls"` // by class; retried ones are among them
	Refused   []Count   `json:"refused"`      // by limit
	Retried   []Count   `json:"retried"`      // by the class before
	Fallbacks []Count   `json:"fallbacks"`
	Latency   Quantiles `json:"latency_ms"`
	Output    Quantiles `json:"output_tokens"`
	Wait      Quantiles `json:"queue_wait_ms"`
	Points    []Point   `json:"points"`
	results   string
	calls     string // that the advice is about
	series    series.Series
	latency   series.Histogram
	output    series.Histogram
	sum       series.Run
}

// Answer is one question that the report answers in a sentence.
type Answer struct {
	Question string `json:"question"`
	Text     string `json:"text"`
}

// Run is one run of the checkpoint.
type Run struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Seconds float64   `json:"seconds"`
	End     string    `json:"end"` // as in Data.State
	Reason  string    `json:"reason,omitempty"`
	Calls   int64     `json:"calls"`
	Folded  int       `json:"earlier_runs,omitempty"` // that are counted in this one
}

// Share is how long one thing held calls back.
type Share struct {
	What    string  `json:"what"` // "" = nothing
	Words   string  `json:"words"`
	Seconds float64 `json:"seconds"`
	Share   float64 `json:"share"` // of the time that runs went on
}

// Limit is a limit that was in force.
type Limit struct {
	series.Limit
	Most int64 `json:"most"` // that counted against it at once
}

// Target is what went to one model.
type Target struct {
	series.Target
	Cost string `json:"cost,omitempty"` // "" = its price is not known
}

// Count is how often something happened.
type Count struct {
	Name string `json:"name"`
	N    int64  `json:"n"`
}

// Quantiles of a distribution; all zero if nothing was counted.
type Quantiles struct {
	N       int64    `json:"n"`
	P50     int64    `json:"p50"`
	P95     int64    `json:"p95"`
	P99     int64    `json:"p99"`
	Buckets []Bucket `json:"buckets"`
}

// Bucket counts the values from From to below To.
type Bucket struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	N    int64 `json:"n"`
}

// Point is what happened in a stretch of time of one run.
type Point struct {
	Run      int              `json:"run"` // from 1
	From     time.Time        `json:"from"`
	Seconds  float64          `json:"seconds"`
	Calls    int64            `json:"calls"`
	Answered int64            `json:"answered"`
	Failed   int64            `json:"failed"`
	Reserved int64            `json:"tokens_reserved"`
	Used     int64            `json:"tokens_used"`
	InFlight int64            `json:"in_flight_most"`
	WaitP50  int64            `json:"queue_wait_p50_ms"`
	WaitP95  int64            `json:"queue_wait_p95_ms"`
	Refused  map[string]int64 `json:"refused,omitempty"`  // by limit
	Retried  map[string]int64 `json:"retried,omitempty"`  // by the class before
	Bound    map[string]int64 `json:"bound_ms,omitempty"` // by what held calls back
	Limits   []series.Load    `json:"limits,omitempty"`   // in the order of Data.Limits
}

// States of a report that are no ends of runs.
const (
	stateRunning = "running"
	stateKilled  = "killed"
	stateNothing = "nothing"
)

// Build makes the report of what was read, as of now.
func Build(s *Source, now time.Time) *Data {
	d := &Data{
		Input: clean(filepath.Base(s.Paths.Input), maxName), Checkpoint: clean(s.Paths.Checkpoint, maxExample), Made: now.Truncate(time.Second), Running: s.Running, Sampled: len(s.Series.Runs) > 0,
		Operations: s.Rows.Operations, Completed: s.Rows.Completed, Failed: s.Rows.Failed, Unknown: s.Rows.Unknown, InFlight: s.Rows.InFlight, Degraded: s.Rows.Degraded,
		Failures: s.Failures, results: clean(s.Paths.Output, maxExample), series: s.Series, sum: s.Series.Sum(),
	}
	d.Pending = max(0, d.Operations-d.Completed-d.Failed-d.Unknown-d.InFlight)
	d.latency, d.output, d.CutOff, d.Doubtful = d.sum.Latency, d.sum.Output, d.sum.CutOff, d.sum.Doubtful
	if s.Rows.Counted {
		d.latency, d.output, d.CutOff, d.Doubtful = s.Rows.Latency, s.Rows.Output, s.Rows.CutOff, s.Rows.Doubtful
	}
	d.Reserved, d.Used, d.Copies = d.sum.Reserved, d.sum.Used, d.sum.Spared
	d.Latency, d.Output, d.Wait = quantiles(&d.latency), quantiles(&d.output), quantiles(&d.sum.Wait)
	d.Attempts, d.Refused, d.Retried, d.Fallbacks = counts(d.sum.Failed), counts(d.sum.Refused), counts(d.sum.Retried), counts(d.sum.Fallbacks)
	d.runs()
	d.targets()
	d.limits()
	d.bound()
	d.points()
	d.advise()
	d.summarise()
	return d
}

func at(ms int64) time.Time { return time.UnixMilli(ms) }

func (d *Data) runs() {
	d.Runs, d.State = []Run{}, stateNothing
	for i, r := range d.series.Runs {
		run := Run{From: at(r.From), To: at(r.To), Seconds: float64(r.To-r.From) / 1000, End: r.End, Reason: clean(r.Reason, maxExample), Folded: r.Folded}
		if run.End == "" {
			run.End = stateKilled
			if i == len(d.series.Runs)-1 && d.Running > 0 {
				run.End = stateRunning
			}
		}
		for _, t := range r.Targets {
			run.Calls += t.Calls
		}
		d.Seconds += run.Seconds
		d.Calls += run.Calls
		d.Runs = append(d.Runs, run)
		d.State = run.End
	}
	if len(d.Runs) == 0 && d.Running > 0 {
		d.State = stateRunning
	}
}

func (d *Data) targets() {
	d.Targets = []Target{}
	total, priced := money.Amount(0), false
	for _, t := range d.sum.Targets {
		t.Provider, t.Model, t.Group = clean(t.Provider, maxName), clean(t.Model, maxName), clean(t.Group, maxName)
		mine := Target{Target: t}
		if t.Priced {
			mine.Cost = money.Amount(t.Cost).String()
			total, priced = total+money.Amount(t.Cost), true
		}
		d.Targets = append(d.Targets, mine)
	}
	slices.SortStableFunc(d.Targets, func(a, b Target) int { return cmp.Compare(b.Calls, a.Calls) })
	if priced {
		d.Cost = total.String()
	}
}

func (d *Data) limits() {
	d.Limits = []Limit{}
	for _, l := range d.sum.Limits {
		l.Group, l.Name = clean(l.Group, maxName), clean(l.Name, maxName)
		mine := Limit{Limit: l}
		for i := range d.series.Points {
			mine.Most = max(mine.Most, d.load(&d.series.Points[i], &mine).Used)
		}
		d.Limits = append(d.Limits, mine)
	}
}

// load is how a limit stood at a point. Each run has met its limits in an order of
// its own.
func (d *Data) load(p *series.Point, l *Limit) series.Load {
	for i, mine := range d.series.Runs[p.Run].Limits {
		if i < len(p.Uses) && clean(mine.Name, maxName) == l.Name && clean(mine.Group, maxName) == l.Group {
			return p.Uses[i]
		}
	}
	return series.Load{}
}

func (d *Data) bound() {
	d.Bound = []Share{}
	total := float64(max(1, d.sum.Bound.Sum()))
	for _, c := range counts(d.sum.Bound) {
		d.Bound = append(d.Bound, Share{What: c.Name, Words: d.words(c.Name), Seconds: float64(c.N) / 1000, Share: float64(c.N) / total})
	}
}

func (d *Data) points() {
	d.Points = []Point{}
	for i := range d.series.Points {
		p := &d.series.Points[i]
		mine := Point{
			Run: p.Run + 1, From: at(p.From), Seconds: float64(p.Span) / 1000, Calls: p.Calls, Answered: p.Answered, Failed: p.Failed,
			Reserved: p.Reserved, Used: p.Used, InFlight: p.InFlight, WaitP50: p.Wait.Quantile(0.5), WaitP95: p.Wait.Quantile(0.95),
			Refused: p.Refused, Retried: p.Retried, Bound: p.Bound,
		}
		for j := range d.Limits {
			mine.Limits = append(mine.Limits, d.load(p, &d.Limits[j]))
		}
		d.Points = append(d.Points, mine)
	}
}

func quantiles(h *series.Histogram) Quantiles {
	q := Quantiles{N: h.N(), P50: h.Quantile(0.5), P95: h.Quantile(0.95), P99: h.Quantile(0.99), Buckets: []Bucket{}}
	h.Each(func(b int, n int64) {
		if n == 0 {
			return
		}
		from, to := series.Bounds(b)
		q.Buckets = append(q.Buckets, Bucket{from, to, n})
	})
	return q
}

// counts lists a tally, the most frequent first.
func counts(t series.Tally) []Count {
	all := []Count{}
	for name, n := range t {
		all = append(all, Count{clean(name, maxName), n})
	}
	slices.SortFunc(all, func(a, b Count) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Name, b.Name)) })
	return all
}

// group says whether several limit groups were in use, so that a limit needs its
// group's name.
func (d *Data) group() bool {
	return slices.ContainsFunc(d.Targets, func(t Target) bool { return t.Group != d.Targets[0].Group })
}

// limit finds a limit of a group that is known.
func (d *Data) limit(name, group string) (Limit, bool) {
	for _, l := range d.Limits {
		if l.Name == name && l.Group == group && l.N > 0 {
			return l, true
		}
	}
	return Limit{}, false
}

// grouped writes a number with commas between its thousands.
func grouped(n int64) string { return runner.Grouped(n) }
