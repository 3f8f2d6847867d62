package runner

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/queue"
)

// lots keep the lines of a target with a full queue from holding up those of
// others: the feed passes over them and comes back. The dispatcher says which
// lots are full, the feed's goroutine asks.
type lots struct {
	full [input.Lots]atomic.Bool
	wake chan struct{} // holds one: a lot is no longer full

	// The dispatcher's alone:
	lanes   map[uint16]int // where the lots' operations were queued
	stuffed []bool         // the lanes, as they were marked last
	stale   bool           // a lot has gone to another lane since
}

func newLots() *lots { return &lots{wake: make(chan struct{}, 1), lanes: map[uint16]int{}} }

// pause stands for an entry where the feed is to pass on what it has, since the
// next may be long in coming.
const pause = -1

// order gives the entries in their order, but for those of full lots, which come
// when there is room for them. What it passes over takes 4 bytes each.
func (t *lots) order(ctx context.Context, entries iter.Seq[int], lot func(i int) uint16) iter.Seq[int] {
	return func(yield func(int) bool) {
		passed := map[uint16][]uint32{}
		// back gives what was passed over and may go; false = the reader has enough.
		back := func() bool {
			for of, list := range passed {
				n := 0
				for ; n < len(list) && !t.full[of].Load(); n++ {
					if !yield(int(list[n])) {
						return false
					}
				}
				if passed[of] = list[n:]; n == len(list) {
					delete(passed, of)
				}
			}
			return true
		}
		for i := range entries {
			select {
			case <-t.wake:
				if !back() {
					return
				}
			default:
			}
			of := lot(i)
			if len(passed[of]) > 0 || t.full[of].Load() {
				passed[of] = append(passed[of], uint32(i))
			} else if !yield(i) {
				return
			}
		}
		for back() && len(passed) > 0 && yield(pause) {
			select {
			case <-t.wake:
			case <-ctx.Done():
				return
			}
		}
	}
}

// note remembers where an operation of a lot was queued.
func (t *lots) note(of uint16, lane int) {
	if was, known := t.lanes[of]; !known || was != lane {
		t.lanes[of], t.stale = lane, true
	}
}

// mark tells the feed which lots are full. With one target that is for the
// dispatcher's own appetite.
func (t *lots) mark(s *scheduler) {
	if len(s.lanes) < 2 {
		return
	}
	if t.stuffed == nil {
		t.stuffed = make([]bool, len(s.lanes))
	}
	for i, l := range s.lanes {
		if now := s.stuffed(l); now != t.stuffed[i] {
			t.stuffed[i], t.stale = now, true
		}
	}
	if !t.stale {
		return
	}
	t.stale = false
	freed := false
	for of, lane := range t.lanes {
		full := t.stuffed[lane]
		freed = t.full[of].Swap(full) && !full || freed
	}
	if freed {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// scarce is the queue below which a lane may soon have nothing to send.
const scarce = 64

// stuffed says that a lane has enough in its queue.
func (s *scheduler) stuffed(l *lane) bool {
	n := l.ready.Len()
	return n >= queue.LookAhead || n >= scarce && s.size >= maxReadyBytes
}

// hungry says that a lane which could send has little to send, while others have
// more than enough. The feed then passes over those, and no more comes for them
// than is counted already.
func (s *scheduler) hungry() bool {
	if len(s.lanes) < 2 || s.stop != nil || s.storing >= queue.LookAhead || s.size >= 2*maxReadyBytes {
		return false
	}
	waiting, scant := 0, false
	for _, l := range s.lanes {
		waiting += l.ready.Len()
		scant = scant || l.down == nil && l.ready.Len() < scarce
	}
	return scant && waiting < 2*queue.LookAhead*min(len(s.lanes), maxQueues)
}
