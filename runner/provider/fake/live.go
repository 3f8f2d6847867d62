package fake

import (
	"context"
	"io"
	"net/http"
)

// liveBody is the body of a streamed answer that a Transport returns: written by a goroutine while it is read, so that
// what comes late is seen to come late.
type liveBody struct {
	*io.PipeReader
	w      *io.PipeWriter
	cancel context.CancelFunc
	ready  chan struct{} // closed once there is a header, or never will be
	header http.Header
	status int // 0 = the connection was cut before the header
}

// goLive sends a streamed reply until it ends, ctx ends or the body is closed.
func goLive(ctx context.Context, rep reply) *liveBody {
	pr, pw := io.Pipe()
	own, cancel := context.WithCancel(ctx)
	l := &liveBody{PipeReader: pr, w: pw, cancel: cancel, ready: make(chan struct{}), header: http.Header{}}
	stop := context.AfterFunc(ctx, func() { _ = pw.CloseWithError(context.Cause(ctx)) }) // as a connection, it gives the reader no more
	go func() {
		defer stop()
		defer cancel()
		cut := cutShort(func() { rep.write(own, l) })
		if l.status == 0 {
			close(l.ready)
		}
		if cut && ctx.Err() == nil {
			_ = pw.CloseWithError(io.ErrUnexpectedEOF) // the errors of a pipe's close are nil
			return
		}
		_ = pw.CloseWithError(context.Cause(ctx)) // nil, that is EOF, unless ctx has ended
	}()
	return l
}

// await waits for the header and hands it to w; cut = none came.
func (l *liveBody) await(ctx context.Context, w *recorder) (cut bool) {
	select {
	case <-ctx.Done():
		return true
	case <-l.ready:
	}
	w.header, w.status = l.header, l.status
	return l.status == 0
}

// Close ends the stream: the server finds that its client has gone.
func (l *liveBody) Close() error {
	l.cancel()
	return l.PipeReader.Close()
}

func (l *liveBody) Header() http.Header { return l.header }
func (l *liveBody) FlushError() error   { return nil }

func (l *liveBody) WriteHeader(status int) {
	if l.status == 0 {
		l.status = status
		close(l.ready)
	}
}

func (l *liveBody) Write(p []byte) (int, error) {
	l.WriteHeader(http.StatusOK)
	return l.w.Write(p)
}
