package series

// Point is what happened in a stretch of time. Times are milliseconds, From of
// the Unix epoch. Points without a gap between them add up.
type Point struct {
	Run  int   `json:"run,omitempty"` // of Series.Runs; in the store its key says so
	From int64 `json:"t"`
	Span int64 `json:"d"`

	Calls    int64     `json:"c,omitempty"` // sent
	Answered int64     `json:"a,omitempty"`
	Failed   int64     `json:"f,omitempty"`
	Reserved int64     `json:"r,omitempty"` // tokens, of Calls
	Used     int64     `json:"u,omitempty"` // tokens, of Answered
	InFlight int64     `json:"w,omitempty"` // the most at once
	Wait     Histogram `json:"q,omitzero"`  // of what was granted, milliseconds in the queue

	Refused Tally  `json:"x,omitempty"` // by limit
	Retried Tally  `json:"y,omitempty"` // by the class of the failure before
	Bound   Tally  `json:"b,omitempty"` // milliseconds by what held calls back; "" = nothing
	Uses    []Load `json:"l,omitempty"` // in the order of Run.Limits
}

// Load is how one limit stood: the most that counted against it, and what it was
// at last; 0 = not known.
type Load struct {
	Used int64 `json:"used"`
	Max  int64 `json:"max"`
}

// Tally counts by name. It keeps to maxNames names; what comes after goes by
// Other, so that nothing a server sends makes it grow.
type Tally map[string]int64

// Other is the name of what a full Tally gets no name of its own for.
const Other = "other"

const maxNames = 24

// Add counts n more of a name, in a Tally that may be nil.
func (t *Tally) Add(name string, n int64) {
	if n == 0 {
		return
	}
	if *t == nil {
		*t = Tally{}
	}
	if _, known := (*t)[name]; !known && len(*t) >= maxNames {
		name = Other
	}
	(*t)[name] += n
}

// Merge adds all that another has.
func (t *Tally) Merge(o Tally) {
	for name, n := range o {
		t.Add(name, n)
	}
}

// Sum is the total of all names.
func (t Tally) Sum() (n int64) {
	for _, m := range t {
		n += m
	}
	return n
}

// End is when the point ends.
func (p *Point) End() int64 { return p.From + p.Span }

// merge adds the point that follows.
func (p *Point) merge(o *Point) {
	p.Span = o.End() - p.From
	p.Calls += o.Calls
	p.Answered += o.Answered
	p.Failed += o.Failed
	p.Reserved += o.Reserved
	p.Used += o.Used
	p.InFlight = max(p.InFlight, o.InFlight)
	p.Wait.Merge(o.Wait)
	p.Refused.Merge(o.Refused)
	p.Retried.Merge(o.Retried)
	p.Bound.Merge(o.Bound)
	for i, l := range o.Uses {
		if i == len(p.Uses) {
			p.Uses = append(p.Uses, l)
			continue
		}
		p.Uses[i] = Load{Used: max(p.Uses[i].Used, l.Used), Max: l.Max}
	}
}
