package cmd

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

// saw is a server that keeps the bodies it gets, and answers 401 for a model
// named "locked".
type saw struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

func newSaw(t *testing.T) *saw {
	s, inner := &saw{}, fake.New(fake.Config{})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		s.mu.Lock()
		s.bodies = append(s.bodies, string(body))
		s.mu.Unlock()
		if strings.Contains(string(body), `"locked"`) {
			http.Error(w, `{"error":{"type":"invalid_request_error","code":"invalid_api_key","message":"Incorrect API key provided."}}`, http.StatusUnauthorized)
			return
		}
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		inner.ServeHTTP(w, q)
	}))
	t.Cleanup(s.Close)
	return s
}

// got are the bodies, each once, in the order of their text.
func (s *saw) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]bool{}
	for _, b := range s.bodies {
		all[b] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// runConfig runs lines under a config file and gives the status and what was
// said. The folder is where x.jsonl and its results are.
func runConfig(t *testing.T, lines, config string, args ...string) (status int, said, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"x.jsonl": lines, "routes.yaml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var errs strings.Builder
	status = Main(Env{
		Args:  append([]string{"run", filepath.Join(dir, "x.jsonl"), "--config", filepath.Join(dir, "routes.yaml")}, args...),
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &errs,
		Getenv: func(name string) string { return map[string]string{"TEST_KEY": "k"}[name] },
		IsTTY:  func() bool { return false }, StdoutIsTTY: func() bool { return false },
		Width: func() int { return 0 }, StdoutSize: func() (int, int) { return 0, 0 },
	})
	return status, errs.String(), dir
}

// Providers have different names for the output cap: each gets its own, also one
// that takes over. What callers wrote as a body stays byte for byte.
func TestCapsAfterAFallback(t *testing.T) {
	first, spare := newSaw(t), newSaw(t)
	const batch = `{"model":"locked", "max_tokens":3, "messages":[{"role":"user","content":"b"}]}`
	status, said, _ := runConfig(t,
		`{"id":"p","prompt":"p","max_tokens":7}`+"\n"+
			`{"id":"q","task":"free","prompt":"q","max_tokens":8}`+"\n"+
			`{"custom_id":"b","method":"POST","url":"/v1/chat/completions","body":`+batch+"}\n",
		fmt.Sprintf(`
providers:
  first: {kind: openai, base_url: "%s/v1", api_key_env: TEST_KEY}
  spare: {kind: mistral, base_url: "%s/v1", api_key_env: TEST_KEY}
tasks:
  default:
    primary: {provider: first, model: locked}
    fallbacks: [{provider: spare, model: open, when: [primary_unavailable]}]
  free:
    primary: {provider: first, model: gpt-5}
    fallbacks: [{provider: spare, model: open, when: [primary_unavailable]}]
`, first.URL, spare.URL), "--concurrency", "1")
	if status != exitOK {
		t.Fatalf("got status %d: %s", status, said)
	}
	const user = `"messages":[{"role":"user","content":%q}]`
	asked := func(model, text, limit string) string {
		return fmt.Sprintf(`{"model":%q,`+user+`,%s}`, model, text, limit)
	}
	free := asked("gpt-5", "q", `"max_completion_tokens":8`)
	for _, body := range first.got() {
		if body != asked("locked", "p", `"max_completion_tokens":7`) && body != batch && body != free {
			t.Errorf("the primary got %s", body)
		}
	}
	want := []string{strings.Replace(batch, "locked", "open", 1), asked("open", "p", `"max_tokens":7`)}
	slices.Sort(want)
	got := slices.DeleteFunc(spare.got(), func(b string) bool { return b == asked("open", "q", `"max_tokens":8`) })
	if !slices.Equal(got, want) {
		t.Errorf("the fallback got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A config without a default task needs no model in lines whose task has one.
func TestTaskNamesTheModel(t *testing.T) {
	s := newSaw(t)
	config := fmt.Sprintf(`
providers:
  house: {kind: openai-compatible, base_url: "%s/v1"}
tasks:
  sort: {primary: {provider: house, model: small}}
  write: {primary: {provider: house, model: large}}
`, s.URL)
	status, said, _ := runConfig(t, `{"id":"a","task":"sort","prompt":"a"}`+"\n"+`{"id":"b","task":"write","prompt":"b"}`+"\n", config)
	want := []string{
		`{"model":"large","messages":[{"role":"user","content":"b"}]}`,
		`{"model":"small","messages":[{"role":"user","content":"a"}]}`,
	}
	if got := s.got(); status != exitOK || !slices.Equal(got, want) {
		t.Errorf("got status %d and bodies %q, want 0 and %q: %s", status, got, want, said)
	}
	status, said, _ = runConfig(t, `{"id":"a","task":"sort","prompt":"a"}`+"\n"+`{"id":"c","prompt":"c"}`+"\n", config)
	if status != exitUsage || !strings.Contains(said, "line 2") || !strings.Contains(said, "no model") {
		t.Errorf("got status %d, want %d and line 2 named: %s", status, exitUsage, said)
	}
}
