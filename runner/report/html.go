package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"os"
	"slices"
	"time"

	"github.com/llmbatch/llmbatch/runner"
)

//go:embed page.html
var page string

// view is what the page shows besides the data.
type view struct {
	*Data
	Charts  []Chart
	Figures []figure
	GapNote string
}

type figure struct{ Name, Value string }

// WriteHTML writes the page.
func (d *Data) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{"span": span, "grouped": grouped, "percent": percent, "class": classWords}).Parse(page)
	if err != nil {
		return fmt.Errorf("report page: %w", err)
	}
	v := view{Data: d, Figures: d.figures(), GapNote: d.gapNote()}
	if v.Charts, err = d.charts(); err != nil {
		return err
	}
	var b bytes.Buffer // a page that breaks off half way is none
	if err := t.Execute(&b, v); err != nil {
		return fmt.Errorf("report page: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// WriteJSON writes the data as one JSON object.
func (d *Data) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(d)
}

// StateWords is the state in few words.
func (d *Data) StateWords() string { return endWords(d.State) }

// EndWords is the end in few words.
func (r *Run) EndWords() string {
	if r.Reason == "" {
		return endWords(r.End)
	}
	return endWords(r.End) + ": " + r.Reason
}

func endWords(end string) string {
	switch end {
	case runner.EndDone:
		return "finished"
	case runner.EndProvider:
		return "stopped by the provider"
	case runner.EndBound:
		return "stopped at a bound"
	case runner.EndInterrupted:
		return "interrupted"
	case runner.EndFatal:
		return "stopped by a failure of its files"
	case stateRunning:
		return "still running"
	case stateKilled:
		return "killed"
	default:
		return "no samples"
	}
}

// Paths is where the results are.
func (d *Data) Paths() string { return d.results }

// Passed says that more counted against a learned limit than it says.
func (d *Data) Passed() bool {
	return slices.ContainsFunc(d.Limits, func(l Limit) bool { return l.Learned && l.N > 0 && l.Most > l.N })
}

// Mean is the mean latency of answered calls.
func (t *Target) Mean() string {
	if t.Answered == 0 {
		return "–"
	}
	return milliseconds(t.Target.Latency / t.Answered)
}

// Name is the target's, as the page shows it.
func (t *Target) Name() string { return t.name() }

// Unit is what the limit counts.
func (l *Limit) Unit() string { return unitOf(l.Limit.Name) }

func (d *Data) figures() (all []figure) {
	add := func(name, value string) { all = append(all, figure{name, value}) }
	several := func(n int64, what string) string {
		if n == 1 {
			return what
		}
		return what + "s"
	}
	add("completed of "+grouped(d.Operations), grouped(d.Completed))
	add("failed", grouped(d.Failed))
	if left := d.Pending + d.InFlight + d.Unknown; left > 0 {
		add("pending or unknown", grouped(left))
	}
	if !d.Sampled {
		return all
	}
	add("running time", span(d.Seconds))
	add(several(d.Calls, "call"), grouped(d.Calls))
	failed := total(d.Attempts)
	add(several(failed, "attempt")+" that failed", grouped(failed))
	if d.Used > 0 {
		add(fmt.Sprintf("tokens reserved for %s used", grouped(d.Used)), grouped(d.Reserved))
	}
	if d.Cost != "" {
		add("cost", d.Cost)
	}
	return all
}

// gapNote says how time between runs is shown.
func (d *Data) gapNote() string {
	t := newTimeline(d.series.Points)
	if t == nil || len(d.series.Runs) < 2 {
		return ""
	}
	text := fmt.Sprintf("%s are shown one after the other; the stretches between them, in which nothing ran, are empty", runner.Count(int64(len(d.series.Runs)), "run"))
	if t.cut > 0 {
		text += " and shortened by " + span((time.Duration(t.cut) * time.Millisecond).Seconds())
	}
	return text + "."
}

// IsReport says that a file holds what WriteHTML or WriteJSON wrote, or nothing.
func IsReport(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 16<<10))
	if err != nil || len(head) == 0 {
		return err == nil, err
	}
	if bytes.HasPrefix(head, []byte("<!DOCTYPE html>")) {
		return bytes.Contains(head, []byte(": llmbatch report</title>")), nil
	}
	var checkpoint string
	e := json.NewDecoder(bytes.NewReader(head))
	for _, want := range []any{json.Delim('{'), "input", &checkpoint, "checkpoint", &checkpoint, "made"} {
		if value, ok := want.(*string); ok {
			if e.Decode(value) != nil {
				return false, nil
			}
		} else if got, err := e.Token(); err != nil || got != want {
			return false, nil
		}
	}
	return true, nil
}
