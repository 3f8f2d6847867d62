package provider

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	// streamWeight is how many times heavier than the whole answer its stream
	// may be: each event brings some letters and repeats the names around them.
	streamWeight = 4

	// After the end of a stream the connection is worth this wait for its last
	// bytes: with them read it serves the next call.
	drainTime  = 50 * time.Millisecond
	drainBytes = 4 << 10
)

// stream hands the body of a success to read.
func (w *watch) stream(resp *http.Response, reply *Reply, limit int64, read func(io.Reader) error) (*Reply, *Error) {
	body := &alive{Reader: resp.Body, w: w}
	err := read(&capped{Reader: body, left: limit, limit: limit})
	reply.Done = time.Now()
	if err == nil {
		w.drain(resp.Body)
		return reply, nil
	}
	e := w.failure(PhaseBody, resp.StatusCode, err)
	if e.Kind == KindTimeoutMidBody {
		e.Kind = KindTimeoutMidStream
	}
	return nil, e
}

// drain reads what little may follow a whole answer.
func (w *watch) drain(body io.Reader) {
	w.mu.Lock()
	w.next(time.Now(), drainTime, errIdleTime)
	w.mu.Unlock()
	_, _ = io.CopyN(io.Discard, body, drainBytes)
}

// capped fails past its limit.
type capped struct {
	io.Reader
	left, limit int64
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, &Error{Kind: KindResponseTooLarge, Message: tooLarge(c.limit)}
	}
	n, err := c.Reader.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

func tooLarge(limit int64) string {
	return "the answer passes " + strconv.FormatInt(limit>>20, 10) + " MiB"
}
