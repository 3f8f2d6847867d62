// Command figures measures what llmbatch promises. It builds the binary, runs
// it against `llmbatch mock` in a process of its own, looks at both from the
// outside (files, exit statuses, the mock's ledger), and prints one table.
//
//	go run ./testdata/figures [-short] [-only pace,crash] [-soak 30m]
//
// Ratios count, not seconds: each figure stands beside its limit. It exits 1 if
// a figure misses its target.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// figure is one row of the table.
type figure struct {
	point, name      string
	target, measured string
	ok               bool
}

// group is a set of cases that share a name for -only.
type group struct {
	name, doc string
	waits     bool // waits most of its time: such groups run side by side, first
	byName    bool // runs only when -only names it
	run       func(context.Context, *bench)
}

var groups = []group{
	{"pace", "point 1: makespan, refusals and rolling minute against strict servers", true, false, pace},
	{"openrouter", "point 2: a free tier of 20 a minute whose bucket holds 30", true, false, openRouter},
	{"backlog", "point 3: 38,000 tickets at 6,000 a minute", true, false, backlog},
	{"forecast", "ten batches: what estimate says against what run takes", true, false, forecast},
	{"eta", "what run says of its own end while it goes on, and after a kill with nine tenths done", true, false, eta},
	{"restart", "point 4: killed after 10 s and started again at once", true, false, restart},
	{"kills", "point 4: 50 rounds of kill -9 and of Ctrl-C", false, false, kills},
	{"finished", "point 5: run again, edited, other model, limited, damaged", false, false, finished},
	{"input", "point 6: bad input of each kind", false, false, badInput},
	{"stops", "point 7: key, quota, model, server, disk", false, false, stops},
	{"million", "point 8: 1,000,000 lines: first call and memory", false, false, million},
	{"routes", "fallbacks between providers: spill, failover, outage, spent and daily limits, split budgets", true, false, routes},
	{"pressure", "deadlines that leave no time for whole answers: smaller model, shorter, fixed, held", true, false, pressure},
	{"hostile", "answers and inputs that mean harm: what they cost in memory and lines", false, false, hostile},
	{"load", "10,000 calls in flight for ten minutes: memory, descriptors, answers", false, true, heavy},
	{"toxiproxy", "every fault of toxiproxy between a run and the mock", true, true, toxiproxy},
	{"nginx", "600 a minute behind nginx's limiter", true, true, limited},
	{"count", "speed of the dry run: tokens against tiktoken-go, a gigabyte", false, true, counting},
	{"crash", "kill at every sync, write and rename in turn (strace)", false, true, crash},
	{"soak", "faults and random kills for as long as -soak says", false, true, soak},
}

// crowd is what the short form, which decides whether a change goes in, adds to
// targets of time: its machine has two cores, other work, and all the groups
// that wait at once.
const crowd = 0.05

// bench is what cases share: the binary, a folder, and the table.
type bench struct {
	binary, dir string
	short       bool
	soak        time.Duration

	mu      sync.Mutex
	figures []figure
}

func main() {
	short := flag.Bool("short", false, "smaller forms that end within minutes; leaves out the long ones")
	only := flag.String("only", "", "groups to run, separated by commas; "+names())
	soakFor := flag.Duration("soak", 30*time.Minute, "how long the soak lasts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := measure(ctx, *short, *only, *soakFor)
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}

func names() string {
	var all []string
	for _, g := range groups {
		all = append(all, g.name)
	}
	return strings.Join(all, " ")
}

func measure(ctx context.Context, short bool, only string, soakFor time.Duration) (bool, error) {
	dir, err := os.MkdirTemp("", "llmbatch-figures-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	b := &bench{binary: filepath.Join(dir, "llmbatch"), dir: dir, short: short, soak: soakFor}
	if err := harness.Build(ctx, b.binary); err != nil {
		return false, err
	}
	chosen := strings.FieldsFunc(only, func(r rune) bool { return r == ',' })
	for _, name := range chosen {
		if !slices.ContainsFunc(groups, func(g group) bool { return g.name == name }) {
			return false, fmt.Errorf("no group %q; there are: %s", name, names())
		}
	}
	var waiting sync.WaitGroup
	for _, g := range groups {
		if g.waits && g.chosen(chosen) {
			waiting.Go(func() { g.measure(ctx, b) })
		}
	}
	waiting.Wait()
	for _, g := range groups {
		if !g.waits && g.chosen(chosen) && ctx.Err() == nil {
			g.measure(ctx, b)
		}
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return b.print(), nil
}

// chosen says whether a group runs, given the names of -only.
func (g group) chosen(only []string) bool {
	return len(only) == 0 && !g.byName || slices.Contains(only, g.name)
}

func (g group) measure(ctx context.Context, b *bench) {
	started := time.Now()
	fmt.Fprintf(os.Stderr, "%s: %s\n", g.name, g.doc)
	g.run(ctx, b)
	fmt.Fprintf(os.Stderr, "%s: took %.0f s\n", g.name, time.Since(started).Seconds())
}

// print writes the table and says whether every figure met its target.
func (b *bench) print() bool {
	slices.SortStableFunc(b.figures, func(x, y figure) int {
		if c := strings.Compare(x.point, y.point); c != 0 {
			return c
		}
		return strings.Compare(x.name, y.name)
	})
	failed := 0
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "point\tcase\ttarget\tmeasured\t")
	for _, f := range b.figures {
		verdict := "pass"
		if !f.ok {
			verdict = "FAIL"
			failed++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.point, f.name, f.target, f.measured, verdict)
	}
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		return false
	}
	fmt.Printf("%d of %d figures met their targets\n", len(b.figures)-failed, len(b.figures))
	return failed == 0 && len(b.figures) > 0
}

// add records a figure; safe for concurrent use.
func (b *bench) add(point, name, target string, ok bool, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := figure{point: point, name: name, target: target, measured: fmt.Sprintf(format, args...), ok: ok}
	b.figures = append(b.figures, f)
	if !ok {
		fmt.Fprintf(os.Stderr, "  FAIL %s: want %s, got %s\n", f.name, f.target, f.measured)
	}
}

// atMost records a ratio, count or time with an upper bound.
func (b *bench) atMost(point, name string, got, limit float64, unit string) {
	b.add(point, name, fmt.Sprintf("<= %s%s", number(limit), unit), got <= limit, "%s%s", number(got), unit)
}

// equal records a figure that must be exact.
func (b *bench) equal(point, name string, got, want any) {
	b.add(point, name, fmt.Sprint(want), fmt.Sprint(got) == fmt.Sprint(want), "%v", got)
}

// fail records a case that could not be measured.
func (b *bench) fail(point, name string, err error) {
	b.add(point, name, "measured", false, "%s", strings.ReplaceAll(err.Error(), "\n", " / "))
}

// try measures a case, and records if it could not be.
func (b *bench) try(point, name string, measure func() error) {
	if err := measure(); err != nil {
		b.fail(point, name, err)
	}
}

func number(x float64) string {
	if x == float64(int64(x)) {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3f", x)
}
