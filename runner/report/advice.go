package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/limit"
)

// Advice is what would have made the calls go through sooner, as reckoned by the
// scheduler in virtual time.
type Advice struct {
	Change  string  `json:"change"`
	Seconds float64 `json:"seconds"`         // that the same calls would take
	Instead float64 `json:"instead_seconds"` // of what they take as it was set, reckoned alike
	Gain    float64 `json:"gain"`            // Instead by Seconds
	Note    string  `json:"note,omitempty"`
}

// How changes of limits begin.
const (
	higher = "a limit of "
	twice  = "twice each limit"
)

// What is worth telling: a gain of a twentieth, and of a second.
const (
	leastGain  = 1.05
	leastSaved = time.Second
)

// batch is the calls of one limit group, as they were measured.
type batch struct {
	runner.Replay
	group string
	took  time.Duration
	p99   int64 // of outputs
}

// advise drives the measured calls of the slowest limit group through the
// scheduler under other settings.
func (d *Data) advise() {
	d.Advice = []Advice{}
	var slowest batch
	for _, group := range d.groups() {
		if b := d.measured(group); b.Calls > 1 {
			if b.took = b.Makespan(); b.took > slowest.took {
				slowest = b
			}
		}
	}
	if slowest.took == 0 {
		return
	}
	b := &slowest
	base := seconds(b.took)
	if lost := d.Seconds - base; total(d.Attempts) > 0 && lost > 5 && d.Seconds > 1.2*base {
		d.Advice = append(d.Advice, Advice{
			Change: "neither refusals nor failures", Seconds: base, Instead: d.Seconds, Gain: d.Seconds / max(base, 0.1),
			Note: "what failed and what was refused is told below; the rest of the time went into it, the waits after it, and calls to other models",
		})
	}
	// Of a run that lost most of its time elsewhere, limits tell nothing.
	for _, try := range b.changes() {
		took := try.Makespan()
		if took == 0 || 2*base < d.Seconds || b.took-took < leastSaved || float64(b.took)/float64(took) < leastGain {
			continue
		}
		d.Advice = append(d.Advice, Advice{Change: try.change, Note: try.note, Seconds: seconds(took), Instead: base, Gain: float64(b.took) / float64(took)})
	}
	slices.SortStableFunc(d.Advice, func(a, b Advice) int { return cmp.Compare(a.Seconds, b.Seconds) })
	d.Advice = slices.DeleteFunc(d.Advice, d.pointless)
	d.Basis = fmt.Sprintf("the %s answered calls of %s, with %s prompt tokens, %s, and %s a call, driven through the scheduler in virtual time under the limits as they were last: %s. Nothing fails there.",
		grouped(b.Calls), b.group, grouped(b.Prompt), b.outputs(), milliseconds(b.Latency.Milliseconds()), span(seconds(b.took)))
	d.calls = runner.Count(b.Calls, "call") + " of " + b.group
}

// pointless says of twice each limit that twice one of them does as well.
func (d *Data) pointless(a Advice) bool {
	return strings.HasPrefix(a.Change, twice) && slices.ContainsFunc(d.Advice, func(o Advice) bool {
		return o.Change != a.Change && (strings.HasPrefix(o.Change, higher) || strings.HasPrefix(o.Change, "a concurrency ")) && o.Seconds < a.Seconds*leastGain
	})
}

func (b *batch) outputs() string {
	if b.Cap == 0 {
		return "learned reservations"
	}
	return grouped(b.Cap) + " reserved for the output"
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// groups lists the limit groups that calls went to.
func (d *Data) groups() (all []string) {
	for _, t := range d.Targets {
		if !slices.Contains(all, t.Group) {
			all = append(all, t.Group)
		}
	}
	return all
}

// measured is what a limit group's calls were.
func (d *Data) measured(group string) (b batch) {
	b.group, b.p99 = group, d.Output.P99
	var calls, reserved, reservedOut, used, output, latency int64
	for _, t := range d.Targets {
		if t.Group == group {
			b.Calls += t.Answered
			calls, reserved, reservedOut = calls+t.Calls, reserved+t.Reserved, reservedOut+t.ReservedOutput
			used, output, latency = used+t.Used, output+t.Output, latency+t.Target.Latency
		}
	}
	if b.Calls == 0 || calls == 0 {
		return b
	}
	// What is not given is taken for none, but a limit that was learned is known.
	none := limit.Cap{Set: true}
	b.Limits = limit.Limits{RPM: none, TPM: none, ITPM: none, OTPM: none, RPD: none, TPD: none, Concurrency: int(d.ceiling(group))}
	for _, l := range d.Limits {
		if c := capOf(&b.Limits, l.Name); c != nil && l.Group == group && l.N > 0 {
			c.N = l.N
			b.Accounting, _ = limit.ParseAccounting(l.Accounting)
		}
	}
	b.Latency = time.Duration(latency/b.Calls) * time.Millisecond
	b.Prompt, b.Output = (used-output)/b.Calls, d.Output.P99
	switch b.Accounting {
	case limit.Sum:
		b.Prompt = (reserved - reservedOut) / calls
	case limit.Split:
		b.Prompt, b.Output = (reserved-reservedOut)/calls, output/b.Calls
	default: // the charge does not tell the two apart
	}
	b.Learned = d.sum.Learned
	if d.sum.Uncapped*2 < calls {
		b.Cap = reservedOut / calls
		if d.sum.Learned {
			b.Cap = max(b.Cap, d.sum.Caps.Quantile(1))
		}
	}
	return b
}

// ceiling is how many calls at once the user allowed a group; 0 = no number was given.
func (d *Data) ceiling(group string) int64 {
	for name, n := range d.sum.Concur {
		if clean(name, maxName) == group {
			return n
		}
	}
	return 0
}

func capOf(l *limit.Limits, name string) *limit.Cap {
	switch name {
	case "rpm":
		return &l.RPM
	case "tpm":
		return &l.TPM
	case "itpm":
		return &l.ITPM
	case "otpm":
		return &l.OTPM
	case "rpd":
		return &l.RPD
	case "tpd":
		return &l.TPD
	default:
		return nil
	}
}

// change is one setting other than it was.
type change struct {
	runner.Replay
	change, note string
}

// changes lists what could be set otherwise.
func (b *batch) changes() (all []change) {
	try := func(words, note string, edit func(*runner.Replay)) {
		c := change{Replay: b.Replay, change: words, note: note}
		edit(&c.Replay)
		all = append(all, c)
	}
	doubled, names := []string{}, []string{"rpm", "tpm", "itpm", "otpm", "rpd", "tpd"}
	for _, name := range names {
		if n := capOf(&b.Limits, name).N; n > 0 {
			try(fmt.Sprintf(higher+"%s %s instead of %s", grouped(2*n), unitOf(name), grouped(n)), "if the account's limit can be raised", func(r *runner.Replay) { capOf(&r.Limits, name).N *= 2 })
			doubled = append(doubled, fmt.Sprintf("%s %s", grouped(2*n), unitOf(name)))
		}
	}
	if n := b.Limits.Concurrency; n > 0 {
		try(fmt.Sprintf("a concurrency of %d instead of %d", 2*n, n), "if the provider answers as fast with twice the calls at once", func(r *runner.Replay) { r.Limits.Concurrency *= 2 })
		doubled = append(doubled, fmt.Sprintf("concurrency %d", 2*n))
	}
	if len(doubled) > 1 {
		try(twice+" ("+strings.Join(doubled, ", ")+")", "one limit alone leaves the others in force", func(r *runner.Replay) {
			r.Limits.Concurrency *= 2
			for _, name := range names {
				capOf(&r.Limits, name).N *= 2
			}
		})
	}
	if b.Cap == 0 || b.Accounting == limit.Input || b.Accounting == limit.None {
		return all
	}
	if !b.Learned && b.Accounting != limit.Split {
		try("--reserve learned", fmt.Sprintf("calls reserve %s output tokens each, and 99 of 100 answers have at most %s; the requests stay as they are", grouped(b.Cap), grouped(b.p99)),
			func(r *runner.Replay) { r.Learned = true })
	}
	if lower := roundUp(b.p99 + b.p99/4); b.p99 > 0 && lower*10 < b.Cap*7 {
		try(fmt.Sprintf("max_tokens %s instead of %s", grouped(lower), grouped(b.Cap)), fmt.Sprintf("99 of 100 answers have at most %s output tokens; a longer one would be cut off", grouped(b.p99)),
			func(r *runner.Replay) { r.Cap = lower })
	}
	return all
}

// roundUp gives a round number not below n.
func roundUp(n int64) int64 {
	step := int64(10)
	for n > 20*step {
		step *= 10
	}
	return (n + step - 1) / step * step
}
