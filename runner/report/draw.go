package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/go-analyze/charts"

	"github.com/llmbatch/llmbatch/runner"
)

// Size of a chart, in the unit of its text's size. It is about what a telephone has
// room for; a wide page shows several side by side.
const (
	chartWidth  = 460
	chartHeight = 270
	barHeight   = 26
	// The library measures texts in a font of its own; the page's style shows them a little
	// smaller, so that wider fonts have room.
	fontSize = 10.5 // points
)

// Chart is one drawing.
type Chart struct {
	Title string
	Note  string
	SVG   template.HTML // the library's, whose texts are escaped
}

// line is one series of a chart over time.
type line struct {
	name   string
	values []float64
	limit  bool // drawn as limits are
}

// shades are the colours that the library is given, and the variables of the page's
// style that take their place, so that a page has both a light and a dark look.
var shades = []struct {
	given    charts.Color
	variable string
}{
	{charts.ColorRGB(1, 0, 0), "--ink"},
	{charts.ColorRGB(2, 0, 0), "--axis"},
	{charts.ColorRGB(3, 0, 0), "--grid"},
	{charts.ColorRGB(4, 0, 0), "--limit"},
	{charts.ColorRGB(5, 0, 0), "--paper"},
	{charts.ColorRGB(6, 0, 0), "--c1"},
	{charts.ColorRGB(7, 0, 0), "--c2"},
	{charts.ColorRGB(8, 0, 0), "--c3"},
	{charts.ColorRGB(9, 0, 0), "--c4"},
	{charts.ColorRGB(10, 0, 0), "--c5"},
	{charts.ColorRGB(11, 0, 0), "--c6"},
}

const (
	ink = iota
	axisShade
	grid
	limitShade
	paper
	firstShade
)

// theme gives each series its colour.
func theme(lines []line) charts.ColorPalette {
	series, next := []charts.Color{}, firstShade
	for _, l := range lines {
		if l.limit {
			series = append(series, shades[limitShade].given)
			continue
		}
		series = append(series, shades[next].given)
		if next++; next == len(shades) {
			next = firstShade
		}
	}
	return charts.MakeTheme(charts.ThemeOption{
		AxisStrokeColor: shades[axisShade].given, AxisSplitLineColor: shades[grid].given, BackgroundColor: shades[paper].given,
		TextColor: shades[ink].given, SeriesColors: series,
	})
}

func font() charts.FontStyle {
	return charts.FontStyle{FontSize: fontSize, FontColor: shades[ink].given}
}

// finish turns a drawing into a part of the page.
func finish(title string, p *charts.Painter, err error) (template.HTML, error) {
	var b []byte
	if err == nil {
		b, err = p.Bytes()
	}
	if err != nil {
		return "", fmt.Errorf("draw %s: %w", title, err)
	}
	text := string(b)
	for _, s := range shades {
		text = strings.ReplaceAll(text, s.given.String(), "var("+s.variable+")")
	}
	text = strings.ReplaceAll(text, "'Roboto Medium',sans-serif", "inherit")
	text = strings.Replace(text, "<svg ", `<svg role="img" aria-label="`+template.HTMLEscapeString(title)+`" `, 1)
	return template.HTML(text), nil
}

func painter(lines []line, height int) *charts.Painter {
	return charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: chartWidth, Height: height, Theme: theme(lines)})
}

// overTime draws lines along the time axis, of which unit is the other's title.
// Where calls are rare, a point has no neighbour that a line could lead to: it gets
// a dot.
func (t *timeline) overTime(title, note, unit string, lines ...line) (Chart, error) {
	values, names, top := [][]float64{}, []string{}, 0.0
	for _, l := range lines {
		row := make([]float64, len(l.values))
		for i, v := range l.values {
			if row[i] = v; math.IsNaN(v) {
				row[i] = charts.GetNullValue()
			} else {
				top = max(top, v)
			}
		}
		values, names = append(values, row), append(names, l.name)
	}
	opt := charts.NewLineChartOptionWithData(values)
	opt.Theme = theme(lines)
	opt.Padding = charts.NewBox(8, 8, 14, 8)
	opt.Symbol.Shape = charts.SymbolNone
	if lonely(lines) {
		opt.Symbol = charts.Symbol{Shape: charts.SymbolDot, Size: 2.4}
	}
	opt.LineStrokeWidth = 1.8
	opt.Legend = charts.LegendOption{SeriesNames: names, FontStyle: font(), Symbol: charts.SymbolSquare}
	opt.XAxis = charts.XAxisOption{
		Title: t.title, TitleFontStyle: font(), Labels: t.labels, LabelCount: t.ticks, LabelFontStyle: font(), BoundaryGap: charts.Ptr(false),
	}
	opt.YAxis = []charts.YAxisOption{valueAxis(unit, top)}
	p := painter(lines, chartHeight)
	svg, err := finish(title, p, p.LineChart(opt))
	return Chart{Title: title, Note: note, SVG: svg}, err
}

// lonely says that a line has a value between two gaps.
func lonely(lines []line) bool {
	for _, l := range lines {
		for i, v := range l.values {
			before, after := i == 0 || math.IsNaN(l.values[i-1]), i == len(l.values)-1 || math.IsNaN(l.values[i+1])
			if !math.IsNaN(v) && before && after {
				return true
			}
		}
	}
	return false
}

// valueAxis begins at 0 and ends at a round number above the largest value.
func valueAxis(unit string, top float64) charts.YAxisOption {
	top, steps := roundTop(top)
	return charts.YAxisOption{
		Title: unit, TitleFontStyle: font(), LabelFontStyle: font(), LabelOffset: charts.OffsetInt{Left: 6}, Min: charts.Ptr(0.0), Max: charts.Ptr(top), LabelCount: steps + 1,
		RangeValuePaddingScale: charts.Ptr(0.0), SplitLineShow: charts.Ptr(true), ValueFormatter: short,
	}
}

// roundTop gives a number that divides into few round steps, not below what is to
// be shown.
func roundTop(top float64) (rounded float64, steps int) {
	if top <= 0 {
		return 1, 1
	}
	scale := math.Pow(10, math.Floor(math.Log10(top)))
	for _, r := range []struct {
		most  float64
		steps int
	}{{1, 5}, {1.2, 4}, {1.5, 3}, {2, 4}, {2.5, 5}, {3, 3}, {4, 4}, {5, 5}, {6, 3}, {8, 4}, {10, 5}} {
		if top <= r.most*scale*(1+1e-9) {
			return r.most * scale, r.steps
		}
	}
	return 10 * scale, 5
}

// short writes a number for an axis.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', -1, 64) + "M"
	case v >= 10_000:
		return strconv.FormatFloat(v/1e3, 'f', -1, 64) + "k"
	case v >= 1000:
		return runner.Grouped(int64(v + .5))
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}

// histogram draws how often values of each size were counted, in bars of like width.
func histogram(title, note, unit string, q Quantiles, format func(float64) string) (Chart, error) {
	edges := edgesOf(q.Buckets)
	values := spread(q.Buckets, edges)
	labels, top := make([]string, len(values)), 0.0
	each := (len(values) + 6) / 7
	for i, v := range values {
		if top = max(top, v); i%each == 0 {
			labels[i] = format(edges[i])
		}
	}
	opt := charts.NewBarChartOptionWithData([][]float64{values})
	opt.Theme = theme([]line{{}})
	opt.Padding = charts.NewBox(8, 8, 14, 8)
	opt.BarSize = 0.9
	opt.CategoryAxis = charts.CategoryAxisOption{Title: unit, TitleFontStyle: font(), Labels: labels, LabelCount: len(labels), LabelFontStyle: font()}
	opt.ValueAxis = []charts.ValueAxisOption{valueAxis("answers", top)}
	p := painter(nil, chartHeight)
	svg, err := finish(title, p, p.BarChart(opt))
	return Chart{Title: title, Note: note, SVG: svg}, err
}

// bars draws one horizontal bar for each name, the first on top.
func bars(title, note, unit string, names []string, values []float64) (Chart, error) {
	n, top := len(names), 0.0
	labels, row := make([]string, n), make([]float64, n)
	for i := range names { // the library begins below
		labels[n-1-i], row[n-1-i] = cut(names[i], 34), values[i]
		top = max(top, values[i])
	}
	opt := charts.NewBarChartOptionWithData([][]float64{row})
	opt.Theme = theme([]line{{}})
	opt.Horizontal = true
	opt.Padding = charts.NewBox(8, 8, 24, 8)
	opt.CategoryAxis = charts.CategoryAxisOption{Labels: labels, LabelFontStyle: font()}
	axis := valueAxis(unit, top)
	axis.LabelCount = min(axis.LabelCount, 3) // side by side they need more room
	if axis.LabelCount == 3 {
		axis.Max = charts.Ptr(evenTop(top))
	}
	opt.ValueAxis = []charts.ValueAxisOption{axis}
	p := painter(nil, max(130, 80+barHeight*n))
	svg, err := finish(title, p, p.BarChart(opt))
	return Chart{Title: title, Note: note, SVG: svg}, err
}

// evenTop gives a number that divides into two round steps, not below what is to be
// shown.
func evenTop(top float64) float64 {
	scale := math.Pow(10, math.Floor(math.Log10(top)))
	for _, most := range []float64{1, 2, 4, 6, 8} {
		if top <= most*scale*(1+1e-9) {
			return most * scale
		}
	}
	return 10 * scale
}
