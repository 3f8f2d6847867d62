package cmd

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/llmbatch/llmbatch/runner/result"
)

// row is a result line on its way into a table.
type row struct {
	*result.Line
	attempts []attempt // nil = not asked for, or not to be had
	metadata map[string]json.RawMessage
}

// column is a field of csv and jsonl: a string, an int64, raw JSON, or nil
// where the line has none.
type column struct {
	name  string
	value func(*row) any
}

// attemptList is the column that --attempts adds.
const attemptList = "attempt_list"

// metadataPrefix leads the name of a field of a line's metadata.
const metadataPrefix = "metadata."

// defaultFields are those of csv and jsonl without --fields.
const defaultFields = "custom_id,text,finish,model,input_tokens,output_tokens,error_code,error_message"

// columns are all that --fields may name but for those of the metadata.
func columns() []column {
	return []column{
		{"custom_id", func(r *row) any { return orNil(r.CustomID) }},
		{"op", func(r *row) any { return r.LLM.Op }},
		{"line", func(r *row) any { return int64(r.LLM.Line) }},
		{"text", (*row).text},
		{"finish", func(r *row) any { return orNil(r.LLM.Finish) }},
		{"provider", func(r *row) any { return r.LLM.Provider }},
		{"model", func(r *row) any { return r.LLM.Model }},
		{"degraded", func(r *row) any { return orNil(strings.Join(r.LLM.Degraded, " ")) }},
		{"attempts", func(r *row) any { return int64(r.LLM.Attempts) }},
		{"latency_ms", func(r *row) any { return r.LLM.LatencyMS }},
		{"input_tokens", func(r *row) any { return r.LLM.Usage.InputTokens }},
		{"output_tokens", func(r *row) any { return r.LLM.Usage.OutputTokens }},
		{"cached_tokens", func(r *row) any { return r.LLM.Usage.CachedTokens }},
		{"reasoning_tokens", func(r *row) any { return r.LLM.Usage.ReasoningTokens }},
		{"error_code", func(r *row) any { return r.failure().Code }},
		{"error_message", func(r *row) any { return r.failure().Message }},
		{"class", func(r *row) any { return orNil(r.LLM.Class) }},
		{"status_code", func(r *row) any {
			if r.Response == nil || r.Response.StatusCode == 0 {
				return nil
			}
			return int64(r.Response.StatusCode)
		}},
		{"request_id", func(r *row) any {
			if r.Response == nil {
				return nil
			}
			return orNil(r.Response.RequestID)
		}},
	}
}

// orNil is nil for what is empty.
func orNil[T string | json.RawMessage](v T) any {
	if len(v) == 0 {
		return nil
	}
	return v
}

func (r *row) text() any {
	if r.Error != nil || r.Response == nil {
		return nil
	}
	return answerText(r.Response.Body)
}

// failure is the line's error; its fields are nil if it has none.
func (r *row) failure() (f struct{ Code, Message any }) {
	if r.Error != nil {
		f.Code, f.Message = r.Error.Code, r.Error.Message
	}
	return f
}

// inMetadata is a field of the line's metadata, nil if there is none.
func (r *row) inMetadata(name string) any {
	if r.metadata == nil {
		r.metadata = map[string]json.RawMessage{}
		// Metadata that is no object has no fields.
		_ = json.Unmarshal(r.LLM.Metadata, &r.metadata)
	}
	return orNil(r.metadata[name])
}

// parseFields finds the columns of a comma-separated list.
func parseFields(list string) ([]column, error) {
	var out []column
	all := columns()
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if slices.ContainsFunc(out, func(c column) bool { return c.name == name }) {
			return nil, usagef("", "--fields: %q is there twice", name)
		}
		if i := slices.IndexFunc(all, func(c column) bool { return c.name == name }); i >= 0 {
			out = append(out, all[i])
			continue
		}
		key, ok := strings.CutPrefix(name, metadataPrefix)
		if !ok || key == "" {
			return nil, usagef("known: "+strings.Join(fieldNames(), ", "), "--fields: no field %q", name)
		}
		out = append(out, column{name, func(r *row) any { return r.inMetadata(key) }})
	}
	return out, nil
}

// fieldNames lists what --fields may name.
func fieldNames() []string {
	var names []string
	for _, c := range columns() {
		names = append(names, c.name)
	}
	return append(names, metadataPrefix+"NAME")
}
