package runner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// stand is what a start found of one line of the input.
type stand uint8

const (
	standTodo stand = iota // to be sent; a row, if any, is pending, delayed or unknown
	standDone              // completed, request unchanged
	standDead              // dead letter that stays one
	standHeld              // unknown outcome that is held
	standSkip              // outside --limit
)

// plan is the work of a run, by entry of the index.
type plan struct {
	stand []stand
	seeds map[seed]limit.Cost // attempts of earlier runs that still count against a limit

	done, dead, held, skipped int
	usage                     checkpoint.Usage          // of the completed operations
	spent                     money.Amount              // what they cost
	calls                     int64                     // that were made for them
	latency                   time.Duration             // of those calls together
	outputs                   []seenOutput              // of the last of those calls, at least as many as are learned from
	classes                   map[string]int            // dead letters that stay, by class
	charging                  map[string]limit.Charging // as earlier runs saw it, by account
	edited, putBack, removed  int
	unknown                   []string // operation IDs whose last attempt's outcome is unknown
	unknowns                  int
	before                    int                 // other calls of unknown outcome, as of operations that have ended
	doubted                   []string            // whose those are
	sentAgain                 bool                // an operation of such a call, once more later
	degraded                  int                 // of the completed ones, those that gave something up
	unsettled                 int                 // those of them that are to be sent again
	digests                   map[[32]byte]uint64 // rows of completed requests, for --dedupe
	lines                     tilings             // of the rows that stay as they are
}

// seed stands for the attempts at one target that may still fill a window and
// leave it together. A day may have millions of attempts.
type seed struct {
	target int
	at     int64 // ns since 1970: of the last of them, or a little later
}

// seed adds an attempt of an earlier run. Those of the last minutes are told apart
// as well as a minute's window does it, and older ones as a day's does.
func (p *plan) seed(c *Config, a *checkpoint.Attempt, now time.Time) {
	if !stillCounts(*a, now) {
		return
	}
	n := serves(c.Targets, a.Provider, a.Model)
	if n < 0 {
		return // in this run nothing goes there
	}
	grain := int64(time.Minute)
	if now.Sub(a.At) < 2*time.Minute {
		grain = int64(10 * time.Millisecond)
	}
	key := seed{n, (a.At.UnixNano() + grain - 1) / grain * grain}
	cost := p.seeds[key]
	cost.Requests, cost.Tokens, cost.Output = cost.Requests+a.Charge.Requests, cost.Tokens+a.Charge.Tokens, cost.Output+a.Charge.Output
	p.seeds[key] = cost
}

// seenOutput is how long an answer of an earlier run was.
type seenOutput struct {
	provider, model string
	tokens          int64
}

// see keeps the outputs that were stored last.
func (p *plan) see(op *checkpoint.Operation) {
	const kept = len(outputStats{}.last)
	if op.Usage.Output == 0 {
		return // an API without outputs, or a server that does not tell
	}
	if len(p.outputs) == 2*kept {
		p.outputs = p.outputs[:copy(p.outputs, p.outputs[kept:])]
	}
	p.outputs = append(p.outputs, seenOutput{op.Provider, op.Model, op.Usage.Output})
}

// makePlan decides for every line whether it is done. Rows that have to run
// again are marked so durably before anything is sent: a crash in the middle
// must not take an edited line's old answer for its new one.
func (b *book) makePlan(c *Config, now time.Time, settingsChanged bool) (*plan, error) {
	p, again, err := b.survey(c, now, settingsChanged)
	if err != nil {
		return nil, err
	}
	b.lines = p.lines
	for batch := range slices.Chunk(again, putMost) {
		ops := make([]*checkpoint.Operation, len(batch))
		for n, a := range batch {
			if ops[n], err = b.get(uint64(a.seq)); err != nil {
				return nil, err
			}
			a.to.apply(ops[n], now)
		}
		if err := b.store.PutAll(ops, nil); err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
	}
	return p, nil
}

// survey is makePlan without a write: again are the rows that change.
func (b *book) survey(c *Config, now time.Time, settingsChanged bool) (p *plan, again []changed, err error) {
	p = newPlan(c, b.index)
	p.charging = c.remembered(&b.meta)
	near := b.index.Cursor()
	err = b.store.All(func(op *checkpoint.Operation) error {
		for n := range op.Attempts {
			p.seed(c, &op.Attempts[n], now)
		}
		to := stays
		i, known := near.Find(op.ID)
		if known = known && !b.index.Outgrown(i, op.ID); !known {
			to = p.gone(op)
		} else if to, err = b.judge(c, p, i, op, settingsChanged); err != nil {
			return err
		}
		p.noteBefore(op, known, to, now)
		if to == stays {
			p.lines.add(op)
			return nil
		}
		again = append(again, changed{uint32(op.Seq), to})
		return nil
	})
	return p, again, err
}

// newPlan is the plan of an input of which nothing is done.
func newPlan(c *Config, ix *input.Index) *plan {
	p := &plan{stand: make([]stand, ix.Len()), classes: map[string]int{}, seeds: map[seed]limit.Cost{}, digests: map[[32]byte]uint64{}}
	p.cut(ix, c.Limit)
	return p
}

// judge decides on one row.
func (b *book) judge(c *Config, p *plan, i int, op *checkpoint.Operation, settingsChanged bool) (change, error) {
	switch op.Status {
	case checkpoint.Completed, checkpoint.DeadLetter:
		same, err := b.unchanged(c, i, op, settingsChanged)
		if err != nil {
			return stays, err
		}
		if same && op.Status == checkpoint.Completed {
			p.set(i, standDone, &p.done, &p.skipped)
			if c.Dedupe && op.CopyOf == "" {
				p.digests[op.Digest] = op.Seq
			}
			p.spent += c.price(op.Provider, op.Model).Bill(op.Usage.Input, op.Usage.Cached, op.Usage.Output)
			if len(op.Degraded) > 0 {
				p.degraded++
			}
			if op.CopyOf == "" && !op.FromCache && op.Provider != fixedProvider {
				p.calls++
				p.see(op)
				p.latency += time.Duration(op.LatencyMS) * time.Millisecond
			}
			p.usage.Input += op.Usage.Input
			p.usage.Output += op.Usage.Output
			p.usage.Cached += op.Usage.Cached
			p.usage.Reasoning += op.Usage.Reasoning
			return stays, nil
		}
		if same && !c.putsBack(op.Class) {
			p.set(i, standDead, &p.dead, &p.skipped)
			p.classes[op.Class]++
			return stays, nil
		}
		if same {
			p.putBack++
			return putBack, nil
		}
		p.edited++
		return anew, nil
	case checkpoint.InFlight:
		p.noteUnknown(op)
		p.doubt(c, b.index, i, op)
		return cutOff, nil
	case checkpoint.Unknown:
		p.noteUnknown(op)
		p.doubt(c, b.index, i, op)
	}
	return stays, nil
}

// gone notes a row whose line is no longer in the input.
func (p *plan) gone(op *checkpoint.Operation) change {
	switch {
	case op.Status == checkpoint.DeadLetter && op.Class == ClassInvalid:
		return anew
	case isFinal(op.Status):
		p.removed++
	}
	return stays
}

func stillCounts(a checkpoint.Attempt, now time.Time) bool {
	return a.Sent && now.Sub(a.At) < 24*time.Hour
}

// foreign says that earlier results were found and none of them is of a
// request that the input still holds.
func (p *plan) foreign() bool {
	return p.done+p.dead+p.putBack+p.held == 0 && p.edited+p.removed > 0
}

// cut leaves out what follows the first n operations; 0 = nothing.
func (p *plan) cut(ix *input.Index, n int) {
	if n == 0 {
		return
	}
	for i := range p.stand {
		if n == 0 {
			p.stand[i] = standSkip
			p.skipped++
		} else if !ix.Entry(i).Invalid() {
			n--
		}
	}
}

// set gives an entry its stand. A finished operation counts as such even
// outside --limit.
func (p *plan) set(i int, s stand, count, skipped *int) {
	if p.stand[i] == standSkip {
		*skipped--
	}
	p.stand[i] = s
	*count++
}

// unchanged says whether a finished operation's request is still the one that
// was answered. The bytes of the line decide when no setting changed, which
// spares decoding it.
func (b *book) unchanged(c *Config, i int, op *checkpoint.Operation, settingsChanged bool) (same bool, err error) {
	e := b.index.Entry(i)
	if e.Invalid() {
		return op.Class == ClassInvalid && op.Sum == e.Sum, nil
	}
	if op.Class == ClassInvalid {
		return false, nil // the line is valid now, whatever made it so
	}
	if settingsChanged && c.Changed == Keep {
		return true, nil
	}
	if !settingsChanged && op.Sum == e.Sum {
		return true, nil
	}
	j := &job{}
	if j.rec, err = c.Input.Record(b.index, i, c.Settings); err != nil {
		return false, err
	}
	if err := c.setOut(j); err != nil {
		return false, noRoute(j.rec.Line, err)
	}
	return j.rec.Digest == op.Digest, nil
}

// price is that of the target which serves a model; zero if none does now.
func (c *Config) price(provider, model string) money.Price {
	if n := serves(c.Targets, provider, model); n >= 0 {
		return c.Targets[n].Price
	}
	return money.Price{}
}

// priced says that costs can be told.
func (c *Config) priced() bool {
	for _, t := range c.Targets {
		if t.Price.Known {
			return true
		}
	}
	return false
}

// putsBack says whether a rerun sends a dead letter of this class again.
func (c *Config) putsBack(class string) bool {
	if slices.Contains(c.RetryFailed, class) || slices.Contains(c.RetryFailed, "all") {
		return class != ClassInvalid
	}
	kind, ok := provider.ParseKind(class)
	if kind == provider.KindOutcomeUnknown && c.Policy.HoldUnknown {
		return false
	}
	return ok && retry.Transient(kind)
}

// Hopeless says that a failure of this class comes again as long as the line and
// the settings stay as they are.
func Hopeless(class string) bool {
	kind, known := provider.ParseKind(class)
	return class == ClassInvalid || strings.HasPrefix(class, classTooLarge) || known && retry.Hopeless(kind)
}

// ClassInvalid is the class of the lines that --skip-invalid leaves out. No
// retry puts them back: they have to be mended.
const ClassInvalid = "invalid_line"

// ClassUnknown is the class of attempts whose outcome is not known.
const ClassUnknown = "unknown"

// Classes of failures that no provider sends.
const (
	classTooLarge = "request_exceeds_" // + rpm, tpm …: larger than a whole budget
	classInternal = "internal"         // a defect met one operation
)

// IsClass says that failures of such a class exist, for flags.
func IsClass(name string) bool {
	_, known := provider.ParseKind(name)
	return known || name == "all" || name == ClassInvalid || name == classInternal || strings.HasPrefix(name, classTooLarge)
}

// maxListed bounds the operation IDs that a summary names.
const maxListed = 100

// entries walks what is to be done in the order of dispatch: by priority,
// then by line.
func (p *plan) entries(ix *input.Index, yield func(i int) bool) {
	for _, prio := range []input.Priority{input.High, input.Normal, input.Low} {
		for i, s := range p.stand {
			if e := ix.Entry(i); s == standTodo && e.Priority == prio && !e.Invalid() && !yield(i) {
				return
			}
		}
	}
}
