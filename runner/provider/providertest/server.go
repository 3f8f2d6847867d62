package providertest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// Seen is a request as a raw server read it.
type Seen struct {
	N      int // 1 for the server's first request
	Method string
	Header http.Header
	Path   string
	Query  string
	Body   string
}

// Server is a loopback server that answers with raw bytes.
type Server struct {
	URL   string // http://127.0.0.1:port
	count atomic.Int64
}

// Requests returns how many whole requests have been read.
func (s *Server) Requests() int { return int(s.count.Load()) }

// Serve starts a server that hands each request to answer, which writes what
// it likes and says whether the connection stays. It ends with the test.
func Serve(t testing.TB, answer func(c net.Conn, r Seen) (keep bool)) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{URL: "http://" + l.Addr().String()}
	done := make(chan struct{})
	t.Cleanup(func() { close(done); _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.talk(c, done, answer)
		}
	}()
	return s
}

func (s *Server) talk(c net.Conn, done <-chan struct{}, answer func(net.Conn, Seen) bool) {
	defer c.Close()
	go func() { <-done; _ = c.Close() }()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		n := int(s.count.Add(1))
		if !answer(c, Seen{n, r.Method, r.Header, r.URL.EscapedPath(), r.URL.RawQuery, string(body)}) {
			return
		}
	}
}

// Reset closes a connection with RST in place of FIN.
func Reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// Write writes lines of a head with CRLF, an empty line, and the body.
func Write(c net.Conn, head, body string) {
	_, _ = io.WriteString(c, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"+body)
}
