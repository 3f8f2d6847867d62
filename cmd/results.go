package cmd

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/result"
)

// resultsOptions are the flags of results.
type resultsOptions struct {
	files  fileOptions
	job    jobOptions
	format string
	failed bool
}

func newResults(env Env) *cobra.Command {
	o := &resultsOptions{}
	c := &cobra.Command{
		Use:   "results INPUT",
		Short: "Print the results of INPUT in the order of its lines",
		Long: `Results prints what has finished, in the order of the input's lines: whole
lines (openai) or the answers' text alone (text; line breaks in an answer are
kept as \n, so that each answer is one line). It works while a run goes on. A
line without a result yet is left out and counted on stderr.`,
		Example: "  llmbatch results prompts.jsonl > sorted.jsonl\n  llmbatch results prompts.jsonl --format text\n  llmbatch results prompts.jsonl --failed",
		Args:    oneInput(),
		RunE:    func(c *cobra.Command, args []string) error { return printResults(c, env, o, args[0]) },
	}
	fl := c.Flags()
	o.files.readFlags(fl)
	fl.StringVar(&o.format, "format", "openai", "`openai|text`")
	fl.BoolVar(&o.failed, "failed", false, "only the failures")
	fl.StringVar(&o.job.idField, "id-field", "", "as given to run")
	fl.StringVar(&o.job.promptField, "prompt-field", "", "as given to run")
	fl.StringVar(&o.job.template, "template", "", "as given to run")
	fl.IntVar(&o.job.maxLineBytes, "max-line-bytes", 64<<20, "as given to run")
	return c
}

// place is where an entry's line lies; length 0 = it has none.
type place struct {
	span  result.Span
	dead  bool
	stale bool // the input's line has other bytes than the one that was answered
}

func printResults(c *cobra.Command, env Env, o *resultsOptions, arg string) error {
	if o.format != "openai" && o.format != "text" {
		return usagef("", "--format %q: want openai or text", o.format)
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
	missing, err := o.print(env.Stdout, env.StdoutIsTTY(), paths, places)
	if err != nil {
		return err
	}
	if stale > 0 {
		fmt.Fprintf(env.Stderr, "llmbatch: left out %s whose line has been edited since\n", count(stale, "result"))
		missing -= stale
	}
	if removed > 0 {
		fmt.Fprintf(env.Stderr, "llmbatch: left out %s whose line is no longer in the input\n", count(removed, "result"))
	}
	if missing > 0 && !o.failed {
		fmt.Fprintf(env.Stderr, "llmbatch: %s without a result yet\n", count(missing, "operation"))
	}
	return nil
}

// findPlaces notes where the line of each entry lies. Of several lines of one
// operation, which only a run under way has, the last counts.
func findPlaces(index *input.Index, paths runner.Paths) (places []place, removed int, err error) {
	places = make([]place, index.Len())
	found := false
	for _, from := range []struct {
		path string
		dead bool
	}{{paths.Errors, true}, {paths.Output, false}} {
		err := result.Scan(from.path, result.ScanOptions{}, func(s result.Scanned) error {
			found = true
			if s.Err != nil {
				return nil
			}
			i, ok := index.Find(s.Line.LLM.Op)
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
	err = store.All(func(op *checkpoint.Operation) error {
		i, ok := index.Find(op.ID)
		if ok && places[i].stale && op.Offset == places[i].span.Offset && (op.Status == checkpoint.Completed || op.Status == checkpoint.DeadLetter) {
			current[i] = true
		}
		return nil
	})
	return current, err
}

// print writes the lines in the order of the input. On a terminal what would
// drive it is written as escapes, which in JSON mean the same.
func (o *resultsOptions) print(w io.Writer, terminal bool, paths runner.Paths, places []place) (missing int, err error) {
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
	out := bufio.NewWriterSize(w, 256<<10)
	var buf []byte
	for _, p := range places {
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
		line := buf
		if o.format == "text" {
			if line, err = textOf(buf); err != nil {
				return missing, err
			}
		}
		if terminal {
			line = []byte(clean(string(line)))
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return missing, err
		}
	}
	return missing, out.Flush()
}

// textOf takes the answer's text out of a line, on one line; of a failure its
// message.
func textOf(raw []byte) ([]byte, error) {
	l, err := result.Decode(raw)
	if err != nil {
		return nil, err
	}
	text := ""
	switch {
	case l.Error != nil:
		text = "error: " + l.Error.Code + ": " + l.Error.Message
	case l.Response != nil:
		text = answerText(l.Response.Body)
	}
	return []byte(strings.NewReplacer("\\", `\\`, "\n", `\n`, "\r", `\r`).Replace(text)), nil
}

// answerText finds the text in an answer of any of the APIs; an answer
// without one (an embedding) is given as its JSON.
func answerText(body json.RawMessage) string {
	var a struct {
		Choices []struct {
			Text    string
			Message struct{ Content, Refusal *string }
		}
		Output []struct {
			Content []struct{ Text, Refusal string }
		}
	}
	if json.Unmarshal(body, &a) != nil {
		return string(body)
	}
	var text []string
	for _, c := range a.Choices {
		switch {
		case c.Message.Content != nil:
			text = append(text, *c.Message.Content)
		case c.Message.Refusal != nil:
			text = append(text, *c.Message.Refusal)
		case c.Text != "":
			text = append(text, c.Text)
		}
	}
	for _, o := range a.Output {
		for _, c := range o.Content {
			text = append(text, c.Text+c.Refusal)
		}
	}
	if text == nil {
		return string(body)
	}
	return strings.Join(text, "\n")
}
