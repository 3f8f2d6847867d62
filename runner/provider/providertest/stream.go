package providertest

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

const streamHead = "HTTP/1.1 200 OK\nContent-Type: text/event-stream\nTransfer-Encoding: chunked"

// chunk writes a piece of a chunked body.
func chunk(c net.Conn, piece string) {
	_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", len(piece), piece)
}

// stream: how streams are framed and how they fail. Where they may be cut, the
// golden answers say.
func (h Harness) stream(t *testing.T) {
	if h.Stream == "" {
		t.Skip("this API has no streams")
	}
	last := "0\r\n\r\n"
	half := h.Stream[:strings.Index(h.Stream[len(h.Stream)/3:], "\n\n")+len(h.Stream)/3+2]
	keptAlive := strings.ReplaceAll(h.Stream, "\n\n", "\n\n: keep-alive\n\n:\n")
	for _, tt := range []struct {
		name   string
		answer func(c net.Conn)
		hang   bool
		want   provider.Kind
		o      provider.Timeouts
	}{
		{name: "whole", answer: func(c net.Conn) { chunk(c, h.Stream); _, _ = c.Write([]byte(last)) }},
		{name: "CRLF", answer: func(c net.Conn) { chunk(c, strings.ReplaceAll(h.Stream, "\n", "\r\n")) }},
		{name: "BOM and comments", answer: func(c net.Conn) { chunk(c, "\xef\xbb\xbf: hello\n\n"+keptAlive) }},
		{name: "letter by letter", answer: func(c net.Conn) {
			for i := range len(h.Stream) {
				chunk(c, h.Stream[i:i+1])
			}
		}},
		{name: "left open", hang: true, answer: func(c net.Conn) { chunk(c, h.Stream) }},
		{name: "hang", hang: true, answer: func(c net.Conn) { chunk(c, half) }, want: provider.KindTimeoutMidStream, o: provider.Timeouts{Idle: 60 * time.Millisecond}},
		{name: "keep-alives for ever", hang: true, answer: ticking, want: provider.KindTimeoutMidStream, o: provider.Timeouts{Idle: 600 * time.Millisecond, Total: 900 * time.Millisecond}},
		{name: "reset", answer: func(c net.Conn) { chunk(c, half); Reset(c) }, want: provider.KindBroken},
		{name: "cut", answer: func(c net.Conn) { chunk(c, half) }, want: provider.KindTruncated},
		{name: "ends early", answer: func(c net.Conn) { chunk(c, half); _, _ = c.Write([]byte(last)) }, want: provider.KindTruncated},
		{name: "nothing", answer: func(c net.Conn) { _, _ = c.Write([]byte(last)) }, want: provider.KindTruncated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Serve(t, func(c net.Conn, _ Seen) bool {
				Write(c, streamHead, "")
				tt.answer(c)
				return tt.hang
			})
			begun := time.Now()
			resp, e := h.do(t, h.New(t, "", s.URL, provider.TransportOptions{Timeouts: tt.o}), provider.Request{Stream: true, Key: "k"})
			took := time.Since(begun)
			switch {
			case tt.want == provider.KindNone:
				if e != nil || native(resp) != h.Streamed {
					t.Errorf("got %v, %+v, want the whole answer\n%s", e, resp, h.Streamed)
				}
				if took > 5*time.Second {
					t.Errorf("took %v, want the answer at once", took)
				}
			case e == nil || e.Kind != tt.want && !(tt.want == provider.KindBroken && e.Kind == provider.KindTruncated) || !e.Unknown():
				t.Errorf("got %+v, want %s and an unknown outcome", e, tt.want)
			case took < tt.o.Total:
				t.Errorf("given up after %v, want only after %v", took, tt.o.Total)
			}
			if s.Requests() != 1 {
				t.Errorf("the server saw %d requests, want 1", s.Requests())
			}
		})
	}
	h.reuse(t)
}

// ticking sends a comment every 20 ms until the client hangs up.
func ticking(c net.Conn) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := c.Write([]byte("8\r\n: life\n\n\r\n")); err != nil {
			return
		}
	}
}

// reuse: behind a stream's end its connection serves the next call.
func (h Harness) reuse(t *testing.T) {
	var connections sync.Map
	s := Serve(t, func(c net.Conn, _ Seen) bool {
		connections.Store(c.RemoteAddr().String(), true)
		Write(c, streamHead, "")
		chunk(c, h.Stream)
		_, _ = c.Write([]byte("0\r\n\r\n"))
		return true
	})
	c := h.New(t, "", s.URL, provider.TransportOptions{})
	for range 3 {
		if _, e := h.do(t, c, provider.Request{Stream: true}); e != nil {
			t.Fatal(e)
		}
	}
	n := 0
	connections.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("got %d connections for 3 calls in turn, want 1", n)
	}
}
