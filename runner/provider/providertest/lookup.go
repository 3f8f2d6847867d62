package providertest

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// Lookup is a look-up with its answers and what it must find.
type Lookup struct {
	Name, Profile, API string
	Answers            map[string]string // by path and query after the base URL: head, an empty line, body; others are 404
	Want               provider.Fate
	Failed             bool          // of FateEnded: nothing is billed
	Kind               provider.Kind // of the error, if it must fail
	Body               string        // of an answer that is found
}

// lookUp: each look-up finds what it must, by GETs that carry no idempotency
// key and are sent once.
func (h Harness) lookUp(t *testing.T) {
	if len(h.Lookups) == 0 {
		if _, looks := h.New(t, "", "http://127.0.0.1:1", provider.TransportOptions{}).(provider.Looker); looks {
			t.Error("the client looks answers up, and no case says how")
		}
		return
	}
	for _, l := range h.Lookups {
		t.Run(l.Name, func(t *testing.T) {
			var mu sync.Mutex
			asked := map[string]int{}
			s := Serve(t, func(c net.Conn, r Seen) bool {
				where := strings.TrimSuffix(r.Path+"?"+r.Query, "?")
				mu.Lock()
				asked[where]++
				mu.Unlock()
				if r.Method != "GET" || r.Body != "" || r.Header.Get("Idempotency-Key") != "" {
					t.Errorf("got %s with %q and %v", r.Method, r.Body, r.Header)
				}
				answer, known := l.Answers[where]
				switch {
				case !known:
					answer = "HTTP/1.1 404 Not Found\nContent-Type: application/json\nConnection: close\n\n" + `{"error":{"message":"No such thing.","type":"invalid_request_error"}}`
				case answer == "":
					Reset(c)
					return false
				}
				head, body, _ := strings.Cut(answer, "\n\n")
				Write(c, head, body)
				return false
			})
			c := h.New(t, l.Profile, s.URL, provider.TransportOptions{}).(provider.Looker)
			found, err := c.LookUp(t.Context(), provider.Request{API: l.API, Model: "m", Body: h.body(l.API)}, "id/1")
			var e *provider.Error
			switch {
			case l.Kind != provider.KindNone:
				if !errors.As(err, &e) || e.Kind != l.Kind {
					t.Errorf("got %+v, %v; want %s", found, err, l.Kind)
				}
			case err != nil || found.Fate != l.Want || found.Failed != l.Failed:
				t.Errorf("got %+v, %v; want %s, failed %t", found, err, l.Want, l.Failed)
			case l.Want == provider.FateAnswered && string(found.Response.Body) != l.Body:
				t.Errorf("got %s, want %s", found.Response.Body, l.Body)
			}
			mu.Lock()
			defer mu.Unlock()
			for where, n := range asked {
				if n != 1 {
					t.Errorf("%s was asked %d times, want once", where, n)
				}
			}
		})
	}
}
