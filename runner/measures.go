package runner

import (
	"slices"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/route"
)

// measures are what pressure is computed from now.
func (r *run) measures(now time.Time) route.Measures {
	m := route.Measures{Left: r.Deadline - now.Sub(r.started), HasDeadline: r.Deadline > 0, QueueWait: r.sched.oldest(now), Saturation: r.sched.saturation(now)}
	left, loads := r.left(), r.loads()
	for level, held := range r.heldBelow() {
		if level > 0 && held == 0 {
			m.Projected[level] = m.Projected[0]
		} else {
			m.Projected[level] = r.projected(now, max(0, left-held), loads)
		}
	}
	return m
}

// left is how many operations are not answered yet.
func (r *run) left() int64 {
	c := &r.sched.count
	return max(0, r.todo-c.Completed-c.Failed-c.Held-int64(r.sched.storing))
}

// unsent is how many of them are not on the wire either.
func (r *run) unsent() int64 { return max(0, r.left()-int64(r.sched.wire)) }

// projected is how long so many operations would take if nothing gave way: by
// the limits and the ceiling of the targets that they set out for, which load
// has of the sample, and by how long calls with their whole output take. So a
// level lasts until what is left fits without it, whatever it has brought
// meanwhile.
func (r *run) projected(now time.Time, left int64, loads map[*limit.Limiter]*load) (longest time.Duration) {
	trip := time.Duration(r.sched.trip * float64(time.Second))
	each := float64(max(0, left-int64(r.sched.wire))) / float64(max(1, len(r.sampled)))
	for l, load := range loads {
		c := load.cost
		c.Requests, c.Tokens, c.Output = int64(float64(c.Requests)*each), int64(float64(c.Tokens)*each), int64(float64(c.Output)*each)
		took := l.Horizon(now, c, trip)
		if took > 0 && len(load.others) > 0 { // they share the work
			rate := 1 / float64(took)
			for _, o := range load.others {
				rate += 1 / float64(max(o.Horizon(now, c, trip), 1))
			}
			took = time.Duration(1 / rate)
		}
		longest = max(longest, took)
	}
	return longest
}

// load is what operations would take from the limiter that they set out for.
type load struct {
	cost   limit.Cost
	others []*limit.Limiter // that what it has no room for goes to
}

// loads are those of the sample with its whole output.
func (r *run) loads() map[*limit.Limiter]*load {
	all := map[*limit.Limiter]*load{}
	for _, j := range r.sampled {
		l := r.sched.lane(j)
		if all[l.limiter] == nil {
			all[l.limiter] = &load{}
		}
		to := all[l.limiter]
		c, _ := l.costWith(j, l.capOf(j))
		(*sums)(&to.cost).add(c)
		if j.way.Route == nil {
			continue
		}
		for i := range j.way.Lanes {
			other := r.sched.lanes[r.sched.laneAt(j, i)]
			if i != j.way.Degrade && j.way.When[i].Has(route.RateLimited) && other.down == nil && other.limiter != l.limiter && !slices.Contains(to.others, other.limiter) {
				to.others = append(to.others, other.limiter)
			}
		}
	}
	return all
}

// heldBelow is, by level, how many of the operations that are left the levels
// below hold, as the sample has it.
func (r *run) heldBelow() (below [route.Severe + 1]int64) {
	p := &r.sched.press
	var by [route.Severe + 2]int64 // of the sample, by the first level that holds them
	for _, j := range r.sampled {
		by[p.firstHeld(j)]++
	}
	held := int64(0)
	for level := route.Light; level < route.Severe; level++ {
		if by[level] > 0 {
			held += max(0, by[level]*r.todo/int64(len(r.sampled))-p.done[level])
		}
		below[level+1] = held
	}
	return below
}
