package series

import (
	"encoding/json"
	"slices"
)

// Bounds of what is kept.
const (
	maxPoints = 600
	maxRuns   = 40
	second    = int64(1000)
)

// Series is what was kept of a checkpoint's runs. Its points are in order of
// time, and those of one run follow one another.
type Series struct {
	Runs   []Run   `json:"runs"`
	Points []Point `json:"points"`
}

// Whole says that each point is of one of the runs, as it may not be in what others
// have written.
func (s *Series) Whole() bool {
	return !slices.ContainsFunc(s.Points, func(p Point) bool { return p.Run < 0 || p.Run >= len(s.Runs) })
}

// Recorder keeps the series of a run that goes on. Begin comes first. One
// goroutine owns it.
type Recorder struct {
	Series
	Now   Point             // what has happened since the last point was closed
	keys  []key             // of Points
	runs  []uint32          // numbers of Runs in the store
	next  uint32            // of the point that is under way
	dirty map[uint64][]byte // what the store does not have yet
}

// key is where a value lies in the store: a run's own under at 0, its points
// after that.
type key struct{ run, at uint32 }

func (k key) number() uint64 { return uint64(k.run)<<32 | uint64(k.at) }

// Load takes one value that an earlier run has stored; they come in the order of
// their keys. One that does not parse is left out.
func (r *Recorder) Load(number uint64, value []byte) {
	k := key{uint32(number >> 32), uint32(number)}
	if k.at == 0 {
		var run Run
		if json.Unmarshal(value, &run) != nil {
			return
		}
		r.Runs, r.runs = append(r.Runs, run), append(r.runs, k.run)
		return
	}
	var p Point
	if p.Run = len(r.Runs) - 1; p.Run < 0 || r.runs[p.Run] != k.run || json.Unmarshal(value, &p) != nil {
		return
	}
	r.Points, r.keys = append(r.Points, p), append(r.keys, k)
}

// Begin opens a new run at a moment.
func (r *Recorder) Begin(now int64) *Run {
	r.dirty = map[uint64][]byte{}
	for len(r.Runs) >= maxRuns {
		r.dropOldest()
	}
	number := uint32(1)
	if n := len(r.runs); n > 0 {
		number = r.runs[n-1] + 1
	}
	r.Runs, r.runs = append(r.Runs, Run{From: now, To: now}), append(r.runs, number)
	r.next = 1
	r.Now = Point{Run: len(r.Runs) - 1, From: now}
	return r.Last()
}

// Last is the run that goes on.
func (r *Recorder) Last() *Run { return &r.Runs[len(r.Runs)-1] }

// dropOldest folds the oldest run into the next one.
func (r *Recorder) dropOldest() {
	n := 0
	for n < len(r.Points) && r.Points[n].Run == 0 {
		r.dirty[r.keys[n].number()] = nil
		n++
	}
	r.Points, r.keys = slices.Delete(r.Points, 0, n), slices.Delete(r.keys, 0, n)
	for i := range r.Points {
		r.Points[i].Run--
	}
	r.dirty[key{r.runs[0], 0}.number()] = nil
	r.Runs[1].fold(&r.Runs[0])
	r.Runs, r.runs = slices.Delete(r.Runs, 0, 1), slices.Delete(r.runs, 0, 1)
	r.write(key{r.runs[0], 0}, r.Runs[0])
}

func (r *Recorder) write(k key, v any) {
	b, err := json.Marshal(v)
	if err == nil { // figures always marshal
		r.dirty[k.number()] = b
	}
}

// Tick takes in what happened up to a moment and returns what the store is to
// keep of it: the run so far, and the point that is under way. Called each second it
// loses a second at most.
func (r *Recorder) Tick(now int64) map[uint64][]byte {
	r.Now.Span = now - r.Now.From
	run := r.Last()
	run.To = now
	number := r.runs[len(r.runs)-1]
	r.write(key{number, 0}, run)
	k := key{number, r.next}
	r.write(k, &r.Now)
	if r.Now.Span >= r.step() {
		r.Points, r.keys = append(r.Points, r.Now), append(r.keys, k)
		r.next++
		r.Now = Point{Run: r.Now.Run, From: now}
		r.thin()
	}
	out := r.dirty
	r.dirty = map[uint64][]byte{}
	return out
}

// step is how long a point is: a second at first, and longer as those that are
// kept have become longer.
func (r *Recorder) step() int64 {
	total := int64(0)
	for i := range r.Points {
		total += r.Points[i].Span
	}
	return max(second, total/maxPoints)
}

// thin makes room for a point.
func (r *Recorder) thin() {
	for len(r.Points) > maxPoints {
		i := cheapest(r.Points)
		if i < 0 {
			return // as many runs as points: Begin bounds their number
		}
		r.Points[i].merge(&r.Points[i+1])
		r.dirty[r.keys[i+1].number()] = nil
		r.write(r.keys[i], &r.Points[i])
		r.Points, r.keys = slices.Delete(r.Points, i+1, i+2), slices.Delete(r.keys, i+1, i+2)
	}
}

// cheapest is the first of the two neighbours of one run that are the shortest
// together, so that resolution is lost where there is most of it; -1 = there are
// none.
func cheapest(points []Point) int {
	best, span := -1, int64(0)
	for i := 0; i+1 < len(points); i++ {
		if points[i].Run != points[i+1].Run {
			continue
		}
		if s := points[i+1].End() - points[i].From; best < 0 || s < span {
			best, span = i, s
		}
	}
	return best
}

// Few is a copy of the series, the point under way included, with about so many
// points.
func (r *Recorder) Few(n int) Series {
	all := append(slices.Clip(r.Points), r.Now)
	s := Series{Runs: slices.Clone(r.Runs)}
	each := (len(all) + n - 1) / n
	for i := range all {
		p := all[i]
		if last := len(s.Points) - 1; i%each != 0 && last >= 0 && s.Points[last].Run == p.Run {
			s.Points[last].merge(&p)
			continue
		}
		s.Points = append(s.Points, p.clone())
	}
	return s
}

// clone is a copy that can be merged into without touching the point.
func (p *Point) clone() Point {
	c := *p
	c.Uses = slices.Clone(p.Uses)
	c.Wait, c.Refused, c.Retried, c.Bound = Histogram{}, nil, nil, nil
	c.Wait.Merge(p.Wait)
	c.Refused.Merge(p.Refused)
	c.Retried.Merge(p.Retried)
	c.Bound.Merge(p.Bound)
	return c
}
