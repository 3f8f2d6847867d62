package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body), ContentLength: -1}
}

var target = &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/v1"}

// TestNoReplay holds the field that lets net/http send a POST twice.
func TestNoReplay(t *testing.T) {
	tr := NewTransport(TransportOptions{RoundTripper: roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.GetBody != nil {
			t.Error("the request can be replayed")
		}
		b, err := io.ReadAll(r.Body)
		if err != nil || string(b) != "{}" || r.ContentLength != 2 {
			t.Errorf("got body %q of %d bytes, %v", b, r.ContentLength, err)
		}
		return answer(200, strings.NewReader("[]")), nil
	})}) //nolint:bodyclose // the transport closes it
	sent := 0
	reply, e := tr.Do(t.Context(), Exchange{URL: target, Body: []byte("{}"), OnSent: func(time.Time) { sent++ }})
	if e != nil || string(reply.Body) != "[]" || reply.SentAt.IsZero() || sent != 1 {
		t.Errorf("got %+v, %v, OnSent %d times; want the body, a time of sending, and once", reply, e, sent)
	}
}

// waiting answers when its request's context ends.
func waiting(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// trickle gives a byte each interval, for ever.
type trickle struct {
	ctx   context.Context
	every time.Duration
}

func (s trickle) Read(p []byte) (int, error) {
	select {
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	case <-time.After(s.every):
		p[0] = ' '
		return 1, nil
	}
}

func TestPhaseTimeouts(t *testing.T) {
	body := func(every time.Duration) roundTripper {
		return func(r *http.Request) (*http.Response, error) { return answer(200, trickle{r.Context(), every}), nil }
	}
	tests := []struct {
		name  string
		rt    roundTripper
		want  Kind
		after time.Duration
	}{
		{"before headers", waiting, KindTimeoutBeforeHeaders, 600 * time.Second},
		{"idle", body(time.Hour), KindTimeoutMidBody, 120 * time.Second},
		{"a byte a second keeps the idle timer, not the total", body(time.Second), KindTimeoutMidBody, 900 * time.Second},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, e := NewTransport(TransportOptions{RoundTripper: tt.rt}).Do(t.Context(), Exchange{URL: target})
			if e == nil || e.Kind != tt.want || !e.Unknown() || time.Since(start) != tt.after {
				t.Errorf("%s: got %v after %v, want %s after %v", tt.name, e, time.Since(start), tt.want, tt.after)
			}
		})
	}
}

func TestCallerCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, e := NewTransport(TransportOptions{RoundTripper: roundTripper(waiting)}).Do(ctx, Exchange{URL: target})
		if e == nil || e.Kind != KindCancelled || !errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("got %v, want cancelled by the caller's deadline", e)
		}
	})
}

func TestConnectKind(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, tt := range []struct {
		err  error
		want Kind
	}{
		{dial(os.NewSyscallError("socket", syscall.EMFILE)), KindLocal},
		{dial(os.NewSyscallError("socket", syscall.ENFILE)), KindLocal},
		{&net.DNSError{Err: "open /etc/resolv.conf: too many open files", Name: "x"}, KindLocal},
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), KindConnect},
		{&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, KindConnect},
		{dial(os.ErrDeadlineExceeded), KindConnectTimeout},
		{fmt.Errorf("x: %w", &tls.CertificateVerificationError{Err: errors.New("unknown authority")}), KindTLS},
		{errors.New("http: server gave HTTP response to HTTPS client"), KindTLS},
	} {
		if got := connectKind(tt.err); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.err, got, tt.want)
		}
	}
	if got := plainText(errors.New(`invalid proxy address "http://u:CANARY@:x"`)); strings.Contains(got, "CANARY") {
		t.Errorf("got %q: the proxy's password shows", got)
	}
}

func TestErrorText(t *testing.T) {
	cause := errors.New("cause")
	e := &Error{Provider: "p", StatusCode: 529, Kind: KindOverloaded, Message: "busy", Err: cause}
	if e.Error() != "p: status 529: overloaded: busy" || !errors.Is(e, cause) {
		t.Errorf("got %q", e.Error())
	}
	for kind, want := range map[Kind]bool{KindBroken: true, KindTruncated: true, KindServer: false, KindResponseTooLarge: false, KindCancelled: true} {
		if got := (&Error{Kind: kind, Sent: true}).Unknown(); got != want {
			t.Errorf("%s, sent: unknown %t, want %t", kind, got, want)
		}
		if (&Error{Kind: kind}).Unknown() {
			t.Errorf("%s, not sent: unknown, want known", kind)
		}
	}
	if (&Error{Kind: KindCancelled, StatusCode: 499, Sent: true}).Unknown() {
		t.Error("499: unknown, want known")
	}
}
