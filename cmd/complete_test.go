package cmd

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestCompletion: what a shell offers behind a flag.
func TestCompletion(t *testing.T) {
	const desk = "../testdata/routes/support.yaml"
	for _, test := range []struct {
		line string // split at blanks; the last word is being typed
		env  string // $LLMBATCH_CONFIG
		want string // some of what is offered
		not  string
	}{
		{line: "run x.jsonl --provider ", want: "openai mock vllm", not: "house"},
		{line: "run x.jsonl --config " + desk + " --provider ", want: "openai house rented"},
		{line: "run x.jsonl --config " + desk + " --model ", want: "small gpt-4o-mini"},
		{line: "estimate x.jsonl --override-model ", env: desk, want: "small gpt-4o-mini"},
		{line: "run x.jsonl --config " + desk + " --provider house --model ", want: "small", not: "gpt-4o-mini"},
		{line: "run x.jsonl --config none.yaml --model ", not: "small"},
		{line: "run x.jsonl --on-changed ", want: "rerun keep"},
		{line: "run x.jsonl --accounting ", want: "sum max input split none"},
		{line: "run x.jsonl --reserve ", want: "max learned"},
		{line: "run x.jsonl --retry-failed=server,", want: "server,rate_limited server,invalid"},
		{line: "results x.jsonl --format ", want: "openai text csv jsonl"},
		{line: "run x.jsonl --progress ", want: "bar plain json none"},
		{line: "run x.jsonl --log-format ", want: "text json"},
		{line: "run x.jsonl --log-level ", want: "debug info warn error"},
		{line: "results x.jsonl --order ", want: "input completion"},
		{line: "results x.jsonl --fields op,", want: "op,text op,metadata.", not: "op,metadata.NAME"},
		{line: "mock --window ", want: "bucket sliding"},
		{line: "mock --headers ", want: "openai groq"},
	} {
		var out bytes.Buffer
		env := docEnv(&out, nil)
		env.Getenv = func(name string) string { return map[string]string{configEnv: test.env}[name] }
		root := newRoot(env)
		root.SetArgs(append([]string{"__complete"}, strings.Split(test.line, " ")...))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		offered := strings.Split(out.String(), "\n")
		for _, want := range strings.Fields(test.want) {
			if !slices.Contains(offered, want) {
				t.Errorf("%s: got %q, want %s among them", test.line, offered, want)
			}
		}
		if test.not != "" && slices.Contains(offered, test.not) {
			t.Errorf("%s: %s is offered", test.line, test.not)
		}
		if strings.Contains(out.String(), "ShellCompDirectiveDefault") {
			t.Errorf("%s: files are offered", test.line)
		}
	}
}
