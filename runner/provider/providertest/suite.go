package providertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
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
	// Body is a request's body; empty = one with a model alone.
	Body string
	// Stream is a stream that answers it, and Streamed the body put together
	// from it.
	Stream, Streamed string
	// Folders are those of golden answers that the client reads.
	Folders []string
	// Lookups are what look-ups may be answered; none = the client has none.
	Lookups []Lookup
}

// Options are those of a client of a profile, with a key, at a base URL. Its
// transport ends with the test.
func Options(t testing.TB, profile, key, base string, o provider.TransportOptions) provider.Options {
	t.Helper()
	p, ok := provider.Lookup(profile)
	if !ok {
		t.Fatalf("no profile %q", profile)
	}
	secret, err := provider.NewSecret(key)
	if err != nil {
		t.Fatal(err)
	}
	tr := provider.NewTransport(o)
	t.Cleanup(tr.Close)
	return provider.Options{Profile: p, BaseURL: base, Key: secret, Transport: tr}
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	t.Run("wire", h.wire)
	t.Run("redirect", h.redirect)
	t.Run("keep-alive dropped", h.keepAlive)
	t.Run("refused", h.refused)
	t.Run("check", h.check)
	t.Run("cancelled", h.cancelled)
	t.Run("TLS", h.tls)
	t.Run("stream", h.stream)
	t.Run("look-up", h.lookUp)
	for _, folder := range h.Folders {
		for _, g := range LoadGolden(t, folder) {
			t.Run(folder+"/"+g.Name, func(t *testing.T) { h.golden(t, folder, g) })
		}
	}
}

// do makes one call and returns its error as the type it must have.
func (h Harness) do(t testing.TB, c provider.Client, r provider.Request) (*provider.Response, *provider.Error) {
	t.Helper()
	if r.API == "" {
		r.API = h.API
	}
	if r.Model == "" {
		r.Model = "m"
	}
	if r.Body == nil {
		r.Body = h.body(r.API)
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

// body is a request that every client of the API sends.
func (h Harness) body(api string) []byte {
	switch {
	case h.Body != "" && api == h.API:
		return []byte(h.Body)
	case api == "/chat/completions":
		return []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	case api == "/embeddings":
		return []byte(`{"model":"m","input":["hi"]}`)
	default:
		return []byte(`{"model":"m"}`)
	}
}

// native is the answer as it came.
func native(r *provider.Response) string {
	if r.Native != nil {
		return string(r.Native)
	}
	return string(r.Body)
}

// golden serves one golden answer and compares what becomes of it. One that is
// no stream must become the same where a stream was asked for.
func (h Harness) golden(t *testing.T, folder string, g Golden) {
	streamed := g.Want["stream"] != ""
	for _, stream := range []bool{false, true} {
		if !streamed || stream {
			h.compare(t, g, stream, h.serve(t, folder, g, stream, len(g.Body)))
		}
	}
	if streamed && g.Want["whole"] != "" {
		h.cut(t, folder, g)
	}
}

// served is what came of a call.
type served struct {
	resp *provider.Response
	err  *provider.Error
}

// serve answers one call with the first n bytes of a golden answer's body.
func (h Harness) serve(t *testing.T, folder string, g Golden, stream bool, n int) served {
	s := Serve(t, func(c net.Conn, _ Seen) bool {
		Write(c, g.Head+"\nConnection: close\nContent-Length: "+strconv.Itoa(n), g.Body[:n])
		return false
	})
	c := h.New(t, folder, s.URL, provider.TransportOptions{})
	r := provider.Request{API: g.Want["api"], Stream: stream}
	if body := g.Want["request"]; body != "" {
		r.Body = []byte(body)
	}
	resp, err := h.do(t, c, r)
	return served{resp, err}
}

// cut ends a stream behind each of its events, and within each. Up to the
// event that makes it whole, the outcome is unknown.
func (h Harness) cut(t *testing.T, folder string, g Golden) {
	whole, err := strconv.Atoi(g.Want["whole"])
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, event := range strings.SplitAfter(g.Body, "\n\n") {
		for _, at := range []int{n, n + len(event)/2} {
			got := h.serve(t, folder, g, true, at)
			switch {
			case i < whole && (got.err == nil || !got.err.Unknown()):
				t.Errorf("cut at %d, in event %d: got %+v, want an unknown outcome", at, i+1, got)
			case i >= whole && got.err != nil:
				t.Errorf("cut at %d, behind the event that ends it: got %v, want the answer", at, got.err)
			}
		}
		n += len(event)
	}
}

func (h Harness) compare(t *testing.T, g Golden, stream bool, s served) {
	got := map[string]string{"kind": "ok"}
	if resp := s.resp; resp != nil {
		got["finish"], got["id"], got["model"], got["request_id"] = resp.Finish, resp.ID, resp.Model, resp.RequestID
		u := resp.Usage
		got["usage"] = fmt.Sprintf("%d in %d cached %d out %d reasoning", u.Input, u.Cached, u.Output, u.Reasoning)
		if g.Want["stream"] == "" && g.Want["body"] == "" && native(resp) != strings.TrimSpace(g.Body) {
			t.Errorf("got the body %q, want it byte for byte", native(resp))
		}
		got["body"], got["native"] = created.ReplaceAllString(string(resp.Body), `"created":0`), string(resp.Native)
	} else {
		e := s.err
		got["kind"], got["code"], got["message"] = e.Kind.String(), e.Code, e.Message
		got["limit_type"], got["request_id"], got["recheck"] = e.LimitType, e.RequestID, strconv.FormatBool(e.Recheck)
		got["unknown"] = strconv.FormatBool(e.Unknown())
		got["limits"] = fmt.Sprintf("%d requests %d tokens %d in %d out", e.Rate.Requests.Limit, e.Rate.Tokens.Limit, e.Rate.Input.Limit, e.Rate.Output.Limit)
		got["hint"] = "none"
		if e.HasRetryAfter {
			got["hint"] = e.RetryAfter.String()
		}
		if !e.Reset.IsZero() {
			got["reset"] = e.Reset.Sub(e.SentAt).Round(time.Second).String()
			got["reset_at"] = e.Reset.UTC().Format(time.RFC3339)
		}
		if !e.Sent || e.SentAt.IsZero() || e.Provider == "" {
			t.Errorf("got %+v, want sent, when, and the provider", e)
		}
	}
	for key, want := range g.Want {
		switch key {
		case "api", "stream", "whole", "request":
			continue
		}
		if _, known := got[key]; !known {
			t.Errorf("streamed %t: %s: nothing of that name came (%v)", stream, key, s.err)
		} else if got[key] != want {
			t.Errorf("streamed %t: %s: got %q, want %q (%v)", stream, key, got[key], want, s.err)
		}
	}
}

// created is the one field of a translated answer that changes by the clock.
var created = regexp.MustCompile(`"created":[0-9]{10}`)
