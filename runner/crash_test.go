//go:build unix

package runner

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

// crashEnv tells the test binary that it is the process that is to die: the
// folder, the server's URL, the point and the number of the call.
const crashEnv = "LLMBATCH_TEST_CRASH"

func TestMain(m *testing.M) {
	if spec := os.Getenv(crashEnv); spec != "" {
		os.Exit(crash(strings.Split(spec, " ")))
	}
	os.Exit(m.Run())
}

// points are the moments of an attempt at which the process dies.
const (
	afterRecord = "record" // the row is durable, nothing is sent
	afterSend   = "send"   // the request is written
	afterAnswer = "answer" // the answer is there, nothing of it is stored
	afterCommit = "commit" // the row of the result is durable too
)

// crash runs the input until it kills itself.
func crash(args []string) int {
	dir, url, point := args[0], args[1], args[2]
	at, err := strconv.Atoi(args[3])
	if err != nil {
		panic(err)
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		panic(err)
	}
	die := func(here string) func(n int) {
		return func(n int) {
			if here == point && n == at {
				_ = self.Kill()
				select {} // until it is dead
			}
		}
	}
	d := newDesk(&testing.T{}, dir, fake.Config{})
	c := d.config()
	client, err := NewClient(Endpoint{Profile: profile(), BaseURL: url + "/v1"})
	if err != nil {
		panic(err)
	}
	c.Targets[0].Client = &watched{Client: client, before: die(afterRecord), after: die(afterAnswer), sent: die(afterSend)}
	c.Tee = &killer{die: die(afterCommit)}
	c.Targets[0].Limits.RPM, c.Targets[0].Limits.TPM = limit.Cap{Set: true}, limit.Cap{Set: true}
	if _, err := Run(context.Background(), c); err != nil {
		panic(err)
	}
	return 0
}

// killer counts the lines that are copied after their commit.
type killer struct {
	n   int
	die func(n int)
}

func (k *killer) Write(p []byte) (int, error) {
	k.n++
	k.die(k.n)
	return len(p), nil
}

// crashed runs the input in a process of its own, which has to die by its own
// hand.
func (d *desk) crashed(dir, url, point string, at int) {
	d.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+strings.Join([]string{dir, url, point, strconv.Itoa(at)}, " "))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(exit.String(), "killed") {
		d.Fatalf("at %s %d: the process ended with %v, want killed\n%s", point, at, err, stderr.String())
	}
}

func TestKilledAtEachPoint(t *testing.T) {
	const n = 120
	for _, point := range []string{afterRecord, afterSend, afterAnswer, afterCommit} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := newDesk(t, dir, fake.Config{Latency: 5 * time.Millisecond, HonourKeys: true})
			d.input(prompts(n)...)
			web := httptest.NewServer(d.server)
			defer web.Close()

			inFlight := 0
			for _, at := range []int{1, 7, 23} {
				d.crashed(dir, web.URL, point, at)
				doubt := d.inFlight()
				if doubt == 0 && point != afterCommit {
					d.Errorf("killed at %s %d, and no row is in flight", point, at)
				}
				inFlight += doubt
			}
			paid := d.server.Stats().Billed
			d.age(10 * time.Second)
			s := d.run(func(c *Config) { c.Targets[0].Client = reach(d, web.URL) })
			d.whole(ids(n)...)
			st := d.server.Stats()
			if st.Billed != n || st.TwiceBodies.Operations != 0 || st.Rekeyed != 0 {
				d.Errorf("%d calls were billed, %d operations twice, %d under two keys; want %d, 0, 0", st.Billed, st.TwiceBodies.Operations, st.Rekeyed, n)
			}
			if s.PossiblyTwice > int64(inFlight) {
				d.Errorf("%d calls are listed as possibly billed twice, and %d were in flight at the kills", s.PossiblyTwice, inFlight)
			}
			if point == afterCommit && paid == 0 {
				d.Error("nothing was paid for before the kills: the test shows nothing")
			}
		})
	}
}

// age makes all attempts older, so that the next run need not wait until the
// unknown ones can be asked for again.
func (d *desk) age(by time.Duration) {
	d.Helper()
	s, err := checkpoint.Open(d.paths.Checkpoint, checkpoint.Options{})
	if err != nil {
		d.Fatal(err)
	}
	var all []*checkpoint.Operation
	err = s.All(func(op *checkpoint.Operation) error {
		older := *op
		for i := range older.Attempts {
			older.Attempts[i].At = older.Attempts[i].At.Add(-by)
		}
		if !older.NotBefore.IsZero() {
			older.NotBefore = older.NotBefore.Add(-by)
		}
		all = append(all, &older)
		return nil
	})
	if err := errors.Join(err, s.PutAll(all, nil), s.Close()); err != nil {
		d.Fatal(err)
	}
}

// reach is a client for a server behind a socket.
func reach(d *desk, url string) provider.Client {
	client, err := NewClient(Endpoint{Profile: profile(), BaseURL: url + "/v1"})
	if err != nil {
		d.Fatal(err)
	}
	return client
}

// A process that dies between the result line and its commit leaves a line
// that no row knows. To make some, the rows of a killed run are put back
// behind the run that followed.
func TestPaidLineWithoutItsCommitIsAdopted(t *testing.T) {
	dir := t.TempDir()
	d := newDesk(t, dir, fake.Config{})
	d.input(prompts(6)...)
	web := httptest.NewServer(d.server)
	defer web.Close()
	client := func(c *Config) { c.Targets[0].Client = reach(d, web.URL) }

	d.crashed(dir, web.URL, afterAnswer, 6)
	d.age(10 * time.Second)
	old := d.text(d.paths.Checkpoint)
	doubtful := d.inFlight()
	d.run(client)
	answers, calls := d.whole(ids(6)...), d.asked()

	d.put(d.paths.Checkpoint, old)
	d.run(client)
	d.wantCalls(calls, 0)
	if doubtful == 0 || !d.told("adopted") {
		t.Errorf("%d rows were in flight, notices %q; want some, and their lines adopted", doubtful, d.notices)
	}
	for id, l := range d.whole(ids(6)...) {
		if string(l.Response.Body) != string(answers[id].Response.Body) {
			t.Errorf("%s: the adopted answer is not the one that was paid for", id)
		}
	}
}

// inFlight counts the rows whose call was under way when the process died.
func (d *desk) inFlight() (n int) {
	d.Helper()
	for _, op := range d.rows() {
		if op.Status == checkpoint.InFlight {
			n++
		}
	}
	return n
}
