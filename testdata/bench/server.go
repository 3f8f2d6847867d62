package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// answered is the whole of each reply: what `llmbatch mock` says to a short
// prompt, with the headers that every provider sends.
func answered() []byte {
	const body = `{"id":"chatcmpl-9f3c5a7d1e2b4c60","object":"chat.completion","created":1735689600,"model":"gpt-4o-mini","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"Mock the ticket is about an order and asks for help with a refund","refusal":null,"annotations":[]},` +
		`"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":14,"total_tokens":34,` +
		`"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"service_tier":"default","system_fingerprint":"fp_mock"}`
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: req_9f3c5a7d1e2b4c60\r\n"+
		"Date: Mon, 05 Jan 2026 10:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// server knows just enough of HTTP/1.1 to cost next to nothing: its processor
// time is taken from the program that is measured.
type server struct {
	answer  []byte
	latency time.Duration
	tell    int64 // how many calls' times are printed
	calls   atomic.Int64
	came    chan time.Time
}

// serve answers every POST with the same completion until it is told to stop. It
// prints its address, then when the first calls came, in nanoseconds since 1970.
func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	latency := flags.Duration("latency", 0, "time of a call")
	tell := flags.Int64("tell", 0, "calls whose times are printed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { l.Close() })
	s := &server{answer: answered(), latency: *latency, tell: *tell, came: make(chan time.Time, 1<<12)}
	go s.print()
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		go s.connection(c)
	}
}

func (s *server) print() {
	w := bufio.NewWriter(os.Stdout)
	for at := range s.came {
		fmt.Fprintln(w, at.UnixNano())
		if len(s.came) == 0 && w.Flush() != nil {
			return // nobody reads
		}
	}
}

// connection serves calls one after the other until the client leaves.
func (s *server) connection(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 4<<10)
	for {
		length, err := header(r)
		if err != nil {
			return
		}
		if s.calls.Add(1) <= s.tell {
			s.came <- time.Now()
		}
		if _, err := r.Discard(length); err != nil {
			return
		}
		if s.latency > 0 {
			time.Sleep(s.latency)
		}
		if _, err := c.Write(s.answer); err != nil {
			return
		}
	}
}

// header reads a request up to its body and returns the body's length.
func header(r *bufio.Reader) (length int, err error) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			return length, nil
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if found && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, io.ErrUnexpectedEOF
			}
		}
	}
}
