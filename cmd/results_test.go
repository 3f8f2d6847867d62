package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/result"
)

// TestTextOnTerminal: an answer cannot drive the terminal that it is shown on;
// in a pipe it is what it is.
func TestTextOnTerminal(t *testing.T) {
	const line = `{"id":"k","response":{"status_code":200,"body":{"choices":[{"message":{"content":"a\u001b]0;title\u0007\u202eb\tc\nd é"}}]}},"error":null,"llmbatch":{"op":"a"}}` + "\n"
	path := filepath.Join(t.TempDir(), "x.results.jsonl")
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	for terminal, want := range map[bool]string{
		true: "a\\u001b]0;title\\u0007\\u202eb\tc\\nd é\n", false: "a\x1b]0;title\a\u202eb\tc\\nd é\n",
	} {
		o := resultsOptions{format: "text"}
		var out strings.Builder
		_, err := o.print(&out, terminal, runner.Paths{Output: path, Errors: path + ".none"}, []place{{span: result.Span{Length: int64(len(line) - 1)}}}, nil)
		if err != nil || out.String() != want {
			t.Errorf("terminal %t: got %q, %v; want %q", terminal, out.String(), err, want)
		}
	}
}

// TestAsGiven: the flags that find the files of a run again.
func TestAsGiven(t *testing.T) {
	for _, test := range []struct {
		o    fileOptions
		in   string
		want string
	}{
		{fileOptions{}, "x.jsonl", "x.jsonl"},
		{fileOptions{output: "out/r.jsonl"}, "x.jsonl.gz", "x.jsonl.gz --output out/r.jsonl"},
		{fileOptions{output: "out/r.jsonl", errors: "e.jsonl"}, "x.jsonl", "x.jsonl --output out/r.jsonl --errors e.jsonl"},
		{fileOptions{output: "-r.jsonl"}, "-x y.jsonl", "'./-x y.jsonl' --output -r.jsonl"},
		{fileOptions{checkpoint: "my db"}, "it's.jsonl", `'it'\''s.jsonl' --checkpoint 'my db'`},
	} {
		if got := asGiven(test.o.paths(test.in)); got != test.want {
			t.Errorf("%+v of %s: got %s, want %s", test.o, test.in, got, test.want)
		}
	}
}
