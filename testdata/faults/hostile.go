package main

import (
	"bufio"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// hostile is a server on a raw connection: each request goes to answer, which
// writes what it likes.
type hostile struct {
	listener net.Listener
	answer   func(*exchange)
	dialled  func() bool // on each new connection: whether to listen to it; nil = yes
	closing  chan struct{}

	mu     sync.Mutex
	calls  []call
	nth    map[uint64]int
	keys   map[uint64]string
	other  int // bodies under another key than at first
	billed map[uint64]int
	conns  int
}

// call is one request that arrived whole.
type call struct {
	at   time.Time
	body uint64 // its hash
}

// exchange is one request and the connection to answer it on.
type exchange struct {
	*hostile
	conn   net.Conn
	header http.Header
	path   string
	body   string
	n      int // of all, from 1
	nth    int // with this body, from 1
	hash   uint64
	closed bool
}

// hostile starts a server of this program as the trial's.
func (c *trial) hostile(answer func(*exchange)) *hostile {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	c.check(err)
	return c.serve(listener, answer)
}

func (c *trial) serve(listener net.Listener, answer func(*exchange)) *hostile {
	h := &hostile{
		listener: listener, answer: answer, closing: make(chan struct{}),
		nth: map[uint64]int{}, keys: map[uint64]string{}, billed: map[uint64]int{},
	}
	c.server = h
	c.after = append(c.after, func() {
		close(h.closing)
		// Closing twice is no matter.
		_ = listener.Close()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			h.mu.Lock()
			h.conns++
			h.mu.Unlock()
			if h.dialled != nil && !h.dialled() {
				_ = conn.Close() // nobody is there any more
				continue
			}
			go h.talk(conn)
		}
	}()
	return h
}

func (h *hostile) URL() string { return "http://" + h.listener.Addr().String() + "/v1" }

func (h *hostile) talk(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		x := &exchange{hostile: h, conn: conn, header: request.Header, path: request.URL.Path, body: string(body)}
		h.enter(x)
		h.answer(x)
		if x.closed {
			return
		}
	}
}

func (h *hostile) enter(x *exchange) {
	sum := fnv.New64a()
	// A hash's Write never fails.
	_, _ = sum.Write([]byte(x.body))
	x.hash = sum.Sum64()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call{at: time.Now(), body: x.hash})
	h.nth[x.hash]++
	x.n, x.nth = len(h.calls), h.nth[x.hash]
	key := x.header.Get("Idempotency-Key")
	if first, ok := h.keys[x.hash]; ok && first != key {
		h.other++
	} else {
		h.keys[x.hash] = key
	}
}

// ledger is the server's account in the mock's form.
func (h *hostile) Ledger(context.Context) (l harness.Ledger, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.Asked, l.Rekeyed = len(h.calls), h.other
	for _, n := range h.billed {
		l.Billed += n
		l.Twice.Extra += n - 1
	}
	for i := range h.calls {
		n := 0
		for _, other := range h.calls[i:] {
			if other.at.Sub(h.calls[i].at) < time.Minute {
				n++
			}
		}
		l.PeakRequests = max(l.PeakRequests, n)
	}
	return l, nil
}

// times are when requests came, in order.
func (h *hostile) times() []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]time.Time, len(h.calls))
	for i, c := range h.calls {
		all[i] = c.at
	}
	return all
}

const good = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4o-mini","choices":[{"index":0,"message":{"role":"assistant","content":"Fine."},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":2,"total_tokens":14}}`

// raw writes bytes as they are.
func (x *exchange) raw(text string) {
	// Clients of these tests leave early at times.
	_, _ = io.WriteString(x.conn, text)
}

// reply writes an answer; headers are lines without their ends.
func (x *exchange) reply(status int, body string, headers ...string) {
	kind := "Content-Type: application/json\r\n"
	for _, h := range headers {
		if strings.HasPrefix(h, "Content-Type:") {
			kind = ""
		}
	}
	lines := ""
	if len(headers) > 0 {
		lines = strings.Join(headers, "\r\n") + "\r\n"
	}
	x.raw(fmt.Sprintf("HTTP/1.1 %d X\r\n%s%sContent-Length: %d\r\n\r\n%s", status, kind, lines, len(body), body))
}

// ok answers well, which is billed.
func (x *exchange) ok(headers ...string) {
	x.bill()
	x.reply(200, good, headers...)
}

func (x *exchange) bill() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.billed[x.hash]++
}

// cut closes the connection.
func (x *exchange) cut() {
	x.closed = true
	// The peer may have closed it.
	_ = x.conn.Close()
}

// reset closes it with a RST.
func (x *exchange) reset() {
	if tcp, ok := x.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a closed connection
	}
	x.cut()
}

// silence says nothing until the client leaves or d is over; 0 = for ever.
func (x *exchange) silence(d time.Duration) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		// It ends with the connection, whose error says no more.
		_, _ = x.conn.Read(make([]byte, 1))
	}()
	var over <-chan time.Time
	if d > 0 {
		over = time.After(d)
	}
	select {
	case <-gone:
		x.closed = true
	case <-over:
	case <-x.closing:
		x.closed = true
	}
}
