package providertest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Golden is an answer with what must become of it.
type Golden struct {
	Name string
	Want map[string]string // the "# key: value" lines at the top
	Head string            // status line and headers
	Body string
}

// LoadGolden reads testdata/providers/<folder>/*.http of the module: lines of
// "# key: value", the head, an empty line, the body.
func LoadGolden(t testing.TB, folder string) []Golden {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(ModuleRoot(t), "testdata", "providers", folder, "*.http"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden answers of %s (%v)", folder, err)
	}
	all := make([]Golden, 0, len(files))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		g := Golden{Name: strings.TrimSuffix(filepath.Base(file), ".http"), Want: map[string]string{}}
		for bytes.HasPrefix(raw, []byte("#")) {
			line, rest, _ := bytes.Cut(raw, []byte("\n"))
			key, value, _ := strings.Cut(strings.TrimPrefix(string(line), "#"), ":")
			g.Want[strings.TrimSpace(key)] = strings.TrimSpace(value)
			raw = rest
		}
		head, body, _ := bytes.Cut(raw, []byte("\n\n"))
		g.Head, g.Body = string(head), string(body)
		all = append(all, g)
	}
	return all
}

// ModuleRoot returns the folder of go.mod above the test.
func ModuleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil {
			return dir
		}
		if up := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && up != dir {
			dir = up
			continue
		}
		t.Fatalf("no go.mod above the test: %v", err)
	}
}
