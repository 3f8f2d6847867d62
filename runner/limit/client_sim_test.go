package limit_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/queue"
)

// client drives limiter and queue against a model server in virtual time, as a dispatcher would: it
// wakes a little late, records each call before it is sent, and its requests take unequal time on
// their way.
type client struct {
	l       *limit.Limiter
	ready   queue.Ready[*call]
	server  *serverModel
	rand    *rand.Rand
	latency float64
	other   func(now float64) // what shares the server; nil = nothing
	lag     float64           // how late a wake-up may be
	slots   int               // calls that the server works on at once; 0 = all
	free    []float64         // when each slot is free

	now     float64
	events  eventHeap
	wakeAt  float64
	done    int
	last    float64 // when the last answer came
	lastOut float64
	peak    int
	granted int
}

type call struct {
	tokens int64
	ticket limit.Ticket
}

type event struct {
	at   float64
	seq  int
	what func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

func newClient(c limit.Config, s *serverModel, latency float64, seed uint64, weights []int64) *client {
	r := rand.New(rand.NewPCG(seed, 7))
	c.Rand = rand.New(rand.NewPCG(seed, 8))
	cl := &client{l: limit.New(c, epoch), server: s, rand: r, latency: latency, lag: 0.002, wakeAt: math.Inf(1)}
	for _, w := range weights {
		cl.ready.Push(&call{tokens: w}, queue.Normal, queue.Weight{Tokens: w})
	}
	return cl
}

func (c *client) at(at float64, what func()) {
	heap.Push(&c.events, event{at, len(c.events) + c.granted, what})
}

// run goes on until every call has been answered, or the given time is over.
func (c *client) run(until float64) {
	total := c.ready.Len()
	c.dispatch()
	for c.done < total && len(c.events) > 0 && c.now < until {
		e := heap.Pop(&c.events).(event)
		c.now = e.at
		e.what()
		c.dispatch()
	}
}

func (c *client) dispatch() {
	for c.ready.Len() > 0 {
		now := at(c.now)
		room := c.l.Room(now)
		v, wait := c.choose(now, room)
		if v == nil {
			c.sleep(wait.Until.Sub(epoch).Seconds())
			return
		}
		c.granted++
		c.peak = max(c.peak, c.l.Concurrency().Wire())
		c.at(c.now+0.002+0.004*c.rand.Float64(), func() { c.send(v) })
	}
}

func (c *client) choose(now time.Time, room limit.Cost) (*call, limit.Wait) {
	if room.Requests > 0 {
		f := queue.Fit{Tokens: room.Tokens, Output: room.Output}
		low, high := c.ready.Spread()
		f.Want, f.Slack, f.Balance = c.l.Balance(now, low, high)
		if v, ok := c.ready.Pop(f); ok {
			t, wait := c.l.Reserve(now, cost(v.tokens))
			if wait.Reason == limit.Granted {
				v.ticket = t
				return v, wait
			}
			c.ready.PushFront(v, queue.Normal, queue.Weight{Tokens: v.tokens})
			return nil, wait
		}
	}
	least, _ := c.ready.Lightest()
	return nil, c.l.Peek(now, cost(least))
}

// sleep asks for a wake-up, which comes a little late.
func (c *client) sleep(until float64) {
	until += c.lag * c.rand.Float64()
	if c.wakeAt > c.now && c.wakeAt <= until {
		return
	}
	c.wakeAt = until
	c.at(max(until, c.now), func() {})
}

func (c *client) send(v *call) {
	c.l.Sent(at(c.now), v.ticket)
	c.lastOut = c.now
	c.at(c.now+0.005+0.010*c.rand.Float64(), func() { c.arrive(v) })
}

func (c *client) arrive(v *call) {
	if c.other != nil {
		c.other(c.now)
	}
	ok, answer := c.server.arrive(c.now, v.tokens)
	latency := c.latency * (0.5 + c.rand.Float64())
	if !ok && !c.server.slowRefusals {
		latency = 0.02 + 0.03*c.rand.Float64()
	} else if ok && c.server.delay != nil {
		latency += c.server.delay(c.now)
	}
	c.at(c.queued(latency), func() { c.settle(v, ok, answer) })
}

// queued is when a call that takes the given time is answered, if it has to wait for a slot.
func (c *client) queued(latency float64) float64 {
	if c.slots == 0 {
		return c.now + latency
	}
	if len(c.free) < c.slots {
		c.free = append(c.free, c.now+latency)
		return c.now + latency
	}
	first := 0
	for i, f := range c.free {
		if f < c.free[first] {
			first = i
		}
	}
	c.free[first] = max(c.free[first], c.now) + latency
	return c.free[first]
}

func (c *client) settle(v *call, ok bool, answer limit.Answer) {
	if answer.Outcome != limit.Concurrent && ok {
		c.server.inFlight--
	}
	c.l.Settle(at(c.now), v.ticket, answer)
	if !ok {
		c.ready.PushFront(v, queue.Normal, queue.Weight{Tokens: v.tokens})
		return
	}
	c.done++
	c.last = c.now
}
