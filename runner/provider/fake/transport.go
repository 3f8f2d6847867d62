package fake

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"time"
)

// Transport is an http.RoundTripper that calls a Server in the caller's own goroutine, without a socket; a streamed answer
// has a goroutine of its own, which ends with it, with the request's context or with the body's Close. It behaves as
// http.Transport over a connection: a cut connection is io.EOF before the headers and io.ErrUnexpectedEOF in the body,
// the httptrace hooks GotConn, WroteHeaders, WroteRequest and GotFirstResponseByte are called, gzip is unpacked unless
// the caller asked for an encoding itself, redirects are returned. Safe for concurrent use.
type Transport struct {
	Server *Server
	// HeaderTimeout bounds the wait for an answer, as http.Transport's ResponseHeaderTimeout does; 0 = none.
	HeaderTimeout time.Duration
}

var _ http.RoundTripper = (*Transport)(nil)

// headerTimeout is what http.Transport returns: a net.Error whose Timeout is true.
type headerTimeout struct{}

func (headerTimeout) Error() string   { return "net/http: timeout awaiting response headers" }
func (headerTimeout) Timeout() bool   { return true }
func (headerTimeout) Temporary() bool { return true }

// RoundTrip returns the server's answer, or an error when the context ended or the connection was cut.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	var err error
	if req.Body != nil {
		body, err = io.ReadAll(req.Body)
		_ = req.Body.Close() // a body that has been read holds nothing back
		if err != nil {
			return nil, err
		}
	}
	ctx := req.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	trace := traceOf(ctx)
	trace.GotConn(httptrace.GotConnInfo{Reused: true})
	trace.WroteHeaders()
	trace.WroteRequest(httptrace.WroteRequestInfo{})

	bounded := ctx
	if t.HeaderTimeout > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, t.HeaderTimeout)
		defer cancel()
	}
	r := req.WithContext(bounded)
	r.Body = io.NopCloser(bytes.NewReader(body))
	w := recorder{header: http.Header{}}
	var live *liveBody
	cut := w.serve(t.Server, r, func(rep *reply) {
		if rep.stream == nil {
			rep.write(bounded, &w)
			return
		}
		live = goLive(ctx, *rep)
	})
	if live != nil {
		cut = live.await(bounded, &w)
	}
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case bounded.Err() != nil && w.status == 0:
		err = headerTimeout{}
	case cut && w.status == 0:
		err = io.EOF
	}
	if err != nil {
		if live != nil {
			_ = live.Close() // it returns nil
		}
		return nil, err
	}
	trace.GotFirstResponseByte()
	return w.response(req, live, cut)
}

// traceOf returns the context's hooks with those that are used here filled in.
func traceOf(ctx context.Context) httptrace.ClientTrace {
	var t httptrace.ClientTrace
	if p := httptrace.ContextClientTrace(ctx); p != nil {
		t = *p
	}
	if t.GotConn == nil {
		t.GotConn = func(httptrace.GotConnInfo) {}
	}
	if t.WroteHeaders == nil {
		t.WroteHeaders = func() {}
	}
	if t.WroteRequest == nil {
		t.WroteRequest = func(httptrace.WroteRequestInfo) {}
	}
	if t.GotFirstResponseByte == nil {
		t.GotFirstResponseByte = func() {}
	}
	return t
}

// recorder is the http.ResponseWriter of a Transport.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }
func (w *recorder) FlushError() error   { return nil }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// serve runs the handler; cut = it aborted the connection.
func (w *recorder) serve(s *Server, r *http.Request, send func(*reply)) (cut bool) {
	return cutShort(func() { s.serveHTTP(w, r, send) })
}

// cutShort says whether fn gave up the connection.
func cutShort(fn func()) (cut bool) {
	defer func() {
		switch e := recover(); e {
		case nil:
		case http.ErrAbortHandler:
			cut = true
		default:
			panic(e)
		}
	}()
	fn()
	return false
}

func (w *recorder) response(req *http.Request, live *liveBody, cut bool) (*http.Response, error) {
	var body io.Reader = &w.body
	if cut {
		body = io.MultiReader(body, cutReader{})
	}
	w.WriteHeader(http.StatusOK)
	w.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	res := &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, ContentLength: -1, Request: req,
	}
	if live != nil {
		res.Body = live
		return res, nil
	}
	if n, err := strconv.ParseInt(w.header.Get("Content-Length"), 10, 64); err == nil {
		res.ContentLength = n
	}
	if w.header.Get("Content-Encoding") == "gzip" && req.Header.Get("Accept-Encoding") == "" {
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = z
		w.header.Del("Content-Encoding")
		w.header.Del("Content-Length")
		res.ContentLength, res.Uncompressed = -1, true
	}
	res.Body = io.NopCloser(body)
	return res, nil
}

// cutReader is the end of a body whose connection was cut.
type cutReader struct{}

func (cutReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
