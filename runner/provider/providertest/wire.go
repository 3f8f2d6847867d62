package providertest

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// short are timeouts that a test can wait for.
var short = provider.Timeouts{Connect: 5 * time.Second, Headers: 60 * time.Millisecond, Idle: 60 * time.Millisecond, Total: 5 * time.Second}

// fault is one way in which the wire fails.
type fault struct {
	name    string
	answer  func(c net.Conn) // then the connection closes
	hang    bool             // it stays open instead
	want    provider.Kind    // KindNone = a success
	unknown bool
	o       provider.TransportOptions
}

func zipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(s))
	_ = w.Close()
	return b.String()
}

func (h Harness) faults() []fault {
	raw := func(head, body string) func(net.Conn) { return func(c net.Conn) { Write(c, head, body) } }
	halfway := h.Success[:len(h.Success)/2]
	sized := func(status string, n int, more string) string {
		return fmt.Sprintf("HTTP/1.1 %s\nContent-Type: application/json\nContent-Length: %d%s", status, n, more)
	}
	z := zipped(h.Success)
	bomb := zipped(h.Success + strings.Repeat(" ", 20<<20))
	ok := len(h.Success)
	return []fault{
		{name: "success", answer: raw(sized("200 OK", ok, ""), h.Success)},
		{name: "success, gzip", answer: raw(sized("200 OK", len(z), "\nContent-Encoding: gzip"), z)},
		{name: "success, HTTP/1.0 close", answer: raw("HTTP/1.0 200 OK\nContent-Type: application/json", h.Success)},
		{name: "success with BOM", answer: raw(sized("200 OK", ok+3, ""), "\xef\xbb\xbf"+h.Success)},
		{name: "success after blank lines", answer: raw(sized("200 OK", ok+4, ""), "\n\n\r\n"+h.Success)},
		{name: "hang before headers", hang: true, answer: func(net.Conn) {}, want: provider.KindTimeoutBeforeHeaders, unknown: true},
		{name: "hang in the headers", hang: true, answer: func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n")) }, want: provider.KindTimeoutBeforeHeaders, unknown: true},
		{name: "hang in the body", hang: true, answer: raw(sized("200 OK", ok, ""), halfway), want: provider.KindTimeoutMidBody, unknown: true},
		{
			name: "total time", hang: true, answer: raw(sized("200 OK", ok, ""), halfway), want: provider.KindTimeoutMidBody, unknown: true,
			o: provider.TransportOptions{Timeouts: provider.Timeouts{Total: 500 * time.Millisecond}},
		},
		{name: "close before headers", answer: func(net.Conn) {}, want: provider.KindBroken, unknown: true},
		{name: "reset before headers", answer: Reset, want: provider.KindBroken, unknown: true},
		{name: "Content-Length short", answer: raw(sized("200 OK", ok, ""), halfway), want: provider.KindTruncated, unknown: true},
		{name: "chunked cut", answer: raw("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n", len(halfway), halfway)), want: provider.KindTruncated, unknown: true},
		{name: "HTTP/1.0 cut", answer: raw("HTTP/1.0 200 OK", halfway), want: provider.KindTruncated, unknown: true},
		{name: "empty body", answer: raw(sized("200 OK", 0, ""), ""), want: provider.KindTruncated, unknown: true},
		{name: "gzip cut", answer: raw("HTTP/1.0 200 OK\nContent-Encoding: gzip", z[:len(z)/2]), want: provider.KindTruncated, unknown: true},
		{name: "gzip bomb", answer: raw(sized("200 OK", len(bomb), "\nContent-Encoding: gzip"), bomb), want: provider.KindResponseTooLarge, o: provider.TransportOptions{MaxResponse: 1 << 20}},
		{name: "gzip bomb under the cap", answer: raw(sized("200 OK", len(bomb), "\nContent-Encoding: gzip"), bomb), want: provider.KindResponseTooLarge},
		{name: "header bomb", answer: raw(sized("200 OK", ok, "\nX-A: "+strings.Repeat("a", 1<<20)), h.Success), want: provider.KindResponseTooLarge},
		{name: "another encoding", answer: raw(sized("200 OK", ok, "\nContent-Encoding: br"), h.Success), want: provider.KindBadContentType},
		{name: "garbage status line", answer: func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n\r\n")) }, want: provider.KindBroken, unknown: true},
		{name: "page", answer: raw("HTTP/1.0 200 OK\nContent-Type: text/html", "<html>\x1b[2Jlogin</html>"), want: provider.KindBadContentType},
		{name: "text", answer: raw("HTTP/1.0 200 OK", "upstream connect error"), want: provider.KindBadContentType},
		{name: "nesting bomb", answer: raw("HTTP/1.0 200 OK", strings.Repeat("[", 20000)), want: provider.KindBadContentType},
		{name: "broken UTF-8", answer: raw("HTTP/1.0 200 OK", strings.Replace(h.Success, "{", "{\"\xe9\":1,", 1)), want: provider.KindBadContentType},
		{name: "error body cut", answer: raw(sized("503 Service Unavailable", 100, ""), `{"error":`), want: provider.KindOverloaded},
		{name: "error without body", answer: raw(sized("500 Internal Server Error", 0, ""), ""), want: provider.KindServer},
		{name: "unknown status", answer: raw(sized("599 Odd", 2, ""), "{}"), want: provider.KindServer},
	}
}

func (h Harness) wire(t *testing.T) {
	for _, f := range h.faults() {
		t.Run(f.name, func(t *testing.T) {
			s := Serve(t, func(c net.Conn, _ Seen) bool { f.answer(c); return f.hang })
			if f.o.Timeouts == (provider.Timeouts{}) && f.hang {
				f.o.Timeouts = short
			}
			sent := 0
			resp, e := h.do(t, h.New(t, "", s.URL, f.o), provider.Request{API: h.API, Key: "k", OnSent: func(time.Time) { sent++ }})
			switch {
			case f.want == provider.KindNone:
				if e != nil || native(resp) != h.Success {
					t.Errorf("got %v, want success", e)
				}
			case e == nil || e.Kind != f.want || e.Unknown() != f.unknown || !e.Sent || e.SentAt.IsZero():
				t.Errorf("got %+v, want %s, unknown %t", e, f.want, f.unknown)
			case strings.ContainsAny(e.Message+e.Error(), "\x1b\r\n"):
				t.Errorf("got control characters in %q", e.Message)
			}
			if s.Requests() != 1 || sent != 1 {
				t.Errorf("the server saw %d requests and OnSent was called %d times, want 1 and 1", s.Requests(), sent)
			}
		})
	}
}

// redirect must not be followed: the second server would get key and prompt.
func (h Harness) redirect(t *testing.T) {
	other := Serve(t, func(c net.Conn, _ Seen) bool {
		Write(c, "HTTP/1.0 200 OK", h.Success)
		return false
	})
	for _, status := range []string{"301 Moved", "302 Found", "303 See", "307 Temporary Redirect", "308 Permanent Redirect"} {
		s := Serve(t, func(c net.Conn, _ Seen) bool {
			Write(c, "HTTP/1.1 "+status+"\nContent-Length: 0\nLocation: "+other.URL+"/v1", "")
			return true
		})
		_, e := h.do(t, h.New(t, "", s.URL, provider.TransportOptions{}), provider.Request{API: h.API, Key: "k"})
		if e == nil || e.Kind != provider.KindRedirectRefused || s.Requests() != 1 || other.Requests() != 0 {
			t.Errorf("%s: got %v, %d and %d requests; want redirect_refused, 1 and 0", status, e, s.Requests(), other.Requests())
		}
	}
}

// keepAlive drops a kept connection on reading the second request. With an
// Idempotency-Key net/http would send it again by itself.
func (h Harness) keepAlive(t *testing.T) {
	s := Serve(t, func(c net.Conn, r Seen) bool {
		if r.N%2 == 0 {
			return false
		}
		Write(c, fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: %d", len(h.Success)), h.Success)
		return true
	})
	c := h.New(t, "", s.URL, provider.TransportOptions{})
	const calls = 6
	var good, lost int
	for range calls {
		if _, e := h.do(t, c, provider.Request{API: h.API, Key: "k"}); e == nil {
			good++
		} else if e.Unknown() && e.Kind == provider.KindBroken {
			lost++
		}
	}
	if s.Requests() != calls || good != calls/2 || lost != calls/2 {
		t.Errorf("%d calls: the server saw %d; %d answered, %d lost; want each call on the wire once, half of them lost", calls, s.Requests(), good, lost)
	}
}

// check: what the client makes no request of, it says ahead of the call in the
// same words, and of nothing else.
func (h Harness) check(t *testing.T) {
	s := Serve(t, func(net.Conn, Seen) bool { return false })
	c := h.New(t, "", s.URL, provider.TransportOptions{})
	checker, ok := c.(provider.Checker)
	if !ok {
		t.Fatal("the client cannot tell what it makes no request of")
	}
	body := string(h.body(h.API))
	for _, r := range []provider.Request{
		{API: h.API, Model: "m", Body: []byte(body)},
		{API: "/images", Model: "m", Body: []byte(body)},
		{API: h.API, Model: "m", Body: []byte(strings.Replace(body, "{", `{"stream":true,`, 1))},
		{API: h.API, Model: "m", Body: []byte(strings.Replace(body, "{", `{"logit_bias":{"1":2},`, 1))},
	} {
		before := s.Requests()
		want := ""
		if _, e := h.do(t, c, r); s.Requests() == before {
			want = e.Message
		}
		got := ""
		if err := checker.Check(r); err != nil {
			var e *provider.Error
			if !errors.As(err, &e) || e.Kind != provider.KindInvalid || e.Sent {
				t.Errorf("%s %s: got %v, want an error of kind invalid", r.API, r.Body, err)
				continue
			}
			got = e.Message
		}
		if got != want {
			t.Errorf("%s %s: Check says %q, the call %q", r.API, r.Body, got, want)
		}
	}
}

func (h Harness) refused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + l.Addr().String()
	_ = l.Close()
	_, e := h.do(t, h.New(t, "", base, provider.TransportOptions{}), provider.Request{API: h.API})
	if e == nil || e.Kind != provider.KindConnect || e.Phase != provider.PhaseConnect || e.Sent || e.Unknown() {
		t.Errorf("got %+v, want connect and nothing sent", e)
	}
}

func (h Harness) cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := Serve(t, func(net.Conn, Seen) bool { cancel(); return true })
	c := h.New(t, "", s.URL, provider.TransportOptions{})
	for _, sent := range []bool{true, false} {
		_, err := c.Do(ctx, provider.Request{API: h.API, Model: "m", Body: h.body(h.API)})
		var e *provider.Error
		if !errors.As(err, &e) || e.Kind != provider.KindCancelled || e.Sent != sent || e.Unknown() != sent || !errors.Is(err, context.Canceled) {
			t.Errorf("sent %t: got %+v, want cancelled, unknown only if sent", sent, e)
		}
	}
}

// tls: an unknown authority is fatal ahead of the first byte; a handshake that
// never ends is a connect timeout.
func (h Harness) tls(t *testing.T) {
	var requests atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write([]byte(h.Success))
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	_, e := h.do(t, h.New(t, "", srv.URL, provider.TransportOptions{}), provider.Request{API: h.API})
	if e == nil || e.Kind != provider.KindTLS || e.Sent || requests.Load() != 0 {
		t.Errorf("unknown authority: got %+v and %d requests, want tls and none", e, requests.Load())
	}
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	if _, e = h.do(t, h.New(t, "", srv.URL, provider.TransportOptions{RootCAs: pool}), provider.Request{API: h.API}); e != nil {
		t.Errorf("known authority: %v", e)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, e = h.do(t, h.New(t, "", "https://"+l.Addr().String(), provider.TransportOptions{Timeouts: provider.Timeouts{Connect: 50 * time.Millisecond}}), provider.Request{API: h.API})
	if e == nil || e.Kind != provider.KindConnectTimeout || e.Sent {
		t.Errorf("silent handshake: got %+v, want connect_timeout and nothing sent", e)
	}
}
