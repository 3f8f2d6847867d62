// Command faults plays the faults of a catalogue, F01 to F55, against the built
// binary: kills, full disks, damaged files, hostile servers. The binary runs as
// users run it, against `llmbatch mock` or a hostile server in this program;
// after each case one function (invariants.go) looks at files, checkpoint and
// the server's ledger from the outside.
//
//	go run ./testdata/faults [-short] [-only F09,F16]
//
// It prints one table and exits 1 if a row misses what it requires.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
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

// row is one fault of the catalogue. Its play makes one trial of it, or several.
type row struct {
	id, fault, required string
	play                func(*trial)
}

func main() {
	short := flag.Bool("short", false, "fewer kills and smaller inputs; ends within two minutes")
	only := flag.String("only", "", "rows to play, separated by commas, such as F09,F16")
	keep := flag.Bool("keep", false, "keep the folder of the trials")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := play(ctx, *short, *keep, strings.FieldsFunc(*only, func(r rune) bool { return r == ',' }))
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}

// atOnce is how many rows are played at once: most of them wait.
const atOnce = 12

func play(ctx context.Context, short, keep bool, only []string) (bool, error) {
	if os.Geteuid() != 0 {
		return false, errors.New("run it as root: it mounts file systems and takes others' rights")
	}
	for _, tool := range []string{"strace", "prlimit", "setpriv", "unshare", "script"} {
		if _, err := exec.LookPath(tool); err != nil {
			return false, err
		}
	}
	dir, err := os.MkdirTemp("", "llmbatch-faults-")
	if err != nil {
		return false, err
	}
	if keep {
		fmt.Fprintln(os.Stderr, "faults: folder", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	s := &suite{ctx: ctx, binary: filepath.Join(dir, "llmbatch"), dir: dir, short: short, references: map[string]map[string]string{}}
	if err := harness.Build(ctx, s.binary); err != nil {
		return false, err
	}
	// Folders are used by another user as well.
	if err := os.Chmod(dir, 0o755); err != nil {
		return false, err
	}
	all := slices.Concat(crashRows, signalRows, diskRows, lockRows, damageRows, localRows, connectRows, wireRows, refusalRows, answerRows, paceRows, inputRows, screenRows, leakRows)
	for _, id := range only {
		if !slices.ContainsFunc(all, func(r row) bool { return r.id == id }) {
			return false, fmt.Errorf("no row %q", id)
		}
	}
	slots := make(chan struct{}, atOnce)
	var waiting sync.WaitGroup
	for _, r := range all {
		if len(only) > 0 && !slices.Contains(only, r.id) {
			continue
		}
		slots <- struct{}{}
		waiting.Go(func() {
			defer func() { <-slots }()
			s.measure(r)
		})
	}
	waiting.Wait()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return s.print(), nil
}

// verdict is what one row came to.
type verdict struct {
	row
	observed      string
	tried, missed int
	took          time.Duration
}

// measure plays a row and notes what came of it.
func (s *suite) measure(r row) {
	if s.ctx.Err() != nil {
		return
	}
	started := time.Now()
	top := &trial{suite: s, name: r.id, top: true}
	top.guard(r.play)
	v := verdict{row: r, tried: top.tried, missed: top.missed, took: time.Since(started), observed: strings.Join(top.observed, "; ")}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdicts = append(s.verdicts, v)
	fmt.Fprintf(os.Stderr, "%s: %d of %d, %.1f s\n", r.id, v.tried-v.missed, v.tried, v.took.Seconds())
}

// print writes the table and the totals, and says whether nothing was missed.
func (s *suite) print() bool {
	slices.SortStableFunc(s.verdicts, func(a, b verdict) int { return strings.Compare(a.id, b.id) })
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\tfault\trequired\tobserved\t")
	tried, missed := 0, 0
	for _, v := range s.verdicts {
		word := "pass"
		if v.missed > 0 || v.tried == 0 {
			word = "FAIL"
		}
		tried, missed = tried+v.tried, missed+v.missed
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", v.id, v.fault, v.required, v.observed, word)
	}
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		return false
	}
	fmt.Printf("faults survived %d of %d; kills %d; operations lost %d; billed twice beyond the unavoidable %d; descriptors leaked %d; goroutines leaked %d\n",
		tried-missed, tried, s.kills, s.lost, s.twice, s.leakedFiles, s.leakedGoroutines)
	return missed == 0 && tried > 0 && s.lost+s.twice+s.leakedFiles+s.leakedGoroutines == 0
}
