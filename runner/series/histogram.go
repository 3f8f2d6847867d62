package series

import (
	"encoding/json"
	"errors"
	"math/bits"
)

// Histogram counts values of 0 and more in buckets of fixed bounds: each value
// below 16 has its own, and above that each power of two is divided into eight,
// so that a bucket is at most an eighth as wide as its lower bound. The zero value
// is empty. Sums of histograms are exact.
type Histogram struct {
	counts []int64 // by bucket, up to the highest used
	n      int64
}

const (
	exact   = 16  // values below it have a bucket each
	eighths = 8   // buckets of a power of two
	buckets = 488 // the number of all that an int64 can need
)

func bucketOf(v int64) int {
	if v < exact {
		return int(max(v, 0))
	}
	e := bits.Len64(uint64(v)) - 1
	return exact + (e-4)*eighths + int(v>>(e-3))&(eighths-1)
}

// Bounds are the least value of a bucket and that of the next.
func Bounds(bucket int) (from, to int64) {
	if bucket < exact {
		return int64(bucket), int64(bucket) + 1
	}
	e := (bucket-exact)/eighths + 4
	width := int64(1) << (e - 3)
	from = (int64((bucket-exact)%eighths) + eighths) * width
	return from, from + width
}

// Add counts a value; one below 0 counts as 0.
func (h *Histogram) Add(v int64) { h.add(bucketOf(v), 1) }

func (h *Histogram) add(bucket int, n int64) {
	for len(h.counts) <= bucket {
		h.counts = append(h.counts, 0)
	}
	h.counts[bucket] += n
	h.n += n
}

// Merge adds all that another has.
func (h *Histogram) Merge(o Histogram) {
	for i, n := range o.counts {
		if n > 0 {
			h.add(i, n)
		}
	}
}

// N is how many values were counted.
func (h *Histogram) N() int64 { return h.n }

// Each calls fn for each bucket from the lowest to the highest that has values,
// empty ones between them included.
func (h *Histogram) Each(fn func(bucket int, n int64)) {
	begun := false
	for i, n := range h.counts {
		if begun = begun || n > 0; begun {
			fn(i, n)
		}
	}
}

// Quantile is the value that a share q, from 0 to 1, of all values do not exceed,
// reckoned within its bucket; 0 of an empty histogram.
func (h *Histogram) Quantile(q float64) int64 {
	if h.n == 0 {
		return 0
	}
	rank := q * float64(h.n)
	below := int64(0)
	for i, n := range h.counts {
		if n > 0 && float64(below+n) >= rank {
			from, to := Bounds(i)
			return from + int64(float64(to-from-1)*max(0, rank-float64(below))/float64(n))
		}
		below += n
	}
	return 0
}

// MarshalJSON writes pairs of bucket and count, in one flat list.
func (h Histogram) MarshalJSON() ([]byte, error) {
	flat := []int64{}
	for i, n := range h.counts {
		if n > 0 {
			flat = append(flat, int64(i), n)
		}
	}
	return json.Marshal(flat)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (h *Histogram) UnmarshalJSON(b []byte) error {
	var flat []int64
	if err := json.Unmarshal(b, &flat); err != nil {
		return err
	}
	if len(flat)%2 != 0 {
		return errors.New("histogram: a bucket without its count")
	}
	*h = Histogram{}
	for i := 0; i < len(flat); i += 2 {
		if flat[i] < 0 || flat[i] >= buckets || flat[i+1] < 0 {
			return errors.New("histogram: no such bucket")
		}
		h.add(int(flat[i]), flat[i+1])
	}
	return nil
}

// IsZero leaves an empty histogram out of JSON.
func (h Histogram) IsZero() bool { return h.n == 0 }
