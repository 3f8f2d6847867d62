package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/llmbatch/llmbatch"

// layers says what each package may import of this module. A leaf imports
// nothing; a package that is missing here fails the test. docs/DESIGN.md has the
// reasons.
var layers = map[string][]string{
	".": {"cmd"},
	"cmd": {
		"checkpoint", "estimate", "runner", "runner/input", "runner/limit", "runner/metrics",
		"runner/money", "runner/provider", "runner/provider/fake", "runner/report", "runner/result", "runner/route",
	},
	"runner": {
		"checkpoint", "estimate", "runner/cache", "runner/input", "runner/limit", "runner/money", "runner/provider", "runner/provider/anthropic",
		"runner/provider/gemini", "runner/provider/openai", "runner/queue", "runner/result", "runner/retry", "runner/route", "runner/series",
	},
	"runner/metrics": {"runner", "runner/provider", "runner/route"},
	"runner/report": {
		"checkpoint", "runner", "runner/limit", "runner/money", "runner/provider", "runner/result", "runner/series",
	},
	"runner/route":                 {"runner/limit", "runner/money", "runner/provider", "runner/retry"},
	"runner/retry":                 {"runner/provider"},
	"runner/provider/anthropic":    {"runner/provider", "runner/provider/chat", "runner/provider/wire"},
	"runner/provider/chat":         {"runner/provider", "runner/provider/wire"},
	"runner/provider/fake":         {"runner/provider"},
	"runner/provider/gemini":       {"runner/provider", "runner/provider/chat", "runner/provider/wire"},
	"runner/provider/openai":       {"runner/provider", "runner/provider/wire"},
	"runner/provider/providertest": {"runner/provider"},
	"runner/provider/wire":         {"runner/provider"},
	"checkpoint":                   {},
	"estimate":                     {},
	"runner/cache":                 {},
	"runner/input":                 {},
	"runner/limit":                 {},
	"runner/money":                 {},
	"runner/provider":              {},
	"runner/queue":                 {},
	"runner/series":                {},
	"runner/result":                {},
	"testdata/faults":              {"testdata/harness"},
	"testdata/figures":             {"testdata/harness"},
	"testdata/harness":             {},
	"testdata/prometheus":          {"testdata/harness"},
	"testdata/report":              {"testdata/harness"},
	"testdata/terminal":            {"testdata/harness"},
}

// owners names the one package that knows each of these modules.
var owners = map[string]string{
	"go.etcd.io/bbolt":                     "checkpoint",
	"github.com/pkoukk/tiktoken-go":        "estimate",
	"github.com/pkoukk/tiktoken-go-loader": "estimate",
	"github.com/spf13/cobra":               "cmd",
	"github.com/schollz/progressbar/v3":    "cmd",
	"go.yaml.in/yaml/v3":                   "runner/route",
	"github.com/go-analyze/charts":         "runner/report",
	"github.com/prometheus/client_golang":  "runner/metrics",
}

// processOnly is what belongs to main and cmd alone: the rest is given its streams
// and settings, and returns errors.
var processOnly = map[string][]string{
	"os":  {"Exit", "Stdout", "Stderr", "Stdin", "Getenv", "LookupEnv", "Environ", "Args"},
	"fmt": {"Print", "Printf", "Println"},
	"log": {"Fatal", "Fatalf", "Fatalln"},
}

// source is one parsed Go file of the module.
type source struct {
	path, pkg string // slash-separated, from the module's root
	test      bool
	file      *ast.File
}

// TestLayering reads the files itself: a test that asked `go list` would be
// answered from the test cache after an import changed.
func TestLayering(t *testing.T) {
	sources := readSources(t)
	for _, s := range sources {
		allowed, known := layers[s.pkg]
		if !known {
			t.Errorf("%s: package %s is not in the import table", s.path, s.pkg)
			continue
		}
		for _, imported := range imports(t, s) {
			inner, ours := strings.CutPrefix(imported, module+"/")
			// Tests are free: runner's drive it against the fake provider.
			if ours && !s.test && !slices.Contains(allowed, inner) {
				t.Errorf("%s: package %s may not import %s", s.path, s.pkg, inner)
			}
			if owner, owned := owners[moduleOf(imported, owners)]; owned && owner != s.pkg {
				t.Errorf("%s: %s is known to package %s alone", s.path, imported, owner)
			}
		}
		if !s.test && s.pkg != "." && s.pkg != "cmd" && !strings.HasPrefix(s.pkg, "testdata/") {
			forbidProcess(t, s)
		}
	}
}

// TestDependenciesAreExplained wants each module that the code imports to be
// named in docs/DESIGN.md, where it says why it beats the standard library.
func TestDependenciesAreExplained(t *testing.T) {
	required := requiredModules(t)
	design, err := os.ReadFile("docs/DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range readSources(t) {
		for _, imported := range imports(t, s) {
			dependency := moduleOf(imported, required)
			if dependency == "" || seen[dependency] {
				continue
			}
			seen[dependency] = true
			if !strings.Contains(string(design), dependency) {
				t.Errorf("%s imports %s, which docs/DESIGN.md does not name", s.path, dependency)
			}
		}
	}
}

func readSources(t *testing.T) []source {
	t.Helper()
	var sources []source
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." {
			// What has a go.mod is a module of its own.
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil || strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
		}
		if !entry.Type().IsRegular() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		sources = append(sources, source{path: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), file: file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) < 2 {
		t.Fatalf("got %d Go files, want the module's", len(sources))
	}
	return sources
}

func imports(t *testing.T, s source) []string {
	t.Helper()
	var paths []string
	for _, spec := range s.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatalf("%s: %v", s.path, err)
		}
		paths = append(paths, imported)
	}
	return paths
}

// moduleOf returns the longest key of modules that holds the package, or "".
func moduleOf[V any](imported string, modules map[string]V) string {
	for imported != "." && imported != "/" {
		if _, ok := modules[imported]; ok {
			return imported
		}
		imported = path.Dir(imported)
	}
	return ""
}

func requiredModules(t *testing.T) map[string]bool {
	t.Helper()
	gomod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	required := map[string]bool{}
	for line := range strings.Lines(string(gomod)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && strings.HasPrefix(fields[1], "v") && strings.Contains(fields[0], ".") {
			required[fields[0]] = true
		}
	}
	if len(required) == 0 {
		t.Fatal("got no required module in go.mod, want some")
	}
	return required
}

func forbidProcess(t *testing.T, s source) {
	t.Helper()
	ast.Inspect(s.file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := selector.X.(*ast.Ident); ok && slices.Contains(processOnly[pkg.Name], selector.Sel.Name) {
			t.Errorf("%s uses %s.%s, which belongs to main and cmd", s.path, pkg.Name, selector.Sel.Name)
		}
		return true
	})
}
