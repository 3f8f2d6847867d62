package estimate

import (
	"strings"

	"github.com/pkoukk/tiktoken-go"
)

// Names of the encodings that Counter.Text knows.
const (
	O200kBase  = tiktoken.MODEL_O200K_BASE
	CL100kBase = tiktoken.MODEL_CL100K_BASE
	P50kBase   = tiktoken.MODEL_P50K_BASE
	R50kBase   = tiktoken.MODEL_R50K_BASE
)

// families lists the models in use by the beginning of their names. A beginning
// counts only up to a "-" or the end of the name, or where open is set up to a
// "." too. Source: openai/tiktoken, tiktoken/model.py 0.14.0; gpt-oss has
// o200k_harmony there, which counts text like o200k_base. tiktoken-go's table
// lacks most of these.
var families = []struct {
	begin    string
	encoding string
	open     bool
}{
	{"gpt-5", O200kBase, true},
	{"gpt-4.5", O200kBase, false},
	{"gpt-4.1", O200kBase, false},
	{"gpt-4o", O200kBase, false},
	{"chatgpt-4o", O200kBase, false},
	{"o1", O200kBase, false},
	{"o3", O200kBase, false},
	{"o4", O200kBase, false},
	{"gpt-oss", O200kBase, false},
	{"gpt-4", CL100kBase, false},
	{"gpt-3.5", CL100kBase, false},
	{"gpt-35", CL100kBase, false}, // Azure's spelling
	{"text-embedding-3", CL100kBase, false},
	{"text-embedding-ada-002", CL100kBase, false},
	{"davinci-002", CL100kBase, false},
	{"babbage-002", CL100kBase, false},
}

// Encoding returns the name of the encoding that a model counts with. It looks
// through "vendor/model", "model:variant" and "ft:model:…"; a fine-tuned model
// has the encoding of its base. known is false for a model that no public table
// names; o200k_base is the best guess then, to be corrected by Factor.
func Encoding(model string) (name string, known bool) {
	model = baseModel(model)
	for _, f := range families {
		if rest, ok := strings.CutPrefix(model, f.begin); ok {
			if rest == "" || rest[0] == '-' || f.open && rest[0] == '.' {
				return f.encoding, true
			}
		}
	}
	// The retired models are those of tiktoken-go's own table.
	switch tiktoken.MODEL_TO_ENCODING[model] {
	case tiktoken.MODEL_P50K_BASE, tiktoken.MODEL_P50K_EDIT:
		return P50kBase, true
	case tiktoken.MODEL_R50K_BASE, "gpt2":
		return R50kBase, true
	}
	return O200kBase, false
}

// baseModel strips vendor, variant and fine-tuning from the name of a model.
func baseModel(model string) string {
	model = strings.ToLower(model)
	name, _, _ := strings.Cut(model, ":")
	model = model[strings.LastIndexByte(name, '/')+1:]
	model = strings.TrimPrefix(model, "ft:")
	model, _, _ = strings.Cut(model, ":")
	return model
}

// Factor returns, as num/den, how many tokens a model without a public
// tokenizer makes of a text for each token of o200k_base: a start, which the
// usage that comes back should correct. It is 1/1 for every other model.
// It applies to text, not to Tokens.Images, which are the provider's own.
//
// The factors are the means over Go, Python, English, JSON, Russian and Chinese
// text, measured once with public tokenizers: Claude's vocabulary of 2023,
// Gemma for Gemini, DeepSeek V3, Qwen 2.5, Llama 3.2, Mistral v1. From Opus 4.7
// and Sonnet 5 on Claude has a tokenizer that makes about a third more (1.27 on
// Python, 1.42 on English; S. Willison, 2026-06-30).
func Factor(model string) (num, den int64) {
	model = baseModel(model)
	for _, f := range factors {
		if strings.Contains(model, f.part) {
			return f.num, f.den
		}
	}
	return 1, 1
}

// factors is searched from the top: the first part that occurs in the model's
// name decides.
var factors = []struct {
	part     string
	num, den int64
}{
	{"deepseek", 26, 25}, // also its distillations, deepseek-r1-distill-llama
	{"opus-4.7", 5, 3},
	{"opus-4-7", 5, 3},
	{"opus-5", 5, 3},
	{"sonnet-5", 5, 3},
	{"haiku-5", 5, 3},
	{"claude", 5, 4},
	{"gemini", 11, 10},
	{"gemma", 11, 10},
	{"llama", 26, 25},
	{"mistral", 27, 20},
	{"mixtral", 27, 20},
	{"ministral", 27, 20},
	{"codestral", 27, 20},
	{"devstral", 27, 20},
	{"magistral", 27, 20},
	{"pixtral", 27, 20},
	{"qwen", 53, 50},
	{"qwq", 53, 50},
}
