package estimate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

type corpusLine struct {
	ID     json.RawMessage
	Prompt string
	O200k  int `json:"o200k_base"`
	CL100k int `json:"cl100k_base"`
}

// The corpora carry counts by OpenAI's own tokenizer.
func TestCorpora(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(sharedData(t, "corpora"), "*.jsonl"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no corpora: %v", err)
	}
	for _, path := range paths {
		lines := readLines[corpusLine](t, path)
		for i, l := range lines {
			if got := counter.Text(O200kBase, l.Prompt); got != l.O200k {
				t.Errorf("%s:%d: %s: got %d tokens, want %d", filepath.Base(path), i+1, O200kBase, got, l.O200k)
			}
			if got := counter.Text(CL100kBase, l.Prompt); got != l.CL100k {
				t.Errorf("%s:%d: %s: got %d tokens, want %d", filepath.Base(path), i+1, CL100kBase, got, l.CL100k)
			}
		}
		t.Logf("%s: %d prompts", filepath.Base(path), len(lines))
	}
}

type knownCount struct {
	Encoding, Text string
	Messages, Tool string
	Model          string
	Tokens         int
	PromptTokens   int `json:"prompt_tokens"`
}

func TestKnownCounts(t *testing.T) {
	t.Parallel()
	var known []knownCount
	readJSON(t, sharedData(t, "tokens.json"), &known)
	var talks map[string]json.RawMessage
	readJSON(t, sharedData(t, "cookbook_messages.json"), &talks)
	for _, k := range known {
		if k.Encoding != "" {
			if got := counter.Text(k.Encoding, k.Text); got != k.Tokens {
				t.Errorf("%s of %q: got %d tokens, want %d", k.Encoding, k.Text, got, k.Tokens)
			}
			continue
		}
		body := map[string]any{"model": k.Model, "messages": talks[k.Messages]}
		if k.Tool != "" {
			body["tools"] = []json.RawMessage{talks["tool_"+k.Tool]}
		}
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := counter.Request("/chat/completions", k.Model, raw)
		if err != nil || got.Prompt != k.PromptTokens {
			t.Errorf("%s %s with %s: got %d tokens, %v, want %d", k.Messages, k.Tool, k.Model, got.Prompt, err, k.PromptTokens)
		}
	}
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
