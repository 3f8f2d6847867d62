package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReliabilityNamesTests holds docs/RELIABILITY.md to tests that exist: each
// that it names, and a row for each number of its tables.
func TestReliabilityNamesTests(t *testing.T) {
	raw, err := os.ReadFile("docs/RELIABILITY.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case strings.HasSuffix(path, ".txtar"):
			known[filepath.Base(path)] = true
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range declared.FindAllSubmatch(text, -1) {
				known[string(m[1])] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`((?:Test|Fuzz)\\w+|\\w+\\.txtar)`").FindAllSubmatch(raw, -1) {
		if name := string(m[1]); !known[name] {
			t.Errorf("docs/RELIABILITY.md names %s, which is not there", name)
		}
	}
	for letter, last := range map[string]int{"P": 10, "S": 24} {
		for n := 1; n <= last; n++ {
			if row := fmt.Sprintf("\n| %s%d | ", letter, n); !strings.Contains(string(raw), row) {
				t.Errorf("docs/RELIABILITY.md has no row %s%d", letter, n)
			}
		}
	}
}

// TestNothingIsReplaced: what is built is what the module's requirements say.
func TestNothingIsReplaced(t *testing.T) {
	raw, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?m)^\s*(replace|exclude)\b`).Match(raw) {
		t.Error("go.mod replaces or excludes a module")
	}
}
