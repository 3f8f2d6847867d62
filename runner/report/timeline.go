package report

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/llmbatch/llmbatch/runner/series"
)

// timeline lays the points of all runs on one axis. Stretches in which nothing ran
// stay empty; one that is longer than the runs together are is shortened.
type timeline struct {
	points []series.Point
	cells  []cell
	labels []string // of the cells
	ticks  int      // how many of the labels are shown, evenly spread
	title  string   // of the axis
	cut    int64    // milliseconds that are left out of gaps
}

// cell is one place on the axis, in milliseconds of the Unix epoch.
type cell struct {
	from, to int64
	points   []*series.Point // that are in it at least in part; none in a gap
}

// stretch is a part of the axis, at its place there.
type stretch struct{ from, to, at int64 }

// cellsPerTick is how finely the axis is divided.
const cellsPerTick = 30

// newTimeline lays out points, which are in order of time; nil = there are none.
func newTimeline(points []series.Point) *timeline {
	if len(points) == 0 {
		return nil
	}
	t := &timeline{points: points}
	all, length := t.layout()
	tick, unit, name := ticksOf(length)
	t.ticks = int((length+tick-1)/tick) + 1
	n := (t.ticks - 1) * cellsPerTick
	began := time.UnixMilli(points[0].From)
	t.title = fmt.Sprintf("%s since %s", name, began.Format("2006-01-02 15:04:05"))
	next := 0
	for i := range n + 1 {
		// Cells lie around the places of the ticks.
		c := cell{from: unfold(all, tick*int64(2*i-1)/(2*cellsPerTick)), to: unfold(all, tick*int64(2*i+1)/(2*cellsPerTick))}
		for next < len(points) && points[next].End() <= c.from {
			next++
		}
		for j := next; j < len(points) && points[j].From < c.to; j++ {
			c.points = append(c.points, &points[j])
		}
		t.cells = append(t.cells, c)
		since := float64(unfold(all, tick*int64(i)/cellsPerTick)-points[0].From) / float64(unit)
		t.labels = append(t.labels, strconv.FormatFloat(math.Round(since*10)/10, 'f', -1, 64))
	}
	return t
}

// layout finds the stretches in which something ran, and how long the axis is.
func (t *timeline) layout() (all []stretch, length int64) {
	active := int64(0)
	for i := range t.points {
		active += t.points[i].Span
	}
	const joined = 2000 // milliseconds between points of one stretch
	for i := range t.points {
		p := &t.points[i]
		if last := len(all) - 1; last >= 0 && p.From-all[last].to < joined {
			length += p.End() - all[last].to
			all[last].to = p.End()
			continue
		}
		if i > 0 {
			gap := p.From - t.points[i-1].End()
			shown := min(gap, max(active/4, 1))
			if gap <= active {
				shown = gap
			}
			t.cut += gap - shown
			length += shown
		}
		all = append(all, stretch{p.From, p.End(), length})
		length += p.Span
	}
	return all, max(length, 1000)
}

// unfold gives the moment at a place of the axis.
func unfold(all []stretch, at int64) int64 {
	for i := len(all) - 1; i >= 0; i-- {
		s := all[i]
		if at < s.at && i > 0 {
			continue
		}
		end := s.at + s.to - s.from
		if at <= end || i == len(all)-1 {
			return s.from + at - s.at
		}
		// In the gap behind it, which may be shortened.
		next := all[i+1]
		return s.to + int64(float64(at-end)/float64(next.at-end)*float64(next.from-s.to))
	}
	return 0
}

// ticksOf chooses the distance of labels, and the unit that they are in, both in
// milliseconds.
func ticksOf(length int64) (tick, unit int64, name string) {
	const s, min, h, d = 1000, 60_000, 3_600_000, 86_400_000
	steps := []int64{s, 2 * s, 5 * s, 10 * s, 15 * s, 30 * s, min, 2 * min, 5 * min, 10 * min, 15 * min, 30 * min, h, 2 * h, 3 * h, 6 * h, 12 * h, d, 2 * d, 7 * d, 14 * d}
	tick = 28 * d
	for _, step := range steps {
		if length <= 7*step {
			tick = step
			break
		}
	}
	for tick*7 < length {
		tick *= 2
	}
	switch {
	case length <= 3*min:
		return tick, s, "seconds"
	case length <= 3*h:
		return tick, min, "minutes"
	case length <= 3*d:
		return tick, h, "hours"
	default:
		return tick, d, "days"
	}
}

// lastMinute is what happened in the minute up to the end of each cell.
func (t *timeline) lastMinute(of func(*series.Point) int64) []float64 {
	return t.each(func(c *cell) float64 {
		to := min(c.to, c.points[len(c.points)-1].End())
		return t.until(to, of) - t.until(to-60_000, of)
	})
}

// soFar is what has happened up to the end of each cell.
func (t *timeline) soFar(of func(*series.Point) int64) []float64 {
	return t.each(func(c *cell) float64 { return t.until(c.to, of) })
}

// until is what has happened up to a moment.
func (t *timeline) until(at int64, of func(*series.Point) int64) (sum float64) {
	for i := range t.points {
		p := &t.points[i]
		if p.From >= at {
			break
		}
		sum += float64(of(p)) * min(1, float64(at-p.From)/float64(max(p.Span, 1)))
	}
	return sum
}

// most is the largest value in each cell.
func (t *timeline) most(of func(*series.Point) int64) []float64 {
	return t.each(func(c *cell) float64 {
		n := int64(0)
		for _, p := range c.points {
			n = max(n, of(p))
		}
		return float64(n)
	})
}

// quantile is that of the waits in each cell, in seconds; NaN where no call went.
func (t *timeline) quantile(q float64) []float64 {
	return t.each(func(c *cell) float64 {
		var h series.Histogram
		for _, p := range c.points {
			h.Merge(p.Wait)
		}
		if h.N() == 0 {
			return math.NaN()
		}
		return float64(h.Quantile(q)) / 1000
	})
}

func (t *timeline) each(of func(*cell) float64) []float64 {
	all := make([]float64, len(t.cells))
	for i := range t.cells {
		if all[i] = math.NaN(); len(t.cells[i].points) > 0 {
			all[i] = of(&t.cells[i])
		}
	}
	return all
}
