package runner

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/queue"
	"github.com/llmbatch/llmbatch/runner/route"
)

// tasked sends the lines of the task "slow" to the first server and all others
// to the second.
func (d *desk) tasked(slow, quick *fake.Server) func(*Config) {
	both := d.routed(serving(slow), serving(quick))
	return func(c *Config) {
		both(c)
		way, _ := c.Routes.Resolve("")
		one := func(i int) *Route {
			return &Route{Route: route.Route{Degrade: -1, Targets: way.Targets[i : i+1], When: make([]route.Set, 1)}, Lanes: way.Lanes[i : i+1]}
		}
		ways := []*Route{one(0), one(1)}
		c.Routes.Resolve = func(task string) (*Route, error) {
			if task == "slow" {
				return ways[0], nil
			}
			return ways[1], nil
		}
	}
}

// A task whose target waits for its limit holds up no other task, however many
// lines it has ahead of them.
func TestABacklogHoldsUpNoOtherTask(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		const slow, quick = 3 * queue.LookAhead, 300
		var lines, want []string
		for i := range slow {
			lines = append(lines, fmt.Sprintf(`{"id":"s%d","task":"slow","prompt":"a","max_tokens":8}`, i))
		}
		for i := range quick {
			id := fmt.Sprintf("q%d", i)
			lines, want = append(lines, fmt.Sprintf(`{"id":%q,"prompt":"b","max_tokens":8}`, id)), append(want, id)
		}
		d.input(lines...)
		queued, most := 0, 0
		s := d.run(d.tasked(fake.New(fake.Config{}), fake.New(fake.Config{})), func(c *Config) {
			c.Targets[0].Limits = limit.Limits{RPM: limit.Cap{N: 6, Set: true}}
			c.Deadline = 20 * time.Second
			c.Observe = func(e Event) {
				switch e.What {
				case Queued:
					queued++
				case Granted, Left:
					queued--
				}
				most = max(most, queued)
			}
		})
		out := d.lines(d.paths.Output)
		missing := slices.DeleteFunc(want, func(id string) bool { return out[id] != nil })
		if len(missing) > 0 || s.Completed > quick+6 {
			d.Errorf("%d of the %d lines of the free target have no result, %d have of the other's", len(missing), quick, s.Completed-quick+int64(len(missing)))
		}
		if most > 2*queue.LookAhead {
			d.Errorf("%d operations were queued, want at most %d", most, 2*queue.LookAhead)
		}
	})
}

func TestOrderPassesOverFullLots(t *testing.T) {
	lots := newLots()
	lots.full[1].Store(true)
	var got []int
	entries := slices.Values([]int{0, 1, 2, 3, 4, 5})
	for i := range lots.order(t.Context(), entries, func(i int) uint16 { return uint16(i % 2) }) {
		if got = append(got, i); i == pause {
			lots.full[1].Store(false)
			lots.wake <- struct{}{}
		}
	}
	if want := []int{0, 2, 4, pause, 1, 3, 5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lots.full[0].Store(true)
	n := 0
	for range lots.order(ctx, entries, func(int) uint16 { return 0 }) {
		n++
		cancel()
	}
	if n != 1 {
		t.Errorf("got %d entries of a full lot, want the pause alone", n)
	}
}
