package provider

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	maxErrorBody = 256 << 10 // bytes read of an answer that is no success
	maxHeader    = 256 << 10 // bytes of an answer's headers
)

// Timeouts bound one attempt; none is shared between attempts. A zero field
// takes its default.
type Timeouts struct {
	Connect time.Duration // until a connection stands, TLS included; 10 s
	Headers time.Duration // from then, and again from the request's last byte, until the status; 600 s
	Idle    time.Duration // between two reads of the body; 120 s
	Total   time.Duration // the whole attempt; 900 s
}

func (t Timeouts) orDefaults() Timeouts {
	for _, f := range []struct {
		d   *time.Duration
		def time.Duration
	}{
		{&t.Connect, 10 * time.Second},
		{&t.Headers, 600 * time.Second},
		{&t.Idle, 120 * time.Second},
		{&t.Total, 900 * time.Second},
	} {
		if *f.d <= 0 {
			*f.d = f.def
		}
	}
	return t
}

// TransportOptions set up a [Transport]. The zero value is usable.
type TransportOptions struct {
	Timeouts    Timeouts
	Concurrency int            // idle connections kept a host; 0 = 1,024
	MaxResponse int64          // decompressed bytes of a success; 0 = 64 MiB
	RootCAs     *x509.CertPool // nil = the system's

	// RoundTripper replaces the network, for a provider inside this process.
	// It is taken to have sent a request at once.
	RoundTripper http.RoundTripper
}

// Transport puts requests on the wire: one a call, never a second. It follows
// no redirect, resends nothing, and tells the phases of a failure apart. Safe
// for concurrent use.
type Transport struct {
	rt          http.RoundTripper
	traced      bool
	timeouts    Timeouts
	maxResponse int64
}

// NewTransport makes a Transport. Connections stay open between calls until
// Close.
func NewTransport(o TransportOptions) *Transport {
	t := &Transport{rt: o.RoundTripper, timeouts: o.Timeouts.orDefaults(), maxResponse: o.MaxResponse}
	if t.maxResponse <= 0 {
		t.maxResponse = 64 << 20
	}
	if t.rt != nil {
		return t
	}
	idle := o.Concurrency
	if idle <= 0 {
		idle = 1024
	}
	// Headers and short bodies fit; longer ones pass the buffers by. With 10,000 calls in flight
	// each KB of the two takes 20 MB.
	buffer := 2 << 10
	if idle > 4096 {
		buffer = 1 << 10
	}
	dialer := &net.Dialer{Timeout: t.timeouts.Connect, KeepAlive: 30 * time.Second}
	h1 := new(http.Protocols)
	h1.SetHTTP1(true)
	t.traced = true
	t.rt = &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: c}, nil
		},
		Protocols:              h1, // HTTP/2 resends refused streams by itself
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		TLSHandshakeTimeout:    t.timeouts.Connect,
		MaxIdleConnsPerHost:    idle,
		IdleConnTimeout:        45 * time.Second, // below the 60 s after which balancers drop
		MaxResponseHeaderBytes: maxHeader,
		ReadBufferSize:         buffer,
		WriteBufferSize:        buffer,
	}
	return t
}

// Close drops the idle connections.
func (t *Transport) Close() {
	if c, ok := t.rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Exchange is one request to make.
type Exchange struct {
	Method string // empty = POST
	URL    *url.URL
	Header http.Header // not changed
	Body   []byte
	OnSent func(time.Time)   // see [Request.OnSent]
	OnHead func(http.Header) // called with the headers of a success, ahead of its body; may be nil
}

// Reply is an answer whose body has been read. Of one that is no success the
// body may be cut or missing: its status is what counts.
type Reply struct {
	StatusCode   int
	Header       http.Header
	Body         []byte
	SentAt, Done time.Time
}

// Do makes the exchange. The error has no Provider yet, and raw text only in
// Err. Redirects are errors; other statuses are replies. Of a success whose body
// did not come whole, both are returned: the reply holds what came.
func (t *Transport) Do(ctx context.Context, x Exchange) (*Reply, *Error) {
	return t.exchange(ctx, x, nil)
}

// Stream is Do, but hands the body of a success to read while it comes in, and
// its reply has none. read returns nil as soon as the answer is whole, even if
// the server leaves the connection open; its error is an *Error that says what
// is wrong (the Kind and the Message count), or what reading brought, with
// io.ErrUnexpectedEOF for a stream that ended ahead of its terminator. Every
// byte restarts the idle timer, but not the total.
func (t *Transport) Stream(ctx context.Context, x Exchange, read func(io.Reader) error) (*Reply, *Error) {
	return t.exchange(ctx, x, read)
}

func (t *Transport) exchange(ctx context.Context, x Exchange, read func(io.Reader) error) (*Reply, *Error) {
	w, ctx := newWatch(ctx, t.timeouts, x.OnSent)
	defer w.end()
	resp, err := t.rt.RoundTrip(request(w.traced(ctx, t.traced), &x))
	if err != nil {
		return nil, w.failure(PhaseHeaders, 0, err)
	}
	defer resp.Body.Close()
	w.answered()
	if x.OnHead != nil && resp.StatusCode/100 == 2 {
		x.OnHead(resp.Header)
	}
	return t.receive(w, resp, read)
}

func request(ctx context.Context, x *Exchange) *http.Request {
	method := x.Method
	if method == "" {
		method = http.MethodPost
	}
	req := &http.Request{
		Method: method, URL: x.URL, Host: x.URL.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: x.Header, ContentLength: int64(len(x.Body)),
		// GetBody stays nil, and Body does not: else net/http sends a GET, or a
		// POST with an Idempotency-Key, again by itself when a kept connection
		// drops.
		Body: io.NopCloser(bytes.NewReader(x.Body)),
	}
	return req.WithContext(ctx)
}

// receive reads the answer behind its headers.
func (t *Transport) receive(w *watch, resp *http.Response, read func(io.Reader) error) (*Reply, *Error) {
	reply := &Reply{StatusCode: resp.StatusCode, Header: resp.Header, SentAt: w.sentAt()}
	encoded := strings.TrimPrefix(resp.Header.Get("Content-Encoding"), "identity")
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, w.refusal(resp.StatusCode, KindRedirectRefused, "a redirect, not followed: give the address it leads to as base URL")
	case resp.StatusCode/100 != 2:
		reply.Body, _ = w.read(resp, maxErrorBody)
		reply.Done = time.Now()
		if encoded != "" {
			reply.Body = nil
		}
		return reply, nil
	case encoded != "":
		return nil, w.refusal(resp.StatusCode, KindBadContentType, "the answer has a Content-Encoding that was not asked for")
	case read != nil:
		return w.stream(resp, reply, t.maxResponse*streamWeight, read)
	}
	var err error
	reply.Body, err = w.read(resp, t.maxResponse)
	reply.Done = time.Now()
	switch {
	case err != nil:
		return reply, w.failure(PhaseBody, resp.StatusCode, err)
	case int64(len(reply.Body)) > t.maxResponse:
		return nil, w.refusal(resp.StatusCode, KindResponseTooLarge, tooLarge(t.maxResponse))
	}
	return reply, nil
}
