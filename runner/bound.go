package runner

import (
	"cmp"
	"slices"
	"strings"

	"github.com/llmbatch/llmbatch/runner/series"
)

// Bound is how long one thing held a run back.
type Bound struct {
	By      string  `json:"by"`               // rpm, tpm, concurrency, a pause ...; "answers" = only answers were waited for
	Target  string  `json:"target,omitempty"` // where there are several limit groups, the first of the one that waited
	Seconds float64 `json:"seconds"`
	Share   float64 `json:"share"` // of all of them, 0 to 1
}

// byAnswers stands for the time in which nothing kept calls back: the rest was
// on the wire.
const byAnswers = "answers"

// boundsOf lists what held a run back, the longest first.
func boundsOf(ms series.Tally) (all []Bound) {
	sum := int64(0)
	for _, n := range ms {
		sum += n
	}
	for why, n := range ms {
		why, target, _ := strings.Cut(why, ofGroup)
		all = append(all, Bound{cmp.Or(why, byAnswers), target, float64(n) / 1000, float64(n) / float64(sum)})
	}
	slices.SortFunc(all, func(a, b Bound) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.By, b.By), cmp.Compare(a.Target, b.Target))
	})
	return all
}
