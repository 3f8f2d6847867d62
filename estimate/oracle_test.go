package estimate

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pkoukk/tiktoken-go"
	tiktoken_loader "github.com/pkoukk/tiktoken-go-loader"
)

// encodings are all that Counter.Text knows.
var encodings = []string{O200kBase, CL100kBase, P50kBase, R50kBase}

// oracles are tiktoken-go's encoders over the ranks of tiktoken-go-loader, not
// over ours. They are built once: each takes a third of a second.
var oracles = sync.OnceValues(func() (map[string]*tiktoken.Tiktoken, error) {
	tiktoken.SetBpeLoader(tiktoken_loader.NewOfflineLoader())
	m := make(map[string]*tiktoken.Tiktoken)
	for _, name := range encodings {
		tk, err := tiktoken.GetEncoding(name)
		if err != nil {
			return nil, err
		}
		m[name] = tk
	}
	return m, nil
})

func oracle(t testing.TB, encoding string) *tiktoken.Tiktoken {
	t.Helper()
	m, err := oracles()
	if err != nil {
		t.Fatal(err)
	}
	return m[encoding]
}

// counter is shared by the tests, as a program shares one.
var counter = NewCounter()

// sharedData returns the path of a file of the shared test data, or skips the
// test where there is none: it lies beside the module, not in it.
func sharedData(t testing.TB, name ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
	path := filepath.Join(append([]string{dir, "..", "shared", "data"}, name...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared test data: %v", err)
	}
	return path
}

// readLines decodes each line of a JSONL file.
func readLines[T any](t testing.TB, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []T
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatalf("%s, line %d: %v", path, len(lines)+1, err)
		}
		lines = append(lines, v)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}
