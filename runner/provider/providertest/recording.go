package providertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Recording is a recorded answer, kept beside the repository.
type Recording struct {
	Provider string            `json:"provider"` // the host
	Path     string            `json:"path"`
	Status   int               `json:"status"`
	Headers  map[string]string `json:"headers"`
	Body     json.RawMessage   `json:"body"`
}

// Recordings reads ../shared/data/<name> beside the module's root; the test is
// skipped without it.
func Recordings(t *testing.T, name string) []Recording {
	t.Helper()
	f, err := os.Open(filepath.Join(ModuleRoot(t), "..", "shared", "data", name))
	if err != nil {
		t.Skipf("no recordings here: %v", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	var all []Recording
	for lines.Scan() {
		var r Recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	return all
}

// Serve starts a server that answers with the recording.
func (r Recording) Serve(t *testing.T) *Server {
	t.Helper()
	return Serve(t, func(c net.Conn, _ Seen) bool {
		head := fmt.Sprintf("HTTP/1.1 %d X\nContent-Length: %d", r.Status, len(r.Body))
		for k, v := range r.Headers {
			head += "\n" + k + ": " + v
		}
		Write(c, head, string(r.Body))
		return false
	})
}
