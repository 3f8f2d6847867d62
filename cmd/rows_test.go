package cmd

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	answered = `{"id":"k","custom_id":"a","response":{"status_code":200,"request_id":"req","body":{"choices":[{"message":{"content":"one,\n\"two\" <3"}}]}},"error":null,"llmbatch":{"op":"a","line":1,"provider":"openai","model":"m","attempts":2,"usage":{"input_tokens":7,"output_tokens":5,"cached_tokens":1,"reasoning_tokens":2},"latency_ms":12,"finish":"stop","metadata":{"topic":"bug","n":1.50,"x":{"y":[1]}}}}`
	failed   = `{"id":"k","custom_id":12,"response":null,"error":{"code":"c","message":"no"},"llmbatch":{"op":"12","line":2,"provider":"openai","model":"m","attempts":1,"usage":{"input_tokens":0,"output_tokens":0,"cached_tokens":0,"reasoning_tokens":0},"latency_ms":0,"class":"invalid"}}`
	silent   = `{"id":"k","custom_id":null,"response":{"status_code":200,"request_id":"","body":{"choices":[{"message":{"content":""}}]}},"error":null,"llmbatch":{"op":"s","line":3,"provider":"p","model":"m","attempts":1}}`
)

func rows(t *testing.T, format, fields string, attempts []attempt) string {
	t.Helper()
	o := resultsOptions{format: format, fields: fields, order: "input", attempts: attempts != nil}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	w, err := newRowWriter(&out, false, format, o.columns)
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{answered, failed, silent} {
		if err := w.write([]byte(raw), attempts); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestCSV(t *testing.T) {
	got, err := csv.NewReader(strings.NewReader(rows(t, "csv", "custom_id,text,error_code,input_tokens,metadata.topic,metadata.n,metadata.x", nil))).ReadAll()
	want := [][]string{
		{"custom_id", "text", "error_code", "input_tokens", "metadata.topic", "metadata.n", "metadata.x"},
		{"a", "one,\n\"two\" <3", "", "7", "bug", "1.50", `{"y":[1]}`},
		{"12", "", "c", "0", "", "", ""},
		{"", "", "", "0", "", "", ""},
	}
	if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	// A column alone that is empty is a record all the same.
	if got, want := rows(t, "csv", "text", nil), "text\n\"one,\n\"\"two\"\" <3\"\n\"\"\n\"\"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFlatObjects(t *testing.T) {
	got := rows(t, "jsonl", "custom_id,text,class,status_code,metadata.n", nil)
	want := `{"custom_id":"a","text":"one,\n\"two\" <3","class":null,"status_code":200,"metadata.n":1.50}
{"custom_id":12,"text":null,"class":"invalid","status_code":null,"metadata.n":null}
{"custom_id":null,"text":"","class":null,"status_code":200,"metadata.n":null}
`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	// Every field has a value of the kind that its name says.
	for line := range strings.Lines(rows(t, "jsonl", strings.Join(fieldNames(), ","), nil)) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil || len(o) != len(fieldNames()) {
			t.Errorf("%s: %d fields, %v", line, len(o), err)
		}
	}
}

func TestAttemptsAdded(t *testing.T) {
	tries := []attempt{{"openai", "m", time.Unix(0, 0).UTC(), 429, "rate_limited", false}, {"openai", "m", time.Unix(1, 0).UTC(), 200, "", true}}
	const list = `[{"provider":"openai","model":"m","at":"1970-01-01T00:00:00Z","status":429,"class":"rate_limited"},{"provider":"openai","model":"m","at":"1970-01-01T00:00:01Z","status":200,"class":"","looked_up":true}]`
	if got := rows(t, "jsonl", "line", tries); !strings.HasPrefix(got, `{"line":1,"attempt_list":`+list+"}\n") {
		t.Errorf("jsonl: got %s", got)
	}
	if got := rows(t, "openai", "", tries); strings.Count(got, `,"attempt_list":`+list+"}}\n") != 3 {
		t.Errorf("openai: got %s", got)
	}
	if got := rows(t, "csv", "line", tries); !strings.HasPrefix(got, "line,attempt_list\n1,\"[{\"\"provider\"\"") {
		t.Errorf("csv: got %s", got)
	}
}

func TestResultsFlags(t *testing.T) {
	for _, o := range []resultsOptions{
		{format: "xml", order: "input"},
		{format: "csv", order: "random"},
		{format: "openai", order: "input", fields: "op"},
		{format: "text", order: "input", attempts: true},
		{format: "csv", order: "input", fields: "op,prompt"},
		{format: "csv", order: "input", fields: "op,"},
		{format: "csv", order: "input", fields: "op,line,op"},
		{format: "csv", order: "input", fields: "metadata."},
	} {
		var usage *usageError
		if err := o.check(); !errors.As(err, &usage) {
			t.Errorf("%+v: got %v", o, err)
		}
	}
}
