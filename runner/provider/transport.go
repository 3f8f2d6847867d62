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
	"strconv"
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
	}
	return t
}

// Close drops the idle connections.
func (t *Transport) Close() {
	if c, ok := t.rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Exchange is one POST to make.
type Exchange struct {
	URL    *url.URL
	Header http.Header // not changed
	Body   []byte
	OnSent func(time.Time) // see [Request.OnSent]
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
// Err. Redirects are errors; other statuses are replies.
func (t *Transport) Do(ctx context.Context, x Exchange) (*Reply, *Error) {
	w, ctx := newWatch(ctx, t.timeouts, x.OnSent)
	defer w.end()
	req := &http.Request{
		Method: http.MethodPost, URL: x.URL, Host: x.URL.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: x.Header, ContentLength: int64(len(x.Body)),
		// GetBody stays nil: with it, and an Idempotency-Key, net/http sends a
		// POST again by itself when a kept connection drops.
		Body: io.NopCloser(bytes.NewReader(x.Body)),
	}
	resp, err := t.rt.RoundTrip(req.WithContext(w.traced(ctx, t.traced)))
	if err != nil {
		return nil, w.failure(PhaseHeaders, 0, err)
	}
	defer resp.Body.Close()
	w.answered()
	reply := &Reply{StatusCode: resp.StatusCode, Header: resp.Header, SentAt: w.sentAt()}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		e := w.failure(PhaseBody, resp.StatusCode, nil)
		e.Kind, e.Message = KindRedirectRefused, "a redirect, not followed: give the address it leads to as base URL"
		return nil, e
	}
	success := resp.StatusCode/100 == 2
	limit := int64(maxErrorBody)
	if success {
		limit = t.maxResponse
	}
	reply.Body, err = w.read(resp, limit)
	reply.Done = time.Now()
	switch enc := resp.Header.Get("Content-Encoding"); {
	case !success:
		if enc != "" && enc != "identity" {
			reply.Body = nil
		}
		return reply, nil
	case err != nil:
		return nil, w.failure(PhaseBody, resp.StatusCode, err)
	case int64(len(reply.Body)) > limit:
		e := w.failure(PhaseBody, resp.StatusCode, nil)
		e.Kind, e.Message = KindResponseTooLarge, "the answer passes "+strconv.FormatInt(limit>>20, 10)+" MiB"
		return nil, e
	case enc != "" && enc != "identity":
		e := w.failure(PhaseBody, resp.StatusCode, nil)
		e.Kind, e.Message = KindBadContentType, "the answer has a Content-Encoding that was not asked for"
		return nil, e
	}
	return reply, nil
}
