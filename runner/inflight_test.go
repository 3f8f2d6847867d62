package runner

import (
	"net/http/httptest"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

// TestThousandInFlight allows a thousand calls on real connections at once. Every
// answer is stored, and the goroutines and descriptors of before are those of
// afterwards.
func TestThousandInFlight(t *testing.T) {
	const calls = 1000
	mock := fake.New(fake.Config{Latency: 100 * time.Millisecond})
	server := httptest.NewServer(mock)
	defer server.Close()
	d := newDesk(t, t.TempDir(), fake.Config{})
	d.input(prompts(2 * calls)...)
	goroutines, descriptors := runtime.NumGoroutine(), open(t)
	client := provider.TransportOptions{Concurrency: calls}
	made, err := NewClient(Endpoint{Profile: profile(), BaseURL: server.URL + "/v1", Transport: client})
	if err != nil {
		t.Fatal(err)
	}
	s := d.run(func(c *Config) {
		c.Targets[0].Client = made
		c.Targets[0].Limits = limit.Limits{Concurrency: calls}
	})
	if s.Completed != 2*calls || s.Calls != 2*calls || len(d.lines(d.paths.Output)) != 2*calls {
		t.Errorf("got %d completed with %d calls, %d lines; want %d of each", s.Completed, s.Calls, len(d.lines(d.paths.Output)), 2*calls)
	}
	// How many there were at once is the machine's affair: the load group of the
	// figures program has to reach them.
	t.Logf("%d calls in flight at most", mock.Stats().MaxInFlight)
	server.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(20 * time.Second); runtime.NumGoroutine() > goroutines || open(t) > descriptors; {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("got %d goroutines and %d descriptors, want %d and %d as before", runtime.NumGoroutine(), open(t), goroutines, descriptors)
		}
	}
}

// open counts the descriptors of this process, where the system tells.
func open(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(all)
}
