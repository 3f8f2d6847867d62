package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// canary is the one key that must not be found anywhere, nor what gives it away.
const canary = "sk-CANARY-7f3a9c0d5e"

// secretPrompt must not be found in what is written about a run, apart from its
// results.
const secretPrompt = "PROMPT-CANARY-51c2"

// traces are the forms of the key that are searched for: as it is (and so its
// URL-escaped form), its first 12 characters, its end, and base64 at each
// alignment.
func traces() []string {
	all := []string{canary[:12], canary[10:], url.QueryEscape(canary)}
	for shift := range 3 {
		e := base64.RawStdEncoding.EncodeToString([]byte("user:"[:shift] + canary))
		all = append(all, e[4:len(e)-4])
	}
	return all
}

// echo answers as the prompt says, and shows the key wherever a careless or a
// hostile server could.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	h := w.Header()
	for _, name := range []string{"X-Request-Id", "Cf-Ray", "X-Ratelimit-Reset-Requests", "X-Should-Retry"} {
		h.Set(name, "req "+key)
	}
	h.Set("Content-Type", "application/json")
	fail := func(status int) {
		w.WriteHeader(status)
		// An error of the server's reading end concerns the client, which is tested.
		_, _ = fmt.Fprintf(w, `{"error":{"code":%[1]q,"type":%[1]q,"param":%[1]q,"message":"Incorrect API key provided: %[1]s, that is %[2]s, \u0073%[3]s"},"headers":{"Authorization":"Bearer %[1]s"}}`,
			key, base64.StdEncoding.EncodeToString([]byte("Bearer "+key)), key[1:])
	}
	switch {
	case bytes.Contains(body, []byte("answer 401")):
		fail(401)
	case bytes.Contains(body, []byte("answer 400")):
		fail(400)
	case bytes.Contains(body, []byte("answer 429")):
		fail(429)
	case bytes.Contains(body, []byte("answer page")):
		h.Set("Content-Type", "text/html")
		w.WriteHeader(502)
		_, _ = io.WriteString(w, "<html>"+key+"</html>")
	case bytes.Contains(body, []byte("answer elsewhere")):
		h.Set("Location", "http://127.0.0.2:1/?key="+key)
		w.WriteHeader(307)
	case bytes.Contains(body, []byte("answer never")):
		<-r.Context().Done()
	default:
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"fine"}}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`)
	}
}

// TestKeyIsNowhere runs the program as a process, once for each way a call can
// end, and searches all that it leaves and shows for the key: both streams,
// every file of its folders as it runs and afterwards (results, dead letters,
// checkpoint, temporary files, status, log at its highest level, metrics), the
// metrics page, its command line, and the dump that SIGQUIT brings.
func TestKeyIsNowhere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, tt := range []struct {
		name, prompt string
		exit         int
		args, env    []string
		quit         bool
	}{
		{name: "success", prompt: "answer", exit: 0},
		{name: "refused key", prompt: "answer 401", exit: 4},
		{name: "invalid", prompt: "answer 400", exit: 3},
		{name: "rate limit", prompt: "answer 429", exit: 3, args: []string{"--max-attempts", "2"}},
		{name: "page", prompt: "answer page", exit: 4, args: []string{"--max-outage", "500ms"}},
		{name: "redirect", prompt: "answer elsewhere", exit: 3},
		{name: "timeout", prompt: "answer never", exit: 3, args: []string{"--timeout", "200ms", "--max-attempts", "1"}},
		{name: "no server", prompt: "answer", exit: 4, args: []string{"--max-outage", "500ms", "--base-url", closed.URL + "/v1"}},
		{name: "key in the URL", prompt: "answer", exit: 2, args: []string{"--base-url", closed.URL + "/v1?key=" + canary}},
		{name: "proxy", prompt: "answer", exit: 4, args: []string{"--max-outage", "500ms", "--base-url", "https://provider.test/v1"}, env: []string{"HTTPS_PROXY=http://u:" + canary + "@" + closed.Listener.Addr().String()}},
		{name: "odd proxy", prompt: "answer", exit: 4, args: []string{"--max-outage", "500ms", "--base-url", "https://provider.test/v1"}, env: []string{"HTTPS_PROXY=http://u:" + canary + "@:x"}},
		{name: "SIGQUIT", prompt: "answer never", exit: 2, quit: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := &watched{T: t, dir: t.TempDir()}
			var lines strings.Builder
			for i := range 3 {
				fmt.Fprintf(&lines, `{"id":"l%d","prompt":"%s %s","model":"m"}`+"\n", i, secretPrompt, tt.prompt)
			}
			w.write("x.jsonl", lines.String())
			args := []string{"run", "x.jsonl", "--json", "--log-file", "run.log", "--log-level", "debug", "--metrics-addr", ":0", "--metrics-file", "m.prom", "--base-url", server.URL + "/v1"}
			got := w.run(tt.env, tt.quit, append(args, tt.args...))
			if got != tt.exit {
				t.Errorf("got exit status %d, want %d\n%s", got, tt.exit, w.stderr.String())
			}
			if tt.quit && !strings.Contains(w.stderr.String(), "goroutine ") {
				t.Errorf("no dump came: %s", w.stderr.String())
			}
			w.search()
		})
	}
}

// watched is a process whose traces are looked at.
type watched struct {
	*testing.T
	dir            string
	stdout, stderr bytes.Buffer
}

func (w *watched) write(name, content string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		w.Fatal(err)
	}
}

// run runs the program to its end, or until it is quit, and looks at its files,
// its metrics and its command line all the while.
func (w *watched) run(env []string, quit bool, args []string) int {
	w.Helper()
	c := exec.Command("llmbatch", args...)
	c.Dir, c.Stdout, c.Stderr = w.dir, &w.stdout, &w.stderr
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "XDG_CACHE_HOME=" + w.dir, "TMPDIR=" + w.dir, "OPENAI_API_KEY=" + canary}, env...)
	inURL := strings.Contains(strings.Join(args, " "), canary) // the caller's own doing
	if err := c.Start(); err != nil {
		w.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = c.Wait() // the status is read from ProcessState
		close(exited)
	}()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		select {
		case <-exited:
			return c.ProcessState.ExitCode()
		case <-late:
			_ = c.Process.Kill()
			<-exited
			w.Fatalf("still runs after %v", patience)
		case <-tick.C:
		}
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.Process.Pid))
		if err == nil && !inURL {
			w.clean("the command line", cmdline)
		}
		w.searchFiles()
		prom, _ := os.ReadFile(filepath.Join(w.dir, "m.prom"))
		status, _ := os.ReadFile(filepath.Join(w.dir, "x.llmbatch.db.status.json"))
		if started := bytes.Contains(prom, []byte("llm_")) || len(status) > 0; quit && started && w.inFlight() {
			quit = false
			if err := c.Process.Signal(syscall.SIGQUIT); err != nil {
				w.Error(err)
			}
		}
	}
}

// inFlight says that the log tells of a call that was sent.
func (w *watched) inFlight() bool {
	log, _ := os.ReadFile(filepath.Join(w.dir, "run.log"))
	return bytes.Contains(log, []byte("sent"))
}

// search looks through all that the run left.
func (w *watched) search() {
	w.Helper()
	for name, b := range map[string][]byte{"stdout": w.stdout.Bytes(), "stderr": w.stderr.Bytes()} {
		w.clean(name, b)
		w.promptless(name, b)
	}
	if n := w.searchFiles(); n < 3 && w.stdout.Len() > 0 {
		w.Errorf("only %d files were searched", n)
	}
	for _, name := range []string{"run.log", "m.prom"} {
		b, err := os.ReadFile(filepath.Join(w.dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.Fatal(err)
		}
		w.promptless(name, b)
	}
}

// searchFiles looks at every byte of every file in the folder, and says how
// many there are.
func (w *watched) searchFiles() (n int) {
	w.Helper()
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return ignoreGone(err)
		}
		b, err := os.ReadFile(path)
		if err == nil {
			n++
			w.clean(filepath.Base(path), b)
		}
		return ignoreGone(err)
	})
	if err != nil {
		w.Error(err)
	}
	return n
}

// ignoreGone is for files that are renamed or removed while they are looked at.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (w *watched) clean(what string, b []byte) {
	w.Helper()
	for _, trace := range traces() {
		if i := bytes.Index(b, []byte(trace)); i >= 0 {
			w.Errorf("the key shows in %s: %q", what, b[max(0, i-60):min(len(b), i+40)])
			return
		}
	}
}

func (w *watched) promptless(what string, b []byte) {
	w.Helper()
	if i := bytes.Index(b, []byte(secretPrompt)); i >= 0 {
		w.Errorf("a prompt shows in %s: %q", what, b[max(0, i-60):min(len(b), i+40)])
	}
}
