package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/result"
)

// dropLine takes an operation's line out of a file, as an editor would.
func dropLine(d *desk, path, id string) {
	d.Helper()
	var kept []string
	found := false
	for raw := range strings.Lines(d.text(path)) {
		l, err := result.Decode([]byte(strings.TrimSpace(raw)))
		if err == nil && l.LLM.Op == id {
			found = true
			continue
		}
		kept = append(kept, raw)
	}
	if !found {
		d.Fatalf("%s has no line of %s", path, id)
	}
	d.put(path, strings.Join(kept, ""))
}

func wantUsage(d *desk, err error, words string) {
	d.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Fault != FaultUsage || !strings.Contains(err.Error(), words) || e.Hint == "" {
		d.Errorf("got error %v, want a usage error with %q and a hint", err, words)
	}
}

func TestFilesDamagedBetweenRuns(t *testing.T) {
	const n = 10
	tests := []struct {
		name   string
		damage func(d *desk)
		calls  int64 // that the next run needs
		notice string
	}{
		{"checkpoint deleted", func(d *desk) { d.remove(d.paths.Checkpoint) }, 0, "adopted 10 lines"},
		{"checkpoint emptied", func(d *desk) { d.put(d.paths.Checkpoint, "") }, 0, "adopted 10 lines"},
		{"checkpoint cut", func(d *desk) { d.put(d.paths.Checkpoint, d.text(d.paths.Checkpoint)[:9000]) }, 0, "adopted 10 lines"},
		{"a header page of the checkpoint", func(d *desk) {
			text := d.text(d.paths.Checkpoint)
			d.put(d.paths.Checkpoint, strings.Repeat("\x00", os.Getpagesize())+text[os.Getpagesize():])
		}, 0, "one of its two header pages is damaged"},
		{"saved with a byte order mark", func(d *desk) { d.put(d.paths.Output, "\ufeff"+d.text(d.paths.Output)) }, 0, "found 10 lines at another place"},
		{"last line torn", func(d *desk) {
			text := d.text(d.paths.Output)
			d.put(d.paths.Output, text[:len(text)-50])
		}, 1, "cut a torn line"},
		{"last newline missing", func(d *desk) { d.put(d.paths.Output, strings.TrimSuffix(d.text(d.paths.Output), "\n")) }, 0, ""},
		{"torn line of nobody behind", func(d *desk) { d.put(d.paths.Output, d.text(d.paths.Output)+`{"id":"llmb`) }, 0, "cut a torn line of 11 bytes"},
		{"garbage in the middle", func(d *desk) {
			text := d.text(d.paths.Output)
			at := strings.IndexByte(text, '\n') + 1
			d.put(d.paths.Output, text[:at]+"what is this\n"+text[at:])
		}, 0, "1 line without a result (the first is line 2)"},
		{"a line in the middle lost", func(d *desk) { dropLine(d, d.paths.Output, "p4") }, 1, "missing 1 line of the checkpoint's"},
		{"lines turned round", func(d *desk) {
			text := d.text(d.paths.Output)
			at := strings.IndexByte(text, '\n') + 1
			d.put(d.paths.Output, text[at:]+text[:at])
		}, 0, "at another place"},
		{"checkpoint deleted and tail torn", func(d *desk) {
			d.remove(d.paths.Checkpoint)
			text := d.text(d.paths.Output)
			d.put(d.paths.Output, text[:len(text)-50])
		}, 1, "adopted 9 lines"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, fake.Config{}, func(d *desk) {
				d.input(prompts(n)...)
				d.run()
				test.damage(d)
				calls := d.asked()
				s := d.run()
				d.wantCalls(calls, test.calls)
				if test.notice != "" {
					d.mustTell(test.notice)
				}
				d.whole(ids(n)...)
				if s.Completed != n {
					d.Errorf("got %d completed, want %d", s.Completed, n)
				}
				calls = d.asked()
				before := d.text(d.paths.Output)
				d.run()
				d.wantCalls(calls, 0)
				if d.text(d.paths.Output) != before {
					d.Error("the run after changed the output")
				}
			})
		})
	}
}

// However many lines are gone, their rows are put back a part at a time: one
// transaction over a million would take a gigabyte.
func TestLostLinesArePutBackInParts(t *testing.T) {
	t.Parallel()
	const n = 2*putMost + 5
	store, err := checkpoint.Create(filepath.Join(t.TempDir(), "x.db"), checkpoint.Meta{}, checkpoint.Options{CommitGap: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ops, known := make([]*checkpoint.Operation, n), make([]span, n)
	for i := range ops {
		ops[i] = &checkpoint.Operation{ID: strconv.Itoa(i), Status: checkpoint.Completed, Offset: int64(10 * i), Length: 9}
	}
	if err := store.PutAll(ops, nil); err != nil {
		t.Fatal(err)
	}
	for i, op := range ops {
		known[i] = span{op.Offset, op.Length, op.Seq}
	}
	b := &book{store: store, index: &input.Index{}, removed: map[string]uint64{}}
	f := &fileFix{book: b, final: checkpoint.Completed, known: known, seen: make([]bool, n)}
	if err := f.finish(); err != nil {
		t.Fatal(err)
	}
	back := 0
	err = store.All(func(op *checkpoint.Operation) error {
		if op.Status == checkpoint.Delayed {
			back++
		}
		return nil
	})
	if err != nil || back != n || f.lost != n || cap(f.batch) > 2*putMost {
		t.Errorf("got %d rows back of %d lost, %d at a time, %v; want %d, at most %d at a time", back, f.lost, cap(f.batch), err, n, 2*putMost)
	}
}

func TestLostOutputIsNotTakenForNothingDone(t *testing.T) {
	for _, lose := range []func(d *desk){
		func(d *desk) { d.remove(d.paths.Output) },
		func(d *desk) { d.put(d.paths.Output, "") },
	} {
		bubble(t, fake.Config{}, func(d *desk) {
			d.input(prompts(4)...)
			d.run()
			kept := d.text(d.paths.Output)
			lose(d)
			calls := d.asked()
			_, err := d.try()
			wantUsage(d, err, "gone or empty")
			d.wantCalls(calls, 0)
			d.put(d.paths.Output, kept)
			d.run()
			d.wantCalls(calls, 0)
		})
	}
}

// TestDamagedCheckpointAloneIsNotTakenForNothingDone: with the output gone as
// well, only the user knows whether to pay again.
func TestDamagedCheckpointAloneIsNotTakenForNothingDone(t *testing.T) {
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(4)...)
		d.run()
		kept, calls := d.text(d.paths.Output), d.asked()
		d.put(d.paths.Checkpoint, "")
		d.remove(d.paths.Output)
		for range 2 { // the refusal must not forget what it saw
			_, err := d.try()
			wantUsage(d, err, "nothing says what was finished")
		}
		d.wantCalls(calls, 0)
		d.put(d.paths.Output, kept)
		d.run()
		d.wantCalls(calls, 0)
	})
}

func TestLostErrorsFileIsMadeAgain(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(append(prompts(3), ask("rude", "[[fault:policyx1]]"))...)
		d.run()
		d.remove(d.paths.Errors)
		d.run()
		if l := d.whole("p0", "p1", "p2", "rude")["rude"]; l.LLM.Class != "" {
			d.Errorf("the result has the class %q of its earlier failure", l.LLM.Class)
		}
	})
}

func TestCheckpointDeletedBeforeTheOldLineWasRemoved(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		lines := prompts(4)
		d.input(lines...)
		d.run()
		old := d.text(d.paths.Output)
		lines[1] = ask("p1", "edited")
		d.input(lines...)
		d.run()
		// As if the run had died before it rewrote the file: the old line first.
		newest := d.lines(d.paths.Output)["p1"]
		d.put(d.paths.Output, old+string(newest.Encode())+"\n")
		d.remove(d.paths.Checkpoint)
		calls := d.asked()
		d.run()
		d.wantCalls(calls, 0)
		if n := len(d.rows()); n != 4 {
			d.Errorf("the checkpoint has %d rows, want 4", n)
		}
		if l := d.whole(ids(4)...)["p1"]; l.LLM.Digest != newest.LLM.Digest {
			d.Error("the old line of the edited operation was kept")
		}
	})
}

func TestFilesOfAnotherInputAreRefused(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(4)...)
		d.run()
		calls := d.asked()
		mine, out := d.paths.Input, d.text(d.paths.Output)
		d.paths.Input += ".other"
		d.input(ask("x", "other"), ask("y", "input"))
		_, err := d.try()
		wantUsage(d, err, "belongs to another input")
		d.remove(d.paths.Checkpoint)
		_, err = d.try()
		wantUsage(d, err, "belong to another input")
		if d.exists(d.paths.Checkpoint) || d.text(d.paths.Output) != out {
			d.Error("the refusal left a checkpoint or changed the output")
		}
		d.paths.Input = mine
		d.run()
		d.wantCalls(calls, 0)
	})
}

func TestRenamedInputIsTheSame(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(4)...)
		d.run()
		calls := d.asked()
		if err := os.Rename(d.paths.Input, d.paths.Input+".moved"); err != nil {
			d.Fatal(err)
		}
		d.paths.Input += ".moved"
		d.run()
		d.wantCalls(calls, 0)
	})
}

func TestSecondRunOnTheSameFilesIsRefused(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{Latency: 5 * time.Second}, func(d *desk) {
		d.input(prompts(4)...)
		ended := make(chan error, 1)
		c := d.config()
		go func() {
			_, err := Run(d.Context(), c)
			ended <- err
		}()
		time.Sleep(2 * time.Second)
		_, err := d.try()
		var e *Error
		if !errors.As(err, &e) || e.Fault != FaultInUse || e.Hint == "" {
			d.Errorf("got error %v, want one that says that the files are in use", err)
		}
		if err := <-ended; err != nil {
			d.Errorf("the first run: %v", err)
		}
		d.whole(ids(4)...)
		d.wantCalls(0, 4)
	})
}

func TestOutputsThatWouldDestroySomething(t *testing.T) {
	tests := []struct {
		name string
		set  func(d *desk)
	}{
		{"output is the input", func(d *desk) { d.paths.Output = d.paths.Input }},
		{"checkpoint is the input", func(d *desk) { d.paths.Checkpoint = d.paths.Input }},
		{"folder is missing", func(d *desk) { d.paths.Output = d.paths.Input + ".d/x" }},
		{"output is of another program", func(d *desk) { d.put(d.paths.Output, "a,b\n1,2\n") }},
		{"output is a folder", func(d *desk) {
			if err := os.Mkdir(d.paths.Output, 0o700); err != nil {
				d.Fatal(err)
			}
		}},
		{"checkpoint is of another program", func(d *desk) { d.put(d.paths.Checkpoint, strings.Repeat("dear diary\n", 1000)) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, fake.Config{}, func(d *desk) {
				d.input(prompts(2)...)
				in := d.text(d.paths.Input)
				test.set(d)
				_, err := d.try()
				wantUsage(d, err, "")
				if d.asked() != 0 || d.text(d.paths.Input) != in {
					d.Errorf("got %d calls, input changed: %t; want none", d.asked(), d.text(d.paths.Input) != in)
				}
			})
		})
	}
}
