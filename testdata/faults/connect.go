package main

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

var connectRows = []row{
	{"F26", "connection refused, network unreachable, DNS failure", "class connect: nothing sent, none unknown, no attempt counted; exit 4", noConnection},
	{"F27", "connect timeout", "class connect_timeout, of its own", connectTimeout},
	{"F28", "hang ahead of the headers", "timeout_before_headers: unknown, same key, same provider", hang},
	{"F29", "hang in the middle, a byte a second", "idle timer and total; no part of an answer is stored", slowBody},
}

// timed gives the runs timeouts, through a config file.
func (c *trial) timed(timeouts string) {
	c.write("routes.yaml", fmt.Sprintf(`providers:
  house: {kind: openai-compatible, base_url: %q, api_key_env: OPENAI_API_KEY}
models:
  house/gpt-4o-mini: {timeouts: {%s}}
tasks:
  default:
    primary: {provider: house, model: gpt-4o-mini}
`, c.server.URL(), timeouts))
	c.config = "routes.yaml"
}

// unreached wants a run that found nobody: nothing sent, all pending, no attempt
// counted.
func (c *trial) unreached(p *process, words ...string) {
	status := p.Wait()
	c.want(status == 4, "exit status %d, want 4: %s", status, p.Tail())
	c.check(p.result())
	r := p.report
	c.want(r.Pending == len(c.ids) && r.Unknown == 0 && r.PossiblyTwice == 0, "%+v, want all pending", r)
	c.says(p, append(words, "hint:")...)
}

func noConnection(c *trial) {
	c.sub("refused, then it is there", 6, func(t *trial) {
		addr, err := harness.FreeAddr() // at which nobody listens
		t.check(err)
		p := t.start(how{}, "--base-url", "http://"+addr+"/v1", "--max-outage", "3s")
		t.unreached(p, addr)
		t.mockAt(addr)
		t.run(0)
	})
	c.sub("comes back within the outage", 6, func(t *trial) {
		addr, err := harness.FreeAddr() // at which nobody listens
		t.check(err)
		p := t.start(how{}, "--base-url", "http://"+addr+"/v1", "--max-outage", "60s", "--max-attempts", "2")
		t.pause(4*time.Second, p)
		t.mockAt(addr)
		t.want(p.Wait() == 0, "exit status %d, want 0: %s", p.Wait(), p.Tail())
		t.check(p.result())
		t.lax.calls, t.lax.rerun = true, false
		t.say("an outage of 4 s uses up no attempt of 2")
	})
	lone := []string{"unshare", "-n"} // a network of its own, without a way out
	c.sub("network unreachable", 4, func(t *trial) {
		p := t.start(how{wrap: lone}, "--base-url", "http://10.1.2.3/v1", "--allow-plain-http", "--max-outage", "2s")
		t.unreached(p, "10.1.2.3", "unreachable")
	})
	c.sub("no such name", 4, func(t *trial) {
		p := t.start(how{wrap: lone}, "--base-url", "https://nowhere.invalid/v1", "--max-outage", "2s")
		t.unreached(p, "nowhere.invalid")
	})
}

// deaf is a listener whose queue is full: a connection to it neither stands nor
// is refused.
func (c *trial) deaf() string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	c.check(err)
	c.after = append(c.after, func() { _ = syscall.Close(fd) })
	c.check(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	c.check(syscall.Listen(fd, 0))
	sa, err := syscall.Getsockname(fd)
	c.check(err)
	in, ok := sa.(*syscall.SockaddrInet4)
	c.want(ok, "no address")
	addr := fmt.Sprintf("127.0.0.1:%d", in.Port)
	for range 8 { // fill the queue
		conn, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err != nil {
			return addr
		}
		c.after = append(c.after, func() { _ = conn.Close() })
	}
	c.fatal("the queue does not fill")
	return ""
}

func connectTimeout(c *trial) {
	c.sub("full queue", 3, func(t *trial) {
		addr := t.deaf()
		t.write("routes.yaml", fmt.Sprintf(`providers:
  house: {kind: openai-compatible, base_url: "http://%s/v1", api_key_env: OPENAI_API_KEY}
models:
  house/gpt-4o-mini: {timeouts: {connect: 1s}}
tasks:
  default:
    primary: {provider: house, model: gpt-4o-mini}
`, addr))
		t.config = "routes.yaml"
		p := t.start(how{}, "--max-outage", "4s", "--metrics-file", "m.prom")
		t.unreached(p, addr)
		m := string(t.read("m.prom"))
		t.want(strings.Contains(m, `"connect_timeout"`), "no class connect_timeout in the metrics")
		t.say("exit 4 after %.0f s, connect_timeout", p.took().Seconds())
	})
}

// spoilt plays a fault at the first call of each of three lines, and a good
// answer after it.
type spoilt struct {
	name     string
	play     func(*exchange)
	unknown  bool   // the outcome: asked again as possibly billed
	class    string // in the log
	timeouts string
	flags    []string
	billed   bool // the spoilt call was billed too
}

func (c *trial) spoil(all ...spoilt) {
	side(8, len(all), func(i int) {
		s := all[i]
		c.sub(s.name, 3, func(t *trial) {
			t.hostile(func(x *exchange) {
				if x.nth == 1 {
					s.play(x)
					return
				}
				x.ok()
			})
			if s.timeouts != "" {
				t.timed(s.timeouts)
			}
			t.args = append(s.flags, "--log-file", "run.log", "--log-level", "debug")
			t.lax.twice = s.billed
			p := t.run(0)
			unknown := 0
			if s.unknown {
				unknown = 3
			}
			t.want(p.report.PossiblyTwice == unknown, "%d of unknown outcome, want %d: %s", p.report.PossiblyTwice, unknown, p.Tail())
			t.want(t.stats().Asked == 6, "%d wire requests, want 6: %s", t.stats().Asked, p.Tail())
			log := string(t.read("run.log"))
			t.want(strings.Contains(log, "class="+s.class), "no class %s in the log: %.600s", s.class, log)
		})
	})
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.class
	}
	c.say("%d faults", len(all))
}

func hang(c *trial) {
	c.spoil(
		spoilt{name: "silence", play: func(x *exchange) { x.silence(0) }, unknown: true, class: "timeout_before_headers", timeouts: "headers: 1s"},
		spoilt{name: "half a status line", play: func(x *exchange) { x.raw("HTTP/1.1 20"); x.silence(0) }, unknown: true, class: "timeout_before_headers", timeouts: "headers: 1s"},
		spoilt{name: "headers without end", play: func(x *exchange) { x.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"); x.silence(0) }, unknown: true, class: "timeout_before_headers", timeouts: "headers: 1s"},
	)
}

func slowBody(c *trial) {
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 300\r\n\r\n"
	drip := func(x *exchange) {
		x.raw(head)
		for _, b := range good {
			x.raw(string(b))
			x.silence(300 * time.Millisecond)
			if x.closed {
				return
			}
		}
	}
	stream := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"PARTIAL"},"finish_reason":null}]}` + "\n\n"
	c.spoil(
		spoilt{name: "silence in the body", play: func(x *exchange) { x.raw(head + good[:40]); x.silence(0) }, unknown: true, class: "timeout_mid_body", timeouts: "idle: 1s"},
		spoilt{name: "a byte at a time", play: drip, unknown: true, class: "timeout_mid_body", timeouts: "idle: 2s, total: 3s"},
	)
	c.sub("a stream that stalls", 3, func(t *trial) {
		t.hostile(func(x *exchange) {
			if x.nth == 1 {
				x.raw(stream)
				x.silence(0)
				return
			}
			x.bill()
			x.raw(strings.ReplaceAll(stream, "PARTIAL", "WHOLE") +
				`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
			x.cut()
		})
		t.timed("idle: 1s")
		t.args = []string{"--stream"}
		p := t.run(0)
		t.want(p.report.PossiblyTwice == 3, "%d unknown, want 3", p.report.PossiblyTwice)
		t.want(!strings.Contains(string(t.read("x.results.jsonl")), "PARTIAL"), "a part of an answer is stored")
	})
}
