package estimate

import "testing"

func TestEncoding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		model, want string
		known       bool
	}{
		{"gpt-5", O200kBase, true},
		{"gpt-5-mini-2025-08-07", O200kBase, true},
		{"gpt-5.4-nano", O200kBase, true},
		{"gpt-4.1-mini", O200kBase, true},
		{"gpt-4.5-preview", O200kBase, true},
		{"gpt-4o", O200kBase, true},
		{"gpt-4o-mini-2024-07-18", O200kBase, true},
		{"chatgpt-4o-latest", O200kBase, true},
		{"o1", O200kBase, true},
		{"o1-preview", O200kBase, true},
		{"o3-mini", O200kBase, true},
		{"o4-mini", O200kBase, true},
		{"gpt-oss-120b", O200kBase, true},
		{"gpt-4", CL100kBase, true},
		{"gpt-4-turbo", CL100kBase, true},
		{"gpt-3.5-turbo-0125", CL100kBase, true},
		{"gpt-35-turbo", CL100kBase, true},
		{"text-embedding-3-large", CL100kBase, true},
		{"text-embedding-ada-002", CL100kBase, true},
		{"davinci-002", CL100kBase, true},
		{"text-davinci-003", P50kBase, true},
		{"text-davinci-edit-001", P50kBase, true},
		{"davinci", R50kBase, true},
		{"gpt2", R50kBase, true},
		{"ft:gpt-4.1-mini-2025-04-14:org::abc", O200kBase, true},
		{"ft:gpt-4o-2024-08-06:org:name:abc", O200kBase, true},
		{"ft:gpt-4-0613:org::abc", CL100kBase, true},
		{"ft:gpt-3.5-turbo:org/team::abc", CL100kBase, true},
		{"openai/gpt-4o:extended", O200kBase, true},
		{"openai/gpt-oss-20b:free", O200kBase, true},
		{"openrouter/openai/gpt-4", CL100kBase, true},
		{"GPT-4o", O200kBase, true},
		{"claude-sonnet-4-5", O200kBase, false},
		{"my-local-model", O200kBase, false},
		{"o10", O200kBase, false},
		{"gpt-4.9", O200kBase, false},
		{"", O200kBase, false},
		{":", O200kBase, false},
		{"a/", O200kBase, false},
	} {
		if got, known := Encoding(c.model); got != c.want || known != c.known {
			t.Errorf("%q: got %s, %v, want %s, %v", c.model, got, known, c.want, c.known)
		}
	}
}

func TestFactor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		model    string
		num, den int64
	}{
		{"gpt-4o", 1, 1},
		{"unknown", 1, 1},
		{"claude-sonnet-4-5", 5, 4},
		{"anthropic/claude-opus-4.7", 5, 3}, // as OpenRouter writes it
		{"claude-opus-4-7", 5, 3},
		{"anthropic/claude-sonnet-4.6", 5, 4},
		{"claude-sonnet-4-6", 5, 4},
		{"claude-3-opus-20240229", 5, 4},
		{"google/gemini-2.5-pro", 11, 10},
		{"meta-llama/llama-3.3-70b-instruct:free", 26, 25},
		{"deepseek-r1-distill-llama-70b", 26, 25},
		{"open-mixtral-8x22b", 27, 20},
		{"qwen/qwen-2.5-72b", 53, 50},
	} {
		if num, den := Factor(c.model); num != c.num || den != c.den {
			t.Errorf("%s: got %d/%d, want %d/%d", c.model, num, den, c.num, c.den)
		}
	}
}
