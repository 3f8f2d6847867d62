package main

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

var wireRows = []row{
	{"F30", "connection closed or reset ahead of the headers", "unknown; one wire request an attempt", closedEarly},
	{"F31", "body cut: Content-Length, chunked, reset", "asked again; not completed", cutBody},
	{"F32", "body cut without a length (HTTP/1.0)", "half: asked again; whole: completed", oldBody},
	{"F33", "gzip cut, gzip bomb", "an error class, bounded memory, the others unharmed", badGzip},
	{"F34", "kept connection dropped under a POST", "wire requests = attempts", droppedConnection},
	{"F35", "HTTP/2 GOAWAY and resets", "no HTTP/2 is spoken: nothing resent unseen; its bytes are garbage", http2},
}

const jsonHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

func closedEarly(c *trial) {
	c.spoil(
		spoilt{name: "closed", play: func(x *exchange) { x.cut() }, unknown: true, class: "broken"},
		spoilt{name: "reset", play: func(x *exchange) { x.reset() }, unknown: true, class: "broken"},
		spoilt{name: "closed in the headers", play: func(x *exchange) { x.raw(jsonHead); x.cut() }, unknown: true, class: "broken"},
		spoilt{name: "reset in the headers", play: func(x *exchange) { x.raw(jsonHead); x.reset() }, unknown: true, class: "broken"},
	)
}

func cutBody(c *trial) {
	full := fmt.Sprintf("%sContent-Length: %d\r\n\r\n", jsonHead, len(good))
	chunked := fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", jsonHead, 80, good[:80])
	c.spoil(
		spoilt{name: "short of its length", play: func(x *exchange) { x.raw(full + good[:100]); x.cut() }, unknown: true, class: "truncated"},
		spoilt{name: "one byte short", play: func(x *exchange) { x.raw(full + good[:len(good)-1]); x.cut() }, unknown: true, class: "truncated"},
		spoilt{name: "chunked, without an end", play: func(x *exchange) { x.raw(chunked); x.cut() }, unknown: true, class: "truncated"},
		spoilt{name: "chunked, bad length", play: func(x *exchange) { x.raw(chunked + "zz\r\n"); x.cut() }, unknown: true, class: "broken"},
		spoilt{name: "reset in the body", play: func(x *exchange) { x.raw(full + good[:100]); x.reset() }, unknown: true, class: "broken"},
		spoilt{name: "nothing of the body", play: func(x *exchange) { x.raw(full); x.cut() }, unknown: true, class: "truncated"},
	)
}

func oldBody(c *trial) {
	head := "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"
	c.spoil(
		spoilt{name: "half", play: func(x *exchange) { x.raw(head + good[:len(good)/2]); x.cut() }, unknown: true, class: "truncated"},
		spoilt{name: "no finish reason", play: func(x *exchange) {
			x.raw(head + strings.Replace(good, `"finish_reason":"stop"`, `"finish_reason":null`, 1))
			x.cut()
		}, unknown: true, class: "truncated"},
		spoilt{name: "nothing", play: func(x *exchange) { x.raw(head); x.cut() }, unknown: true, class: "truncated"},
	)
	c.sub("whole", 3, func(t *trial) {
		t.hostile(func(x *exchange) { x.bill(); x.raw(head + good); x.cut() })
		p := t.run(0)
		t.want(p.report.Retries == 0, "%d retries, want 0", p.report.Retries)
	})
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	// Writing to memory does not fail.
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

func badGzip(c *trial) {
	whole := zipped(good)
	c.spoil(
		spoilt{name: "cut", play: func(x *exchange) { x.reply(200, whole[:len(whole)-12], "Content-Encoding: gzip") }, unknown: true, class: "truncated"},
		spoilt{name: "garbage", play: func(x *exchange) { x.reply(200, "no gzip at all", "Content-Encoding: gzip") }, unknown: true, class: "broken"},
	)
	c.sub("whole", 3, func(t *trial) {
		t.hostile(func(x *exchange) { x.bill(); x.reply(200, whole, "Content-Encoding: gzip") })
		t.run(0)
	})
	c.sub("bombs", 0, func(t *trial) {
		t.input("Fine.", "Boom [[fault:bomb]]", "Fine too.", "Boom again [[fault:bomb]]")
		t.mock()
		t.lax.same = true
		p := t.start(how{})
		peak := t.peak(p)
		t.want(p.Wait() == 3, "exit status %d, want 3: %s", p.Wait(), p.Tail())
		t.check(p.result())
		t.want(p.report.Completed == 2 && p.report.Failed == 2, "%+v", p.report)
		t.want(strings.Contains(string(t.read("x.errors.jsonl")), "response_too_large"), "no class response_too_large")
		t.want(peak() < 300, "%.0f MiB, want less than 300", peak())
		t.say("bombs: %.0f MiB", peak())
	})
}

func droppedConnection(c *trial) {
	c.sub("closed on reading the second request", 30, func(t *trial) {
		seen := map[net.Conn]bool{}
		h := t.hostile(nil)
		h.answer = func(x *exchange) {
			h.mu.Lock()
			again := seen[x.conn]
			seen[x.conn] = true
			h.mu.Unlock()
			if again {
				x.cut()
				return
			}
			x.ok()
		}
		t.args = []string{"--concurrency", "4"}
		p := t.run(0)
		t.want(p.report.Calls == t.stats().Asked, "%d calls counted, %d on the wire", p.report.Calls, t.stats().Asked)
		t.say("%d attempts, %d wire requests", p.report.Calls, t.stats().Asked)
	})
	c.sub("closed after each answer", 30, func(t *trial) {
		t.hostile(func(x *exchange) { x.ok(); x.cut() })
		t.args = []string{"--concurrency", "4"}
		// A request that meets the close is an attempt that no server sees whole.
		t.lax.calls = true
		p := t.run(0)
		t.want(t.stats().Asked == 30 && p.report.Calls >= 30, "%d calls counted, %d on the wire", p.report.Calls, t.stats().Asked)
	})
}

// certificate makes one for 127.0.0.1 and writes it to ca.pem.
func (c *trial) certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	c.check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "faults"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	c.check(err)
	c.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// secure is a hostile server behind TLS.
type secure struct{ *hostile }

func (s secure) URL() string { return strings.Replace(s.hostile.URL(), "http:", "https:", 1) }

// goAway is HTTP/2's settings and a GOAWAY with the last stream below ours.
const goAway = "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x08\x07\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

func http2(c *trial) {
	c.spoil(
		spoilt{name: "GOAWAY in clear", play: func(x *exchange) { x.raw(goAway); x.cut() }, unknown: true, class: "broken"},
		spoilt{name: "GOAWAY, connection left open", play: func(x *exchange) { x.raw(goAway); x.silence(2 * time.Second); x.cut() }, unknown: true, class: "broken"},
	)
	c.sub("a server that offers HTTP/2", 6, func(t *trial) {
		config := &tls.Config{Certificates: []tls.Certificate{t.certificate()}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
		listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
		t.check(err)
		var spoken atomic.Int32
		t.server = secure{t.serve(listener, func(x *exchange) {
			if conn, ok := x.conn.(*tls.Conn); ok && conn.ConnectionState().NegotiatedProtocol == "h2" {
				spoken.Add(1)
			}
			if x.n%3 == 0 && x.nth == 1 { // what GOAWAY and resets come to in HTTP/1.1
				x.cut()
				return
			}
			x.ok()
		})}
		t.args = []string{"--ca-file", "ca.pem", "--concurrency", "2"}
		p := t.run(0)
		t.want(spoken.Load() == 0, "HTTP/2 was negotiated")
		t.want(p.report.Calls == t.stats().Asked && p.report.Retries >= 2, "%d calls counted, %d on the wire, %d retries", p.report.Calls, t.stats().Asked, p.report.Retries)
	})
}
