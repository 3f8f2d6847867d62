package provider

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Causes with which a watch cancels its attempt.
var (
	errConnectTime = errors.New("no connection in time")
	errHeadersTime = errors.New("no status in time")
	errIdleTime    = errors.New("the answer stalled")
	errTotalTime   = errors.New("the whole attempt took too long")
)

// errBomb ends a body that grows out of next to nothing.
var errBomb = errors.New("the answer is a compression bomb")

const (
	// An answer past bombSize that came in as less than a bombRatio-th of
	// itself is no text that a model wrote; whole, it would fill the memory.
	bombSize  = 8 << 20
	bombRatio = 200
)

// countedConn counts the bytes written, so that an attempt whose connection
// died before its first byte is known to be unsent, and those read, so that
// what a compressed answer weighed on the wire is known.
type countedConn struct {
	net.Conn
	written, received atomic.Int64
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// watch follows one attempt: its phase, its timers, what left the machine.
// The trace hooks run in the transport's goroutines, hence the mutex.
type watch struct {
	cancel   context.CancelCauseFunc
	cause    func() error // why the attempt was cancelled, if it was
	caller   func() error // why the caller cancelled, if he did
	timeouts Timeouts

	mu     sync.Mutex
	timer  *time.Timer
	fires  time.Time // when the timer does: not after until
	until  time.Time // when the phase, or the whole attempt, has taken too long
	why    error     // what that is called
	ends   time.Time // when the whole attempt has
	conn   *countedConn
	before int64 // bytes written on conn by earlier requests
	heard  int64 // bytes received on it by then
	got    time.Time
	sent   time.Time
	onSent func(time.Time)
	over   bool
}

func newWatch(parent context.Context, t Timeouts, onSent func(time.Time)) (*watch, context.Context) {
	w := &watch{timeouts: t, onSent: onSent}
	ctx, cancel := context.WithCancelCause(parent)
	w.cancel = cancel
	w.cause = func() error { return context.Cause(ctx) }
	w.caller = func() error { return context.Cause(parent) }
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.ends, w.fires = now.Add(t.Total), now.Add(t.Connect)
	w.timer = time.AfterFunc(t.Connect, w.expire)
	w.next(now, t.Connect, errConnectTime)
	return w, ctx
}

// expire ends an attempt whose time is up, or sets the timer for when it is.
func (w *watch) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch left := time.Until(w.until); {
	case w.over:
	case left > 0:
		w.fires = w.until
		w.timer.Reset(left)
	default:
		w.cancel(w.why)
	}
}

// end stops the timer and lets go of the attempt's context.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
	w.cancel(nil)
}

// traced returns the attempt's context with the hooks that follow it. A round
// tripper that is not ours counts as connected and sent at once.
func (w *watch) traced(ctx context.Context, ours bool) context.Context {
	if !ours {
		w.connected(nil)
		w.wrote()
		return ctx
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { w.connected(i.Conn) },
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				w.wrote()
			}
		},
	})
}

func (w *watch) connected(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = time.Now()
	if w.conn, _ = c.(*countedConn); w.conn != nil {
		w.before, w.heard = w.conn.written.Load(), w.conn.received.Load()
	}
	w.next(w.got, w.timeouts.Headers, errHeadersTime)
}

func (w *watch) wrote() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || !w.sent.IsZero() {
		return
	}
	w.sent = time.Now()
	w.next(w.sent, w.timeouts.Headers, errHeadersTime)
	if w.onSent != nil {
		w.onSent(w.sent)
	}
}

// answered marks that a status came. The answer may be here before the
// transport reports the request written.
func (w *watch) answered() {
	w.wrote()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next(time.Now(), w.timeouts.Idle, errIdleTime)
}

// next begins a phase that may take d, or what is left of the whole attempt.
// The timer is set anew only if it would fire too late, for most phases end
// long before it does. Called with mu held.
func (w *watch) next(now time.Time, d time.Duration, cause error) {
	if w.over {
		return
	}
	if w.until, w.why = now.Add(d), cause; w.ends.Before(w.until) {
		w.until, w.why = w.ends, errTotalTime
	}
	if w.until.Before(w.fires) {
		w.fires = w.until
		w.timer.Reset(w.until.Sub(now))
	}
}

func (w *watch) sentAt() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// left reports whether bytes left on the wire, and when.
func (w *watch) left() (bool, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.sent.IsZero():
		return true, w.sent
	case w.got.IsZero():
		return false, time.Time{}
	case w.conn != nil && w.conn.written.Load() == w.before:
		return false, time.Time{}
	default:
		return true, w.got
	}
}

// read reads the body up to limit and one byte more, each read bounded by the
// idle timer. What was read comes with the error too.
func (w *watch) read(resp *http.Response, limit int64) ([]byte, error) {
	var b bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= 1<<20 {
		b.Grow(int(min(n, limit)) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(&alive{Reader: resp.Body, w: w}, limit+1))
	return b.Bytes(), err
}

// alive restarts the idle timer with each read that brought something, and
// ends a bomb.
type alive struct {
	io.Reader
	w    *watch
	size int64
}

func (a *alive) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if n == 0 {
		return n, err
	}
	a.size += int64(n)
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.next(time.Now(), a.w.timeouts.Idle, errIdleTime)
	if c := a.w.conn; c != nil && a.size > bombSize && a.size > bombRatio*(c.received.Load()-a.w.heard) {
		return n, errBomb
	}
	return n, err
}

// refusal is the Error of an answer that is not taken.
func (w *watch) refusal(status int, k Kind, message string) *Error {
	e := w.failure(PhaseBody, status, nil)
	e.Kind, e.Message = k, message
	return e
}

// failure makes the Error of an attempt that ended in phase with err.
func (w *watch) failure(phase Phase, status int, err error) *Error {
	sent, at := w.left()
	e := &Error{Phase: phase, StatusCode: status, Sent: sent, SentAt: at, Err: err, Rate: NoRate()}
	if !sent && status == 0 {
		e.Phase = PhaseConnect
	}
	cause := w.cause()
	var own *Error
	switch {
	case err == nil:
		return e
	case errors.As(err, &own): // the reader of a stream said it
		e.Kind, e.Message, e.Err = own.Kind, own.Message, own.Err
	case w.caller() != nil:
		e.Kind, e.Message, e.Err = KindCancelled, "cancelled", w.caller()
	case cause != nil:
		e.Kind, e.Message, e.Err = timeoutKind(e.Phase), cause.Error(), cause
	case e.Phase == PhaseConnect:
		e.Kind, e.Message = connectKind(err), plainText(err)
	case strings.Contains(err.Error(), "response headers exceeded"): // net/http has no sentinel
		e.Kind, e.Message = KindResponseTooLarge, "the answer's headers pass 256 KiB"
	case errors.Is(err, errBomb):
		e.Kind, e.Message = KindResponseTooLarge, err.Error()
	case errors.Is(err, io.ErrUnexpectedEOF) && e.Phase == PhaseBody:
		e.Kind, e.Message = KindTruncated, "the answer ended early"
	default:
		e.Kind, e.Message = KindBroken, "connection lost after sending: "+plainText(err)
	}
	return e
}

func timeoutKind(p Phase) Kind {
	switch p {
	case PhaseConnect:
		return KindConnectTimeout
	case PhaseHeaders:
		return KindTimeoutBeforeHeaders
	default:
		return KindTimeoutMidBody
	}
}

// connectKind classifies a failure ahead of the first byte.
func connectKind(err error) Kind {
	var (
		cert   *tls.CertificateVerificationError
		record tls.RecordHeaderError
		roots  x509.SystemRootsError
		timed  net.Error
		op     *net.OpError
	)
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
		errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM),
		strings.Contains(err.Error(), "too many open files"): // a name's lookup gives only the text
		return KindLocal
	case errors.As(err, &cert), errors.As(err, &record), errors.As(err, &roots):
		return KindTLS
	case strings.Contains(err.Error(), "gave HTTP response to HTTPS client"): // net/http hides the record error
		return KindTLS
	case errors.As(err, &op) && strings.HasSuffix(op.Op, " error") && !strings.Contains(err.Error(), "internal error"):
		return KindTLS // an alert, "remote error" or "local error": no version or cipher in common, a certificate wanted
	case errors.As(err, &timed) && timed.Timeout():
		return KindConnectTimeout
	default:
		return KindConnect
	}
}

// plainText is the text of a network error, cleaned, for servers' bytes can be
// part of it.
func plainText(err error) string {
	if strings.Contains(err.Error(), "invalid proxy address") { // shows the proxy's password
		return "the proxy variable of the environment holds no valid URL"
	}
	var r *Redactor
	return r.Clean(err.Error())
}
