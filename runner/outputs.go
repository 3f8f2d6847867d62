package runner

import "slices"

// firstOutput is reserved for a call without a cap until enough outputs have
// been seen (spec §6).
const firstOutput = 1024

// outputStats learns how long outputs are: the p99 of the last 200. The zero
// value has seen nothing.
type outputStats struct {
	last  [200]int64
	n     int // outputs seen
	value int64
}

// add notes the output of one answer, in tokens. The figure is worked out
// anew every 20 answers, so that one long answer does not move it at once.
func (o *outputStats) add(tokens int64) {
	o.last[o.n%len(o.last)] = tokens
	o.n++
	if o.n < 20 || o.n%20 != 0 {
		return
	}
	all := o.last
	seen := all[:min(o.n, len(all))]
	slices.Sort(seen)
	o.value = max(1, seen[(len(seen)*99)/100])
}

// p99 returns what to reserve for a call whose output has no cap.
func (o *outputStats) p99() int64 {
	if o.n < 20 {
		return firstOutput
	}
	return o.value
}
