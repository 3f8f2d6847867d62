package queue

import (
	"container/heap"
	"time"
)

// Delayed holds values until their time. Values of one moment leave in the order in which they came.
// The zero Delayed is empty.
type Delayed[T any] struct {
	h   delayedHeap[T]
	seq uint64
}

type delayed[T any] struct {
	notBefore time.Time
	seq       uint64
	v         T
}

type delayedHeap[T any] []delayed[T]

func (h delayedHeap[T]) Len() int { return len(h) }

func (h delayedHeap[T]) Less(i, j int) bool {
	if !h[i].notBefore.Equal(h[j].notBefore) {
		return h[i].notBefore.Before(h[j].notBefore)
	}
	return h[i].seq < h[j].seq
}

func (h delayedHeap[T]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *delayedHeap[T]) Push(x any)   { *h = append(*h, x.(delayed[T])) }

func (h *delayedHeap[T]) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = delayed[T]{}
	*h = (*h)[:last]
	return x
}

// Len is how many values wait.
func (d *Delayed[T]) Len() int { return len(d.h) }

// Push adds v, to leave at notBefore.
func (d *Delayed[T]) Push(v T, notBefore time.Time) {
	d.seq++
	heap.Push(&d.h, delayed[T]{notBefore, d.seq, v})
}

// Next is when the first value may leave; ok is false if there is none.
func (d *Delayed[T]) Next() (at time.Time, ok bool) {
	if len(d.h) == 0 {
		return time.Time{}, false
	}
	return d.h[0].notBefore, true
}

// Pop takes the first value whose time has come by now.
func (d *Delayed[T]) Pop(now time.Time) (v T, ok bool) {
	if len(d.h) == 0 || d.h[0].notBefore.After(now) {
		return v, false
	}
	return heap.Pop(&d.h).(delayed[T]).v, true
}

// Each shows every value, in no order. It must not change the queue.
func (d *Delayed[T]) Each(show func(T)) {
	for i := range d.h {
		show(d.h[i].v)
	}
}

// Take removes one that suits, whatever its time; ok is false if none does.
func (d *Delayed[T]) Take(suits func(T) bool) (v T, ok bool) {
	for i := range d.h {
		if suits(d.h[i].v) {
			return heap.Remove(&d.h, i).(delayed[T]).v, true
		}
	}
	return v, false
}

// Drain takes everything, in order of time.
func (d *Delayed[T]) Drain() []T {
	out := make([]T, 0, len(d.h))
	for len(d.h) > 0 {
		out = append(out, heap.Pop(&d.h).(delayed[T]).v)
	}
	return out
}
