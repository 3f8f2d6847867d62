package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/result"
)

// counter is shared by all tests: building its tables takes longer than most
// of them.
var counter = estimate.NewCounter()

// desk is one input with its files, on which runs follow each other, and the
// server that they call.
type desk struct {
	*testing.T
	paths  Paths
	server *fake.Server
	client provider.Client

	mu      sync.Mutex
	notices []string
}

// bubble runs a test in virtual time, with a desk of its own.
func bubble(t *testing.T, c fake.Config, test func(d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(newDesk(t, t.TempDir(), c))
	})
}

func newDesk(t *testing.T, dir string, c fake.Config) *desk {
	at := func(name string) string { return filepath.Join(dir, name) }
	d := &desk{T: t, paths: Paths{
		Input: at("x.jsonl"), Output: at("x.results.jsonl"), Errors: at("x.errors.jsonl"),
		Superseded: at("x.superseded.jsonl"), Checkpoint: at("x.llmbatch.db"),
	}}
	d.serve(c)
	return d
}

// serve puts a new server in the place of the one before.
func (d *desk) serve(c fake.Config) {
	d.server = fake.New(c)
	client, err := NewClient(Endpoint{
		Profile: profile(), BaseURL: "http://127.0.0.1/v1",
		Transport: provider.TransportOptions{RoundTripper: &fake.Transport{Server: d.server}},
	})
	if err != nil {
		d.Fatal(err)
	}
	d.client = client
}

func profile() provider.Profile {
	return provider.Profile{Name: "mock", KeyFree: true, AuthHeader: "Authorization", Accounting: "sum"}
}

func (d *desk) input(lines ...string) {
	d.put(d.paths.Input, strings.Join(lines, "\n")+"\n")
}

func (d *desk) put(path, content string) {
	d.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		d.Fatal(err)
	}
}

// text is a file's content; one that is not there is empty.
func (d *desk) text(path string) string {
	d.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		d.Fatal(err)
	}
	return string(raw)
}

// prompts makes n lines with the IDs p0, p1 … and a small cap.
func prompts(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = ask(fmt.Sprintf("p%d", i), fmt.Sprintf("tell me of number %d", i))
	}
	return lines
}

// ask is a plain line with an ID and an output cap of 8 tokens.
func ask(id, prompt string) string {
	q, err := json.Marshal(map[string]any{"custom_id": id, "prompt": prompt, "max_tokens": 8})
	if err != nil {
		panic(err)
	}
	return string(q)
}

// config is that of a run with the defaults of the command.
func (d *desk) config(edit ...func(*Config)) *Config {
	d.Helper()
	f, err := input.Open(context.Background(), d.paths.Input, nil, filepath.Dir(d.paths.Input))
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = f.Close() }) // it was only read
	c := &Config{
		Input: f, Settings: &input.Settings{Model: "small"}, Paths: d.paths,
		Targets: []Target{{Provider: "mock", BaseURL: "http://127.0.0.1/v1", Client: d.client}}, Counter: counter, Grace: time.Minute,
		Notice: func(s string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.notices = append(d.notices, s)
		},
	}
	for _, e := range edit {
		e(c)
	}
	return c
}

// try is a run that may fail.
func (d *desk) try(edit ...func(*Config)) (*Summary, error) {
	d.Helper()
	d.mu.Lock()
	d.notices = nil
	d.mu.Unlock()
	return Run(context.Background(), d.config(edit...))
}

// run is a run that must not fail; its figures must add up.
func (d *desk) run(edit ...func(*Config)) *Summary {
	d.Helper()
	s, err := d.try(edit...)
	if err != nil {
		d.Fatalf("run: %v", err)
	}
	if sum := s.Completed + s.Failed + s.Pending + s.Unknown + s.Skipped; sum != s.Operations || s.Pending < 0 {
		d.Errorf("operations %d, but completed %d + failed %d + pending %d + unknown %d + skipped %d", s.Operations, s.Completed, s.Failed, s.Pending, s.Unknown, s.Skipped)
	}
	return s
}

// told says whether a notice of the last run holds the words.
func (d *desk) told(words string) bool {
	return slices.ContainsFunc(d.notices, func(n string) bool { return strings.Contains(n, words) })
}

func (d *desk) mustTell(words string) {
	d.Helper()
	if !d.told(words) {
		d.Errorf("no notice says %q; got %q", words, d.notices)
	}
}

// lines reads the lines of a file by operation ID. Two for one ID are a
// defect wherever they are.
func (d *desk) lines(path string) map[string]*result.Line {
	d.Helper()
	all := map[string]*result.Line{}
	err := result.Scan(path, result.ScanOptions{}, func(s result.Scanned) error {
		if s.Err != nil {
			return fmt.Errorf("line %d: %w", s.Number, s.Err)
		}
		l, err := result.Decode(slices.Clone(s.Raw))
		if err != nil {
			return err
		}
		if all[l.LLM.Op] != nil {
			d.Errorf("%s: two lines of operation %s", filepath.Base(path), l.LLM.Op)
		}
		all[l.LLM.Op] = l
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		d.Fatalf("%s: %v", path, err)
	}
	return all
}

// whole checks that each of the IDs has exactly one line, in the output.
func (d *desk) whole(ids ...string) map[string]*result.Line {
	d.Helper()
	out, bad := d.lines(d.paths.Output), d.lines(d.paths.Errors)
	for _, id := range ids {
		if out[id] == nil {
			d.Errorf("operation %s has no result", id)
		}
	}
	if len(out) != len(ids) || len(bad) != 0 {
		d.Errorf("got %d results and %d errors, want %d and 0", len(out), len(bad), len(ids))
	}
	return out
}

func ids(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("p%d", i)
	}
	return all
}

// rows reads the checkpoint, by operation ID.
func (d *desk) rows() map[string]checkpoint.Operation {
	d.Helper()
	s, err := checkpoint.OpenReadOnly(d.paths.Checkpoint)
	if err != nil {
		d.Fatal(err)
	}
	defer s.Close()
	all := map[string]checkpoint.Operation{}
	err = s.All(func(op *checkpoint.Operation) error {
		if _, twice := all[op.ID]; twice {
			d.Errorf("two rows of operation %s", op.ID)
		}
		all[op.ID] = *op
		return nil
	})
	if err != nil {
		d.Fatal(err)
	}
	return all
}

// asked is how many calls the server has seen, refused ones included.
func (d *desk) asked() int64 { return d.server.Stats().Asked }

// wantCalls checks how many calls a step of the test made.
func (d *desk) wantCalls(before, want int64) {
	d.Helper()
	if got := d.asked() - before; got != want {
		d.Errorf("got %d calls, want %d", got, want)
	}
}

// remove deletes files; one that is not there is a mistake of the test.
func (d *desk) remove(paths ...string) {
	d.Helper()
	for _, p := range paths {
		if err := os.Remove(p); err != nil {
			d.Fatal(err)
		}
	}
}

func (d *desk) exists(path string) bool {
	_, err := os.Stat(path)
	return !os.IsNotExist(err)
}

// leftovers lists the files beside the input that no run should leave.
func (d *desk) leftovers() (names []string) {
	known := []string{d.paths.Input, d.paths.Output, d.paths.Errors, d.paths.Superseded, d.paths.Checkpoint}
	err := filepath.WalkDir(filepath.Dir(d.paths.Input), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !slices.Contains(known, path) {
			names = append(names, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		d.Fatal(err)
	}
	return names
}
