package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
)

// reply is what goes out; it is accounted for before the first byte of it is written.
type reply struct {
	status int
	ctype  string // "" = application/json
	header http.Header
	body   []byte
	short  int     // > 0: the connection is cut after this many bytes of the body
	cut    bool    // the connection is cut before any byte
	stream *stream // sent in place of body; it settles the call itself
}

// aborts says whether the connection does not survive the reply.
func (r *reply) aborts() bool { return r.cut || r.short > 0 }

func (r *reply) set(key, value string) {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header[key] = []string{value}
}

// write sends the reply; it panics with http.ErrAbortHandler to cut the connection.
func (r *reply) write(ctx context.Context, w http.ResponseWriter) {
	if r.cut {
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	for k, v := range r.header {
		h[k] = v
	}
	if r.ctype == "" {
		r.ctype = "application/json"
	}
	h["Content-Type"] = []string{r.ctype}
	if r.stream != nil {
		r.stream.write(ctx, w)
		return
	}
	h["Content-Length"] = []string{strconv.Itoa(len(r.body))}
	w.WriteHeader(r.status)
	if r.short == 0 {
		_, _ = w.Write(r.body) // a client that has gone is no fault of the server's
		return
	}
	_, _ = w.Write(r.body[:min(r.short, len(r.body))])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// code is the reply's status as the ledger counts it.
func (r *reply) code() int {
	if r.aborts() {
		return 0
	}
	return r.status
}

// encode renders JSON as a server does: <, > and & stand for themselves.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only maps, slices, strings, numbers and checked raw JSON come here
	}
	return b.Bytes()
}
