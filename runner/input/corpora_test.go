package input

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// corpora is the folder of the shared corpora, found from the module's root.
func corpora(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		} else if dir == filepath.Dir(dir) {
			t.Fatal("no module root")
		}
	}
	dir = filepath.Join(dir, "..", "shared", "data", "corpora")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no shared corpora")
	}
	return dir
}

// TestCorpora sends real and hostile prompts through and compares what the request says with what the line says.
func TestCorpora(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(corpora(t), "*.jsonl"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %v, %v", paths, err)
	}
	for _, path := range paths {
		for _, set := range []*Settings{{Model: "m"}, {Model: "m", Template: "{{.prompt}}"}, {Model: "m", PromptField: "prompt"}} {
			f, err := Open(t.Context(), path, nil, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			ix, rep := preflight(t, f, set)
			if rep.Invalid > 0 || rep.Operations != ix.Len() || ix.Len() == 0 {
				t.Fatalf("%s: got %+v", path, rep)
			}
			for i := range ix.Operations() {
				checkPrompt(t, f, ix, i, set)
			}
		}
	}
}

func checkPrompt(t *testing.T, f *File, ix *Index, i int, set *Settings) {
	t.Helper()
	raw, err := f.Raw(ix, i)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Record(ix, i, set)
	if err != nil {
		t.Fatal(err)
	}
	var line struct {
		ID     json.RawMessage `json:"id"`
		Prompt string          `json:"prompt"`
	}
	var body struct {
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(raw, &line); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatal(err)
	}
	if len(body.Messages) != 1 || body.Messages[0].Content != line.Prompt || string(r.CustomID) != string(line.ID) {
		t.Errorf("%s line %d: got %s", f.Path(), r.Line, r.Body)
	}
}
