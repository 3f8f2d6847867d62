package report

import "math"

// mostBars bounds the bars of a histogram.
const mostBars = 24

// edgesOf divides the range of the buckets into bars: of the same width where values
// differ by less than ten times, else of the same ratio.
func edgesOf(all []Bucket) []float64 {
	if len(all) == 0 {
		return []float64{0, 1}
	}
	low, high := float64(all[0].From), float64(all[len(all)-1].To)
	if high > 10*max(low, 1) && high > 100 {
		return ratios(max(low, 1), high, low < 1)
	}
	step := 1.0
	for i := 0; (high-low)/step > mostBars; i++ {
		step *= []float64{2, 2.5, 2}[i%3] // 1, 2, 5, 10
	}
	edges := []float64{math.Floor(low/step) * step}
	for edges[len(edges)-1] < high {
		edges = append(edges, edges[len(edges)-1]+step)
	}
	return edges
}

// ratios divides each power of two into as many parts as there is room for.
func ratios(low, high float64, zero bool) (edges []float64) {
	octaves := math.Ceil(math.Log2(high)) - math.Floor(math.Log2(low))
	parts := max(1, math.Floor(mostBars/octaves))
	if zero {
		edges = append(edges, 0)
	}
	for k := math.Floor(math.Log2(low) * parts); ; k++ {
		edges = append(edges, math.Exp2(k/parts))
		if edges[len(edges)-1] >= high {
			return edges
		}
	}
}

// spread shares the buckets' counts out between the edges.
func spread(all []Bucket, edges []float64) []float64 {
	values := make([]float64, len(edges)-1)
	for _, b := range all {
		for i := range values {
			part := min(float64(b.To), edges[i+1]) - max(float64(b.From), edges[i])
			if part > 0 {
				values[i] += float64(b.N) * part / float64(b.To-b.From)
			}
		}
	}
	return values
}
