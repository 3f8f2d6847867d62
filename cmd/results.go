package cmd

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/result"
)

// resultsOptions are the flags of results.
type resultsOptions struct {
	files    fileOptions
	job      jobOptions
	format   string
	fields   string
	order    string
	failed   bool
	attempts bool

	columns []column // of csv and jsonl
}

func newResults(env Env) *cobra.Command {
	o := &resultsOptions{}
	c := &cobra.Command{
		Use:   "results INPUT",
		Short: "Print the results of INPUT in the order of its lines",
		Long: `Results prints what has finished, in the order of the input's lines: whole
lines (openai), the answers' text alone (text; line breaks in an answer are kept
as \n, so that each answer is one line), or the fields that --fields names, as a
table with a header (csv) or as one flat object a line (jsonl). It works while a
run goes on. A line without a result yet is left out and counted on stderr.

Fields: ` + fieldHelp() + `

With --attempts, csv and jsonl get a further field, attempt_list, and openai one
in its llmbatch object: each call with provider, model, time, status and class,
as far as the checkpoint keeps them. No run can start while they are printed.`,
		Example: `  llmbatch results prompts.jsonl > sorted.jsonl
  llmbatch results prompts.jsonl --format text
  llmbatch results prompts.jsonl --format csv --fields custom_id,text,metadata.topic > answers.csv
  llmbatch results prompts.jsonl --failed --format jsonl --attempts`,
		Args: oneInput(),
		RunE: func(c *cobra.Command, args []string) error { return printResults(c, env, o, args[0]) },
	}
	fl := c.Flags()
	o.files.readFlags(fl)
	fl.StringVar(&o.format, "format", "openai", "`openai|text|csv|jsonl`")
	fl.StringVar(&o.fields, "fields", "", "comma-separated `names` of the fields of csv and jsonl (default "+defaultFields+")")
	fl.StringVar(&o.order, "order", "input", "`input|completion`: of the input's lines, or as the files have them, answers first")
	fl.BoolVar(&o.failed, "failed", false, "only the failures")
	fl.BoolVar(&o.attempts, "attempts", false, "add the calls that were made for each operation")
	fl.StringVar(&o.job.idField, "id-field", "", "as given to run")
	fl.StringVar(&o.job.promptField, "prompt-field", "", "as given to run")
	fl.StringVar(&o.job.template, "template", "", "as given to run")
	fl.IntVar(&o.job.maxLineBytes, "max-line-bytes", 64<<20, "as given to run")
	completeList(c, "fields", func() []string {
		return append(fieldNames()[:len(columns())], metadataPrefix)
	})
	return c
}

// place is where an entry's line lies; length 0 = it has none.
type place struct {
	span  result.Span
	dead  bool
	stale bool // the input's line has other bytes than the one that was answered
}

func printResults(c *cobra.Command, env Env, o *resultsOptions, arg string) error {
	if err := o.check(); err != nil {
		return err
	}
	file, paths, err := openInput(c.Context(), env, &o.files, arg, "")
	if err != nil {
		return err
	}
	defer func() {
		file.Close()
		_ = file.RemoveSpool() // results needs it no longer; a run would make it again
	}()
	cfg := runner.Config{Settings: &input.Settings{}}
	if err := o.job.apply(&cfg); err != nil {
		return err
	}
	cfg.Settings.Model, cfg.Settings.Anthropic = "any", true // results asks for no model: lines without one had it from a flag
	index, _, err := input.Preflight(c.Context(), file, cfg.Settings)
	if err != nil {
		return err
	}
	places, removed, err := findPlaces(index, paths)
	if err != nil {
		return err
	}
	stale, err := dropStale(file, index, paths, places)
	if err != nil {
		return err
	}
	log, err := o.openLog(env, index, paths.Checkpoint)
	if err != nil {
		return err
	}
	defer log.close()
	missing, err := o.print(env.Stdout, env.StdoutIsTTY(), paths, places, log)
	if err != nil {
		return err
	}
	if stale > 0 {
		env.say("left out %s whose line has been edited since", count(stale, "result"))
		missing -= stale
	}
	if removed > 0 {
		env.say("left out %s whose line is no longer in the input", count(removed, "result"))
	}
	if missing > 0 && !o.failed {
		env.say("%s without a result yet", count(missing, "operation"))
	}
	return nil
}

// fieldHelp lists the fields in lines that fit a terminal.
func fieldHelp() string {
	text, width := "", len("Fields: ")
	for _, name := range fieldNames() {
		if width += len(name) + 2; width > 78 {
			text, width = strings.TrimSuffix(text, " ")+"\n", len(name)+2
		}
		text += name + ", "
	}
	return strings.TrimSuffix(text, ", ")
}

// check finds what is wrong with the flags before anything is read.
func (o *resultsOptions) check() (err error) {
	table := o.format == "csv" || o.format == "jsonl"
	switch {
	case !table && o.format != "openai" && o.format != "text":
		return usagef("", "--format %q: want openai, text, csv or jsonl", o.format)
	case o.order != "input" && o.order != "completion":
		return usagef("", "--order %q: want input or completion", o.order)
	case o.fields != "" && !table:
		return usagef("add --format csv or --format jsonl", "--fields does not apply to --format %s", o.format)
	case o.attempts && o.format == "text":
		return usagef("", "--attempts does not apply to --format text")
	case !table:
		return nil
	}
	if o.fields == "" {
		o.fields = defaultFields
	}
	if o.columns, err = parseFields(o.fields); err == nil && o.attempts {
		o.columns = append(o.columns, column{attemptList, func(r *row) any { return r.attempts }})
	}
	return err
}

// findPlaces notes where the line of each entry lies. Of several lines of one
// operation, which only a run under way has, the last counts.
func findPlaces(index *input.Index, paths runner.Paths) (places []place, removed int, err error) {
	places = make([]place, index.Len())
	found := false
	near := index.Cursor()
	for _, from := range []struct {
		path string
		dead bool
	}{{paths.Errors, true}, {paths.Output, false}} {
		err := result.Scan(from.path, result.ScanOptions{}, func(s result.Scanned) error {
			found = true
			if s.Err != nil {
				return nil
			}
			i, ok := near.Find(s.Line.LLM.Op)
			if !ok {
				removed++
				return nil
			}
			places[i] = place{s.Span, from.dead, s.Line.LLM.Sum != fmt.Sprintf("%016x", index.Entry(i).Sum)}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, fmt.Errorf("read %s: %w", from.path, err)
		}
	}
	if !found {
		return nil, 0, usagef("run it first, or name its --output", "no results in %s or %s", paths.Output, paths.Errors)
	}
	return places, removed, nil
}

// dropStale leaves out the results of lines that were edited and have not been
// answered again. Where only the spelling of a line changed, a run of just this
// input has found its request the same, and its row still points to the result.
func dropStale(file *input.File, index *input.Index, paths runner.Paths, places []place) (dropped int, err error) {
	suspects := 0
	for _, p := range places {
		if p.stale {
			suspects++
		}
	}
	if suspects == 0 {
		return 0, nil
	}
	current, err := confirmed(file, index, paths.Checkpoint, places)
	if err != nil {
		return 0, fmt.Errorf("checkpoint %s: %w", paths.Checkpoint, err)
	}
	for i := range places {
		if places[i].stale && !current[i] {
			places[i] = place{}
			dropped++
		}
	}
	return dropped, nil
}

// confirmed finds the stale places that the checkpoint says are results of
// just this input; none if it speaks of another, or a run holds it.
func confirmed(file *input.File, index *input.Index, path string, places []place) (map[int]bool, error) {
	store, err := checkpoint.OpenReadOnly(path)
	if errors.Is(err, checkpoint.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer store.Close()
	meta, err := store.Meta()
	if sha := file.SHA(); err != nil || meta.InputSHA != hex.EncodeToString(sha[:]) {
		return nil, err
	}
	current := map[int]bool{}
	near := index.Cursor()
	err = store.All(func(op *checkpoint.Operation) error {
		i, ok := near.Find(op.ID)
		if ok && places[i].stale && op.Offset == places[i].span.Offset && (op.Status == checkpoint.Completed || op.Status == checkpoint.DeadLetter) {
			current[i] = true
		}
		return nil
	})
	return current, err
}

// print writes the lines in the order that was asked for.
func (o *resultsOptions) print(w io.Writer, terminal bool, paths runner.Paths, places []place, log *attemptLog) (missing int, err error) {
	readers := map[bool]*result.Reader{}
	for dead, path := range map[bool]string{true: paths.Errors, false: paths.Output} {
		r, err := result.OpenReader(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		defer r.Close()
		readers[dead] = r
	}
	out, err := newRowWriter(w, terminal, o.format, o.columns)
	if err != nil {
		return 0, err
	}
	var buf []byte
	for i := range o.sorted(places) {
		p := places[i]
		if p.span.Length == 0 {
			missing++
			continue
		}
		if o.failed && !p.dead {
			continue
		}
		if buf, err = readers[p.dead].Raw(p.span, buf); err != nil {
			return missing, err
		}
		attempts, err := log.of(i, p)
		if err == nil {
			err = out.write(buf, attempts)
		}
		if err != nil {
			return missing, err
		}
	}
	return missing, out.flush()
}

// sorted gives the places in the order of the input, or in that in which the
// lines lie in their files: answers as they came, then failures.
func (o *resultsOptions) sorted(places []place) iter.Seq[int] {
	return func(yield func(int) bool) {
		if o.order != "completion" {
			for i := range places {
				if !yield(i) {
					return
				}
			}
			return
		}
		order := make([]uint32, len(places))
		for i := range order {
			order[i] = uint32(i)
		}
		slices.SortFunc(order, func(a, b uint32) int {
			p, q := places[a], places[b]
			if p.dead != q.dead {
				if q.dead {
					return -1
				}
				return 1
			}
			return cmp.Compare(p.span.Offset, q.span.Offset)
		})
		for _, i := range order {
			if !yield(int(i)) {
				return
			}
		}
	}
}
