package report

import (
	"fmt"
	"strings"

	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/series"
)

// maxLines bounds what one chart compares.
const maxLines = 5

// charts draws all that there is something to draw of.
func (d *Data) charts() (all []Chart, err error) {
	add := func(c Chart, e error) {
		if err == nil {
			err = e
		}
		all = append(all, c)
	}
	if t := newTimeline(d.series.Points); t != nil {
		d.throughput(t, add)
		add(t.overTime("Queue wait", "From when a call could have gone until it went.", "seconds",
			line{name: "half of the calls", values: t.quantile(0.5)}, line{name: "95 of 100", values: t.quantile(0.95)}))
		flight := []line{{name: "most at once", values: t.most(func(p *series.Point) int64 { return p.InFlight })}}
		if most := d.sum.Concur.Sum(); most > 0 && !d.group() {
			flight = append(flight, line{name: fmt.Sprintf("concurrency %d", most), limit: true, values: t.most(func(*series.Point) int64 { return most })})
		}
		add(t.overTime("Calls in flight", "Sent and not yet answered.", "calls", flight...))
		add(t.overTime("Reserved and used tokens", "What calls took from the limits, and what answers say was billed.", "tokens so far",
			line{name: "reserved", values: t.soFar(func(p *series.Point) int64 { return p.Reserved })},
			line{name: "used", values: t.soFar(func(p *series.Point) int64 { return p.Used })}))
		if len(d.Refused) > 0 {
			add(t.overTime("Refusals", "Calls that the provider refused, by the limit that it named.", "refusals so far",
				byName(t, d.Refused, func(p *series.Point) series.Tally { return p.Refused })...))
		}
		if len(d.Retried) > 0 {
			add(t.overTime("Retries", "Calls made again, by the failure before.", "retries so far",
				byName(t, d.Retried, func(p *series.Point) series.Tally { return p.Retried })...))
		}
	}
	d.distributions(add)
	return all, err
}

// byName draws the most frequent names of a tally, so far.
func byName(t *timeline, names []Count, of func(*series.Point) series.Tally) (all []line) {
	for _, c := range names[:min(len(names), maxLines)] {
		all = append(all, line{name: cut(classWords(c.Name), 20), values: t.soFar(func(p *series.Point) int64 { return of(p)[c.Name] })})
	}
	return all
}

// throughput draws each limit with what counted against it, or the bare rates where
// no limit is known.
func (d *Data) throughput(t *timeline, add func(Chart, error)) {
	drawn := map[string]bool{}
	for _, l := range d.Limits[:min(len(d.Limits), 8)] {
		if l.N == 0 {
			continue
		}
		unit := unitOf(l.Name)
		title := strings.ToUpper(unit[:1]) + unit[1:]
		if d.group() {
			title += " of " + l.Group
		}
		name := "counted"
		if strings.HasPrefix(l.Name, "t") {
			name = "reserved"
		}
		lines := []line{
			{name: name, values: t.most(func(p *series.Point) int64 { return d.load(p, &l).Used })},
			{name: "limit " + grouped(l.N), limit: true, values: t.most(func(p *series.Point) int64 { return d.load(p, &l).Max })},
		}
		note := "What counts against the limit at each moment."
		if l.Name == "tpm" && !d.group() {
			lines = append(lines, line{name: "used", values: t.lastMinute(func(p *series.Point) int64 { return p.Used })})
			note = "What calls of the last minute reserved, and what answers of the last minute say was billed."
		}
		drawn[l.Name] = true
		add(t.overTime(title, note, unit, lines...))
	}
	if !drawn["rpm"] {
		add(t.overTime("Requests a minute", "Sent in the last minute; no limit is known.", "requests a minute",
			line{name: "sent", values: t.lastMinute(func(p *series.Point) int64 { return p.Calls })}))
	}
	if !drawn["tpm"] && !drawn["itpm"] {
		add(t.overTime("Tokens a minute", "Of the last minute; no limit is known.", "tokens a minute",
			line{name: "reserved", values: t.lastMinute(func(p *series.Point) int64 { return p.Reserved })},
			line{name: "used", values: t.lastMinute(func(p *series.Point) int64 { return p.Used })}))
	}
}

// distributions draws what needs no time axis.
func (d *Data) distributions(add func(Chart, error)) {
	if d.Latency.N > 0 {
		unit, format := "milliseconds", short
		if d.Latency.P95 >= 2000 {
			unit, format = "seconds", func(ms float64) string { return short(ms / 1000) }
		}
		add(histogram("Latency", fmt.Sprintf("Half of the answers came within %s, 95 of 100 within %s, 99 within %s.", milliseconds(d.Latency.P50), milliseconds(d.Latency.P95), milliseconds(d.Latency.P99)),
			unit, d.Latency, format))
	}
	if d.Output.N > 0 && d.Output.Buckets[len(d.Output.Buckets)-1].To > 1 {
		add(histogram("Output length", fmt.Sprintf("Half of the answers have at most %s tokens, 99 of 100 at most %s; %s.", grouped(d.Output.P50), grouped(d.Output.P99), d.reservedEach()),
			"output tokens", d.Output, short))
	}
	names, values := []string{}, []float64{}
	for _, t := range d.Targets[:min(len(d.Targets), 12)] {
		if t.Cost != "" {
			names, values = append(names, t.name()), append(values, money.Amount(t.Target.Cost).Units())
		}
	}
	if len(names) > 0 {
		add(bars("Cost by model", "In the unit of the prices; calls that may have been billed count in full.", "cost", names, values))
	}
}

// reservedEach is what calls reserved for their outputs.
func (d *Data) reservedEach() string {
	calls, output := int64(0), int64(0)
	for _, t := range d.Targets {
		calls, output = calls+t.Calls, output+t.ReservedOutput
	}
	if calls == 0 {
		return "what calls reserved is not known"
	}
	return "calls reserved " + grouped(output/calls) + " on average"
}
