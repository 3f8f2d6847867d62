package providertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// Harness makes the clients under test.
type Harness struct {
	// New makes a client for a base URL; profile is the golden answers' folder.
	New func(t testing.TB, profile, base string, o provider.TransportOptions) provider.Client
	// API and Success are a request's API and a body that answers it.
	API, Success string
	// Folders are those of golden answers that the client reads.
	Folders []string
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	t.Run("wire", h.wire)
	t.Run("redirect", h.redirect)
	t.Run("keep-alive dropped", h.keepAlive)
	t.Run("refused", h.refused)
	t.Run("cancelled", h.cancelled)
	t.Run("TLS", h.tls)
	for _, folder := range h.Folders {
		for _, g := range LoadGolden(t, folder) {
			t.Run(folder+"/"+g.Name, func(t *testing.T) { h.golden(t, folder, g) })
		}
	}
}

// do makes one call and returns its error as the type it must have.
func do(t testing.TB, c provider.Client, r provider.Request) (*provider.Response, *provider.Error) {
	t.Helper()
	if r.Body == nil {
		r.Body = []byte(`{"model":"m"}`)
	}
	resp, err := c.Do(context.Background(), r)
	if err == nil {
		return resp, nil
	}
	var e *provider.Error
	if !errors.As(err, &e) || resp != nil {
		t.Fatalf("got %v and %v, want either a response or a provider error", resp, err)
	}
	return nil, e
}

// golden serves one golden answer and compares what becomes of it.
func (h Harness) golden(t *testing.T, folder string, g Golden) {
	s := Serve(t, func(c net.Conn, _ Seen) bool {
		Write(c, g.Head+"\nContent-Length: "+strconv.Itoa(len(g.Body)), g.Body)
		return false
	})
	api := g.Want["api"]
	if api == "" {
		api = h.API
	}
	resp, e := do(t, h.New(t, folder, s.URL, provider.TransportOptions{}), provider.Request{API: api, Model: "m"})
	got := map[string]string{"kind": "ok"}
	if resp != nil {
		got["finish"], got["id"], got["model"], got["request_id"] = resp.Finish, resp.ID, resp.Model, resp.RequestID
		u := resp.Usage
		got["usage"] = fmt.Sprintf("%d in %d cached %d out %d reasoning", u.Input, u.Cached, u.Output, u.Reasoning)
		got["body"] = strings.TrimSpace(g.Body)
		if string(resp.Body) != got["body"] && g.Want["body"] == "" {
			t.Errorf("got the body %q, want it byte for byte", resp.Body)
		}
		got["body"] = string(resp.Body)
	} else {
		got["kind"], got["code"], got["message"] = e.Kind.String(), e.Code, e.Message
		got["limit_type"], got["request_id"], got["recheck"] = e.LimitType, e.RequestID, strconv.FormatBool(e.Recheck)
		got["unknown"] = strconv.FormatBool(e.Unknown())
		got["hint"] = "none"
		if e.HasRetryAfter {
			got["hint"] = e.RetryAfter.String()
		}
		if !e.Reset.IsZero() {
			got["reset"] = e.Reset.Sub(e.SentAt).Round(time.Second).String()
		}
		if !e.Sent || e.SentAt.IsZero() || e.Provider == "" {
			t.Errorf("got %+v, want sent, when, and the provider", e)
		}
	}
	for key, want := range g.Want {
		if _, known := got[key]; !known && key != "api" {
			t.Errorf("%s: nothing of that name came (%v)", key, e)
		} else if key != "api" && got[key] != want {
			t.Errorf("%s: got %q, want %q (%v)", key, got[key], want, e)
		}
	}
}
