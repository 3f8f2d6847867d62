//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// attack is what a server, an input or a file's name would do to a terminal:
// clear it, set its title, write the clipboard, hide a link, ring, overwrite the
// line, turn the direction of text.
const attack = "\x1b[2J\x1b]0;title\x07\x1b]52;c;cm0=\x07\x1b]8;;http://x\x1b\\\r\u009b31m\u202eevil\u2066"

// TestTerminalIsNotWrittenTo shows hostile text on a terminal, from the server
// (message, code, headers, its model), from the input (model, ID) and from a
// file's name, by each command that shows any.
func TestTerminalIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	quoted := strings.NewReplacer("\x1b", `\u001b`, "\x07", `\u0007`, "\r", `\r`, `\`, `\\`).Replace(attack)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// net/http refuses other control bytes in headers.
		w.Header().Set("X-Request-Id", "r\u009b2J\u202e")
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("good")) {
			_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","model":"`+quoted+`","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"`+quoted+`"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`)
			return
		}
		w.WriteHeader(400)
		_, _ = io.WriteString(w, `{"error":{"message":"bad `+quoted+`","code":"`+quoted+`"}}`)
	}))
	t.Cleanup(server.Close)
	w := &watched{T: t, dir: t.TempDir()}
	name := "x\x1b[2J\u202e.jsonl"
	w.write(name, `{"id":"`+quoted+`","prompt":"bad","model":"`+quoted+`"}`+"\n"+`{"id":"b","prompt":"good","model":"m"}`+"\n")
	w.write("broken\x1b[2J.jsonl", `{"id":"a","prompt":"x",`+quoted+"}\n{\"id\":\""+quoted+"\"}\n")
	for _, tt := range []struct{ args, want string }{
		{"run '" + name + "' --progress none --base-url " + server.URL + "/v1", `\u001b[2J`},
		{"run '" + name + "' --retry-failed --base-url " + server.URL + "/v1", `\u001b[2J`},
		{"run 'broken\x1b[2J.jsonl' --base-url " + server.URL + "/v1", `line 1`},
		{"status '" + name + "'", "completed"},
		{"results '" + name + "' --failed", ""},
		{"results '" + name + "' --format text", "evil"},
		{"estimate '" + name + "'", "operations"},
		{"run '" + name + "' --model '" + attack + "' --base-url 'http://" + attack + "'", "base URL"},
		{"run '" + attack + "'", "no such file"},
	} {
		shown := w.onTerminal("llmbatch " + tt.args)
		if !strings.Contains(shown, tt.want) {
			t.Errorf("%q: got %q, want it to say %q", tt.args, shown, tt.want)
		}
		for _, act := range []string{"\x1b[2J", "\x1b]", "\x07", "\u009b", "\u202e", "\u2066"} {
			if i := strings.Index(shown, act); i >= 0 {
				t.Errorf("%q shows %q in %q", tt.args, act, shown[max(0, i-80):min(len(shown), i+80)])
			}
		}
	}
	// In files the text stays what it was.
	raw, err := os.ReadFile(w.dir + "/x\x1b[2J\u202e.results.jsonl")
	if err != nil || !bytes.Contains(raw, []byte(`\u001b[2J`)) {
		t.Errorf("got %q (%v), want the answer as it came", raw, err)
	}
}

// onTerminal is what a command shows on a terminal. Line ends are made plain.
func (w *watched) onTerminal(command string) string {
	w.Helper()
	screen, tty, err := openTerminal()
	if err != nil {
		w.Fatalf("a terminal: %v", err)
	}
	defer screen.Close()
	c := exec.Command("/bin/sh", "-c", command)
	c.Dir = w.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + w.dir, "OPENAI_API_KEY=" + canary, "TERM=xterm"}
	c.Stdin, c.Stdout, c.Stderr = tty, tty, tty
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = errors.Join(c.Start(), tty.Close())
	if err != nil {
		w.Fatal(err)
	}
	out, err := io.ReadAll(screen)
	if err != nil && !errors.Is(err, syscall.EIO) { // which is its end: nobody has the terminal open
		w.Fatal(err)
	}
	_ = c.Wait() // exit statuses are not the point here
	return strings.ReplaceAll(string(out), "\r\n", "\n")
}

// openTerminal makes a terminal: what is written to tty is read from screen.
func openTerminal() (screen, tty *os.File, err error) {
	if screen, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	var number, locked int32
	for request, value := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &locked} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			return nil, nil, errors.Join(errno, screen.Close())
		}
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, errors.Join(err, screen.Close())
	}
	return screen, tty, nil
}
