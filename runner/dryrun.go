package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/result"
)

// dryRun is a run that only reckons.
type dryRun struct {
	*run
	assume Assume
	from   string // where the latency comes from
	ops    []light
	bad    int64 // operations that cannot be counted
	capped bool  // some operation has an output cap
	f      Forecast
	ways   []lightWay // that operations take

	asked map[[32]byte]struct{} // digests of the requests met so far, with --dedupe
}

// light is what the simulation needs of an operation: 16 bytes.
type light struct {
	prompt, chars int32 // tokens, characters
	output        int32 // the cap given, in tokens; 0 = none
	priority      input.Priority
	noOutput      bool
	way           uint16 // in dryRun.ways, from 1; 0 = to the first target
}

// lightWay is where operations go first: on a route, or to the target of the
// model that they keep.
type lightWay struct {
	route *Route
	model string // that they keep
	lane  int
}

// past plans what is still to do, as a run does, and learns how long the calls
// of earlier runs took and what they returned.
func (d *dryRun) past() error {
	d.plan, d.from = newPlan(d.Config, d.index), "given"
	if d.assume.Latency == 0 {
		d.assume.Latency, d.from = time.Second, "assumed"
	}
	store, err := checkpoint.OpenReadOnly(d.Paths.Checkpoint)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.answers()
	case errors.Is(err, checkpoint.ErrLocked):
		d.Notice("a run holds the checkpoint: what it has finished so far is read from its files")
		return d.answers()
	case err != nil:
		d.Notice(fmt.Sprintf("%v: what is finished is read from the output and errors files", err))
		return d.answers()
	}
	defer store.Close()
	meta, err := store.Meta()
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	settings := requestSettings(d.Config)
	b := &book{index: d.index, store: store, meta: meta}
	var refused *Error
	if err := b.compare(d.Config, settings); err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if refused != nil && !d.Restart {
		d.Notice("a run would refuse: " + refused.Msg)
		d.Notice("finished operations are taken for done here; " + refused.Hint)
	}
	changed := len(settingsDiff(meta.Settings, settings)) > 0
	if d.plan, _, err = b.survey(d.Config, d.started, changed && d.Changed == Rerun); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	d.learn(d.plan.calls, d.plan.latency, d.plan.usage.Output)
	return nil
}

// answers plans from the lines of the output and errors files, as a run does
// that rebuilds its checkpoint.
func (d *dryRun) answers() error {
	b := &book{index: d.index}
	near := d.index.Cursor()
	for _, f := range []struct {
		path  string
		final checkpoint.Status
	}{{d.Paths.Output, checkpoint.Completed}, {d.Paths.Errors, checkpoint.DeadLetter}} {
		err := result.Scan(f.path, result.ScanOptions{}, func(s result.Scanned) error {
			if s.Err != nil {
				return nil // torn, or not ours
			}
			op := checkpoint.Operation{Status: f.final}
			fromLine(&op, s.Line)
			i, ok := near.Find(op.ID)
			if !ok || d.index.Outgrown(i, op.ID) || d.plan.stand[i] == standDone || d.plan.stand[i] == standDead {
				return nil
			}
			_, err := b.judge(d.Config, d.plan, i, &op, false)
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read %s: %w", f.path, err)
		}
	}
	d.learn(d.plan.calls, d.plan.latency, d.plan.usage.Output)
	return nil
}

// learn takes what is not given from calls that were answered.
func (d *dryRun) learn(calls int64, latency time.Duration, output int64) {
	if calls == 0 {
		return
	}
	if d.from == "assumed" {
		d.assume.Latency, d.from = latency/time.Duration(calls), "learned from earlier calls"
	}
	if d.assume.Output == 0 {
		d.assume.Output = max(1, output/calls)
	}
}

// count reckons every operation, on all cores.
func (d *dryRun) count(ctx context.Context, each func(PerLine) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer d.feeders.Wait()
	defer stop()
	entries := func(yield func(int) bool) {
		for i := range d.index.Operations() {
			if d.plan.stand[i] == standTodo && !yield(i) {
				return
			}
		}
	}
	todo := 0
	for range entries {
		todo++
	}
	d.ops = make([]light, 0, todo)
	if d.Dedupe {
		d.asked = make(map[[32]byte]struct{})
		for digest := range d.plan.digests {
			d.asked[digest] = struct{}{}
		}
	}
	var j job
	for c := range feed(ctx, &d.feeders, nothing[counted], entries, d.length, func(i int) (counted, error) { return d.weigh(i, each != nil) }) {
		if c.err != nil {
			return c.err
		}
		for i := range c.items {
			if err := d.enter(&j, &c.items[i], each); err != nil {
				return err
			}
		}
		if !d.Dedupe && d.cache == nil { // which look for IDs
			d.index.Forget(c.entries[0])
		}
	}
	return context.Cause(ctx)
}

// counted is an operation as the feeders hand it over.
type counted struct {
	rec    input.Record // with --dedupe or --cache, else without bodies
	tokens estimate.Tokens
	kept   bool // an answer that is kept serves it
	way    lightWay
	refuse *deadLetter
}

// weigh is reckon without what only sending needs; whole keeps the ID.
func (d *dryRun) weigh(i int, whole bool) (c counted, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.rec.Line, c.refuse, err = int(d.index.Entry(i).Line), defect(p), nil
		}
	}()
	var bad error // a route that no configuration gives
	look := func(rec *input.Record) {
		c.way = lightWay{}
		if d.Routes != nil {
			if c.way.route, bad = d.Routes.Resolve(rec.Task); bad != nil {
				return
			}
			c.way.lane = c.way.route.Lanes[0]
		}
		if lane := d.at(c.way.lane, rec.Model); lane != c.way.lane {
			c.way.lane, c.way.model = lane, rec.Model
		}
		target := &d.Targets[c.way.lane]
		if target.Model != "" {
			rec.Model = target.Model
		}
		c.tokens, c.refuse = d.tokens(rec, target.Factor)
		c.rec = input.Record{Line: rec.Line, API: rec.API, Priority: rec.Priority, Digest: rec.Digest}
		if whole {
			c.rec.CustomID = append(c.rec.CustomID, rec.CustomID...)
		}
	}
	if !d.Dedupe && d.cache == nil {
		err = d.Input.Peek(d.index, i, d.Settings, look)
	} else if c.rec, err = d.Input.Record(d.index, i, d.Settings); err == nil {
		rec := c.rec
		j := &job{rec: rec}
		routed := d.setOut(j) == nil
		c.kept = routed && d.cache != nil && d.kept(j) != nil
		if look(&rec); routed {
			c.rec.Digest = j.rec.Digest // of the request as its route asks for it
		}
	}
	if err == nil && bad != nil {
		err = noRoute(int(d.index.Entry(i).Line), bad)
	}
	return c, err
}

// enter adds one operation to what is forecast; j is scratch.
func (d *dryRun) enter(j *job, c *counted, each func(PerLine) error) error {
	if c.refuse != nil {
		if d.bad++; d.bad <= 10 {
			d.Notice(fmt.Sprintf("line %d: %s", c.rec.Line, c.refuse.msg))
		}
		return nil
	}
	*j = job{rec: c.rec, tokens: c.tokens}
	if j.lane = c.way.lane; c.way.route != nil {
		j.way = atStart(c.way.route, c.rec.Priority)
		j.way.model = c.way.model
	}
	d.sched.lane(j).charge(j)
	_, twin := d.asked[c.rec.Digest]
	if d.Dedupe && !twin {
		d.asked[c.rec.Digest] = struct{}{}
	}
	switch {
	case twin:
		d.f.Duplicates++
	case c.kept:
		d.f.CacheHits++
	default:
		d.add(j, c)
	}
	if each == nil {
		return nil
	}
	sure := d.sched.lane(j).chargeOf(j, j.reserved)
	return each(PerLine{Line: j.rec.Line, CustomID: j.rec.CustomID, Text: j.tokens.Text, Prompt: j.tokens.Prompt, Reserved: sure.Tokens + sure.Output})
}

func (d *dryRun) add(j *job, c *counted) {
	if d.neverFits(j) {
		d.f.NeverFit++
		if len(d.f.NeverFitLines) < maxListed {
			d.f.NeverFitLines = append(d.f.NeverFitLines, j.rec.Line)
		}
		return
	}
	prompt := int64(j.tokens.Prompt)
	d.capped = d.capped || d.sched.lane(j).capped(j)
	d.f.PromptTokens += prompt
	d.f.ReservedTokens += j.cost.Tokens + j.cost.Output
	d.f.ReservedOutput += j.reserved
	if prompt > d.f.Max {
		d.f.Max, d.f.MaxLine = prompt, j.rec.Line
	}
	small := func(n int) int32 { return int32(min(n, math.MaxInt32)) }
	d.ops = append(d.ops, light{
		prompt: small(j.tokens.Prompt), chars: small(int(4 * (byCharacters(&j.tokens) - 1))), output: small(j.tokens.MaxOutput),
		priority: j.rec.Priority, noOutput: noOutput(j.rec.API), way: d.wayOf(c),
	})
}

// neverFits says that no target on the job's route can take it: it is larger
// than a whole limit, or than the model's context window.
func (d *dryRun) neverFits(j *job) bool {
	lanes := []int{j.lane}
	for i := 1; j.way.Route != nil && i < len(j.way.Lanes); i++ {
		lanes = append(lanes, d.sched.laneAt(j, i))
	}
	for _, n := range lanes {
		l := d.sched.lanes[n]
		_, _, never := l.limiter.Never(l.chargeOf(j, int64(j.tokens.MaxOutput)))
		if !never && (l.Context == 0 || int64(j.tokens.Prompt+j.tokens.MaxOutput) <= l.Context) {
			return false
		}
	}
	return true
}

// wayOf is the number of an operation's way in light rows.
func (d *dryRun) wayOf(c *counted) uint16 {
	if c.way.route == nil && c.way.lane == 0 {
		return 0
	}
	n := slices.Index(d.ways, c.way)
	if n < 0 {
		n = len(d.ways)
		d.ways = append(d.ways, c.way)
	}
	return uint16(min(n+1, math.MaxUint16))
}
