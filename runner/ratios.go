package runner

// ratios learns, for each model, what providers bill for a prompt against what
// was reckoned: tokenizers that are not public have only a stated factor to
// start from. The zero value corrects nothing.
type ratios struct{ of map[string]*ratio }

// ratio holds moving sums of tokens.
type ratio struct{ billed, reckoned, answers int64 }

const (
	// ratioAfter is how many answers of a model it takes.
	ratioAfter = 20
	// ratioMemory halves the sums, so that newer answers weigh more.
	ratioMemory = 1 << 20
	// ratioModels bounds the models that are followed; a file may name any
	// number of them.
	ratioModels = 1000
)

// add notes an answer's usage.
func (r *ratios) add(model string, reckoned, billed int64) {
	m := r.of[model]
	if m == nil {
		if len(r.of) >= ratioModels || reckoned <= 0 || billed <= 0 {
			return
		}
		if r.of == nil {
			r.of = map[string]*ratio{}
		}
		m = &ratio{}
		r.of[model] = m
	}
	m.billed += max(0, billed)
	m.reckoned += reckoned
	m.answers++
	if m.reckoned > ratioMemory {
		m.billed, m.reckoned = m.billed/2, m.reckoned/2
	}
}

// correct returns what a prompt of so many reckoned tokens is likely to be
// billed, between a fifth and five times of it: a server that reports nonsense
// must neither stop the run nor set it free.
func (r *ratios) correct(model string, reckoned int64) int64 {
	m := r.of[model]
	if m == nil || m.answers < ratioAfter || m.reckoned == 0 {
		return reckoned
	}
	return min(max((reckoned*m.billed+m.reckoned-1)/m.reckoned, reckoned/5), reckoned*5)
}
