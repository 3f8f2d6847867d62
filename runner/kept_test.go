package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/route"
)

// caching shares one folder of answers among the runs of a desk.
func (d *desk) caching() func(*Config) {
	return func(c *Config) { c.Cache = filepath.Join(filepath.Dir(d.paths.Input), "cache") }
}

// anew forgets the runs so far, but for the folder of answers.
func (d *desk) anew() {
	d.Helper()
	for _, p := range []string{d.paths.Output, d.paths.Errors, d.paths.Checkpoint} {
		if d.exists(p) {
			d.remove(p)
		}
	}
}

// entries are the files of the folder of answers.
func (d *desk) entries() []string {
	d.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(d.paths.Input), "cache", "??", "*"))
	if err != nil {
		d.Fatal(err)
	}
	return files
}

func TestCacheServesLaterRuns(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: time.Second}, func(d *desk) {
		d.input(prompts(20)...)
		d.run(d.caching())
		first := d.whole(ids(20)...)
		d.anew()
		// The same requests, of other operations, and one that is new. A limit of
		// a call a minute holds none of them up.
		lines := prompts(20)
		for i := range lines {
			lines[i] = strings.Replace(lines[i], `"p`, `"again-`, 1)
		}
		d.input(append(lines, ask("new", "something else"))...)
		began := time.Now()
		s := d.run(d.caching(), caps(1, 0), func(c *Config) { c.Stream = true })
		d.wantCalls(20, 1)
		if s.Completed != 21 || s.CacheHits != 20 || s.Calls != 1 || time.Since(began) > 5*time.Second {
			d.Errorf("got %d completed, %d cache hits, %d calls in %s; want 21, 20, 1 at once", s.Completed, s.CacheHits, s.Calls, time.Since(began))
		}
		out, rows := d.lines(d.paths.Output), d.rows()
		for i := range 20 {
			was, id := first[fmt.Sprintf("p%d", i)], fmt.Sprintf("again-%d", i)
			l := out[id]
			if l == nil || string(l.Response.Body) != string(was.Response.Body) || l.Response.RequestID != was.Response.RequestID || l.LLM.Finish != was.LLM.Finish {
				d.Fatalf("%s: got %+v, want the answer %+v", id, l, was)
			}
			if m := l.LLM; !m.Cached || m.Attempts != 0 || m.Usage.InputTokens+m.Usage.OutputTokens != 0 || m.Provider != "mock" || m.Model != "small" {
				d.Errorf("%s: got %+v", id, m)
			}
			if op := rows[id]; op.Status != checkpoint.Completed || !op.FromCache || len(op.Attempts) != 0 {
				d.Errorf("%s: got row %+v", id, op)
			}
		}
		if out["new"].LLM.Cached {
			d.Errorf("a call's answer is marked as kept")
		}
		calls := d.asked()
		if s := d.run(d.caching()); s.CacheHits != 0 {
			d.Errorf("got %d cache hits where all is finished", s.CacheHits)
		}
		d.wantCalls(calls, 0)
	})
}

// What was cut off (not by its own cap), refused or filtered is asked again, and so is what must not
// be answered from memory.
func TestCacheKeepsWholeAnswersOnly(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		lines := []string{
			`{"id":"p0","prompt":"[[fault:length]]"}`, ask("p1", "[[fault:refusal]]"), ask("p2", "[[fault:filter]]"),
			`{"id":"p3","prompt":"roll the dice","retry":"never"}`,
			`{"id":"p4","url":"/v1/embeddings","method":"POST","body":{"model":"small","input":"a vector"}}`,
			`{"id":"p5","model":"small","messages":[{"role":"user","content":"[[fault:tool]]"}],"tools":[{"type":"function","function":{"name":"f"}}]}`,
		}
		d.input(lines...)
		d.run(d.caching())
		if n := len(d.entries()); n != 2 {
			d.Errorf("got %d entries, want those of p4 and p5", n)
		}
		d.anew()
		calls := d.asked()
		if s := d.run(d.caching()); s.CacheHits != 2 {
			d.Errorf("got %d cache hits, want 2", s.CacheHits)
		}
		d.wantCalls(calls, 4)
	})
}

// A damaged entry is told once and asked again, which mends it.
func TestCacheDamage(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(10)...)
		d.run(d.caching())
		d.anew()
		for i, path := range d.entries()[:4] {
			if err := os.Truncate(path, int64(100*i)); err != nil {
				d.Fatal(err)
			}
		}
		calls := d.asked()
		s := d.run(d.caching())
		d.wantCalls(calls, 4)
		told := 0
		for _, n := range d.notices {
			if strings.Contains(n, "damaged") {
				told++
			}
		}
		if s.CacheHits != 6 || told != 1 {
			d.Errorf("got %d cache hits, told %d times; want 6, once: %q", s.CacheHits, told, d.notices)
		}
		d.anew()
		calls = d.asked()
		d.run(d.caching())
		d.wantCalls(calls, 0)
	})
}

// A folder that cannot be used is found before anything is made.
func TestCacheRefused(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(1)...)
		_, err := d.try(func(c *Config) { c.Cache = d.paths.Input })
		if err == nil || !strings.Contains(err.Error(), "cache") || d.exists(d.paths.Checkpoint) {
			d.Errorf("got %v", err)
		}
	})
}

// A fallback's answer is the fallback's: the primary is asked as ever, and what
// falls back finds the answer there.
func TestCacheOfRoutes(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(30)...)
		down, cloud := fake.New(fake.Config{DownFrom: 1}), fake.New(fake.Config{})
		way := d.pair(down, cloud, route.SetOf(route.PrimaryUnavailable))
		d.run(d.caching(), way)
		d.whole(ids(30)...)
		d.anew()
		s := d.run(d.caching(), way)
		if n := cloud.Stats().Asked; n != 30 || s.CacheHits != 30 {
			d.Errorf("got %d calls of the fallback, %d cache hits; want 30 of the first run, 30", n, s.CacheHits)
		}
		for id, l := range d.whole(ids(30)...) {
			if l.LLM.Provider != "cloud" || l.LLM.Model != "large" || !l.LLM.Cached {
				d.Errorf("%s: got %+v", id, l.LLM)
			}
		}
		// A primary that answers is not kept from it.
		d.anew()
		up := fake.New(fake.Config{})
		s = d.run(d.caching(), d.pair(up, cloud, route.SetOf(route.PrimaryUnavailable)))
		if n := up.Stats().Asked; n != 30 || s.CacheHits != 0 {
			d.Errorf("got %d calls of the primary, %d cache hits; want 30, 0", n, s.CacheHits)
		}
	})
}

func TestCacheAndTwins(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(same(5, "the one question")...)
		d.run(d.caching(), dedupe)
		d.anew()
		s := d.run(d.caching(), dedupe)
		d.wantCalls(0, 1)
		if s.Completed != 5 || s.CacheHits != 1 || s.Suppressed != 4 {
			d.Errorf("got %d completed, %d cache hits, %d suppressed; want 5, 1, 4", s.Completed, s.CacheHits, s.Suppressed)
		}
	})
}

// A dead letter that is put back, and an operation of unknown outcome, take an
// answer that another run was given meanwhile.
func TestCacheServesWhatFailed(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(ask("p0", "[[fault:invalidx1]] sum"), ask("p1", "[[fault:lostx1]] sum"))
		s := d.run(d.caching(), func(c *Config) { c.Policy.HoldUnknown = true })
		if s.Failed != 1 || s.Unknown != 1 {
			d.Fatalf("got %d failed, %d unknown; want 1, 1", s.Failed, s.Unknown)
		}
		first := d.paths
		d.paths.Output, d.paths.Errors, d.paths.Checkpoint = first.Output+"2", first.Errors+"2", first.Checkpoint+"2"
		d.run(d.caching())
		d.paths = first
		calls := d.asked()
		s = d.run(d.caching(), func(c *Config) { c.RetryFailed = []string{"all"} })
		d.wantCalls(calls, 0)
		if s.Completed != 2 || s.CacheHits != 2 {
			d.Errorf("got %d completed, %d cache hits; want 2, 2", s.Completed, s.CacheHits)
		}
	})
}

// A dry run counts what is kept as free, and changes nothing.
func TestCacheInADryRun(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(10)...)
		f := d.foresee(Assume{}, d.caching())
		if f.CacheHits != 0 || f.ToDo != 10 || d.exists(d.config(d.caching()).Cache) {
			d.Errorf("got %d of %d kept; want none, and no folder", f.CacheHits, f.ToDo)
		}
		d.run(d.caching())
		d.anew()
		d.input(append(prompts(10), ask("new", "something else"))...)
		f = d.foresee(Assume{}, d.caching())
		if f.CacheHits != 10 || f.ToDo != 11 || f.ReservedOutput != 8 {
			d.Errorf("got %d of %d kept, %d tokens of output; want 10 of 11, 8", f.CacheHits, f.ToDo, f.ReservedOutput)
		}
	})
}
