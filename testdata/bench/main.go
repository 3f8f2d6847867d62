// Command bench measures llmbatch against its limits and its peers: each figure
// stands beside the goal that it is judged by, and beside what was measured of
// the limit or the peer in the same run, by turns. It is a module of its own, so
// that the peers do not stand in llmbatch's go.mod.
//
//	go run -C testdata/bench . [-short] [-rounds 5] [-lines 100000] [-only ratios,paced]
//
// Ratios hold on a busy machine. The absolute figures need one that does nothing
// else; what was measured on such a one is in docs/PERFORMANCE.md. It exits 1 if
// a figure misses its goal.
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
	"syscall"
	"text/tabwriter"
)

// group is a set of figures that share a name for -only.
type group struct {
	name, doc string
	byName    bool // runs only when -only names it
	run       func(context.Context, *bench) error
}

var groups = []group{
	{"ratios", "a whole run against the same without records, and against the peers", false, wholeRun},
	{"parts", "pre-flight, counting, start and size", false, parts},
	{"paced", "pace, wake-up lag and processor time at 100 and 1,000 calls a second", true, paced},
	{"flight", "memory with 10,000 calls in flight", true, inFlight},
	{"growth", "the same figures from 10,000 lines to -most, with the exponent", true, growth},
}

// bench is what the groups share: binaries, a folder, the table.
type bench struct {
	root, dir        string // of llmbatch's sources; of this run's files
	product          string // llmbatch
	without, nothing string // llmbatch built to keep no records; built to keep no results either
	self             string // this program
	short            bool
	rounds, lines    int
	most             int
	figures          []figure
}

// figure is one row of the table.
type figure struct {
	name, measured, beside, goal string
	ok                           bool
}

func main() {
	if len(os.Args) > 1 {
		if child := children[os.Args[1]]; child != nil {
			if err := child(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, os.Args[1]+":", err)
				os.Exit(1)
			}
			return
		}
	}
	b := &bench{}
	flag.BoolVar(&b.short, "short", false, "a small form that ends within a minute and judges by loose bounds")
	flag.IntVar(&b.rounds, "rounds", 5, "how often each program runs: medians are shown")
	flag.IntVar(&b.lines, "lines", 100_000, "operations of a whole run")
	flag.IntVar(&b.most, "most", 1_000_000, "lines of the largest file of growth")
	only := flag.String("only", "", "groups to run, separated by commas: ratios parts paced flight growth")
	flag.Parse()
	if b.short {
		b.rounds, b.lines, b.most = 1, 10_000, 20_000
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := b.measure(ctx, strings.FieldsFunc(*only, func(r rune) bool { return r == ',' }))
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}

func (b *bench) measure(ctx context.Context, only []string) (ok bool, err error) {
	if b.dir, err = os.MkdirTemp("", "llmbatch-bench-"); err != nil {
		return false, err
	}
	defer os.RemoveAll(b.dir)
	if b.self, err = os.Executable(); err != nil {
		return false, err
	}
	b.product, b.without, b.nothing = filepath.Join(b.dir, "llmbatch"), filepath.Join(b.dir, "llmbatch-norecords"), filepath.Join(b.dir, "llmbatch-nofiles")
	if err := b.build(ctx); err != nil {
		return false, err
	}
	for _, name := range only {
		if !slices.ContainsFunc(groups, func(g group) bool { return g.name == name }) {
			return false, fmt.Errorf("no group %q", name)
		}
	}
	for _, g := range groups {
		if len(only) == 0 && g.byName || len(only) > 0 && !slices.Contains(only, g.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", g.name, g.doc)
		if err := g.run(ctx, b); err != nil {
			return false, fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return b.print(), nil
}

// add records a figure; goal "" = it is only shown.
func (b *bench) add(name, measured, beside, goal string, ok bool) {
	b.figures = append(b.figures, figure{name, measured, beside, goal, ok || goal == ""})
}

// atLeast and atMost record a figure with a bound; loose is the bound of the
// short form, whose runs are small and whose machine is busy.
func (b *bench) atLeast(name string, got, goal, loose float64, unit, beside string) {
	if b.short {
		goal = loose
	}
	b.add(name, number(got)+unit, beside, ">= "+number(goal)+unit, got >= goal)
}

func (b *bench) atMost(name string, got, goal, loose float64, unit, beside string) {
	if b.short {
		goal = loose
	}
	b.add(name, number(got)+unit, beside, "<= "+number(goal)+unit, got <= goal)
}

func number(x float64) string {
	switch {
	case x >= 1000:
		return fmt.Sprintf("%.0f", x)
	case x >= 20:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.3g", x)
	}
}

// print writes the table and says whether every figure met its goal.
func (b *bench) print() bool {
	missed := 0
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tmeasured\tbeside\tgoal\t")
	for _, f := range b.figures {
		verdict := "pass"
		switch {
		case f.goal == "":
			verdict = ""
		case !f.ok:
			verdict = "MISS"
			missed++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.name, f.measured, f.beside, f.goal, verdict)
	}
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return false
	}
	fmt.Printf("load average %.1f; %d figures, %d missed\n", load(), len(b.figures), missed)
	return missed == 0
}
