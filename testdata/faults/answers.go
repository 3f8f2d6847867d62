package main

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

var answerRows = []row{
	{"F42", "200 with an error, no choice, no content; an error event", "no success: asked again, then a dead letter", hollow},
	{"F43", "streams: ends missing, left open, comments, CRLF, split, 1 MB", "complete or failed as the terminator says", streams},
	{"F44", "finish reason length", "completed, flagged, counted", cutShort},
	{"F45", "redirect, other encodings, BOM in the answer", "not followed; decoded or an error, never garbled", foreignBytes},
	{"F46", "an answer after the client's timeout", "one terminal state; the late answer has nowhere to arrive", late},
	{"F47", "the primary dies after three pieces", "the result is wholly the fallback's", diesMidway},
}

// complete wants lines that say this and nothing else.
func (c *trial) complete(text string, n int) {
	lines, err := harness.ReadLines(c.results())
	c.check(err)
	c.want(len(lines) == n, "%d lines, want %d", len(lines), n)
	for id, l := range lines {
		c.want(strings.Contains(l, `"content":`+fmt.Sprintf("%q", text)), "%s: no %q in %.600s", id, text, l)
	}
}

func hollow(c *trial) {
	replace := func(old, new string) func(*exchange) {
		return func(x *exchange) { x.reply(200, strings.Replace(good, old, new, 1)) }
	}
	c.spoil(
		spoilt{name: "error object", play: func(x *exchange) { x.reply(200, `{"error":{"message":"x","type":"server_error","code":null}}`) }, class: "server"},
		spoilt{name: "overloaded object", play: func(x *exchange) {
			x.reply(200, `{"error":{"message":"Overloaded","type":"overloaded_error","code":"overloaded"}}`)
		}, class: "overloaded"},
		spoilt{name: "no choice", play: func(x *exchange) {
			x.reply(200, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0,"total_tokens":1}}`)
		}, class: "empty_answer"},
		spoilt{name: "null content", play: replace(`"content":"Fine."`, `"content":null`), class: "empty_answer"},
		spoilt{name: "empty content", play: replace(`"content":"Fine."`, `"content":""`), class: "empty_answer"},
		spoilt{name: "null", play: func(x *exchange) { x.reply(200, "null") }, class: "bad_content_type"},
		spoilt{name: "an array", play: func(x *exchange) { x.reply(200, "[]") }, class: "bad_content_type"},
		spoilt{name: "no body", play: func(x *exchange) { x.reply(200, "") }, class: "truncated", unknown: true},
	)
	c.sub("error event in a stream", 0, func(t *trial) {
		t.input("One [[fault:stream_errorx1]]", "Two [[fault:stream_error=overloadedx1]]", "Three.")
		t.mock("--honour-keys")
		t.args = []string{"--stream"}
		t.lax.same = true
		p := t.run(0)
		t.want(p.report.Calls == 5, "%d calls, want 5", p.report.Calls)
	})
	c.sub("for good", 0, func(t *trial) {
		t.input("Empty [[fault:empty]]", "Failed [[fault:error200]]", "Fine.", "Good.")
		t.mock()
		t.args = []string{"--max-attempts", "3"}
		t.lax.same, t.lax.rerun, t.lax.twice = true, true, true // new samples are asked for and paid
		p := t.run(3)
		t.want(p.report.Completed == 2 && p.report.Failed == 2, "%+v, want 2 completed and 2 failed", p.report)
	})
}

func piece(content string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":` +
		fmt.Sprintf("%q", content) + `},"finish_reason":null}]}` + "\n\n"
}

const (
	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	finished   = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}` + "\n\n"
	endMark    = "data: [DONE]\n\n"
)

func streams(c *trial) {
	million := strings.Repeat("z", 1<<20)
	cases := []struct {
		name  string
		body  string
		whole bool
		text  string
		open  bool // the connection stays open
	}{
		{"finish reason, no [DONE]", piece("He") + piece("y") + finished, true, "Hey", false},
		{"[DONE], no finish reason", piece("He") + piece("y") + endMark, false, "Hey", false},
		{"neither", piece("He") + piece("y"), false, "Hey", false},
		{"left open behind [DONE]", piece("Hey") + finished + endMark, true, "Hey", true},
		{"comments and pings", ": ping\n\n" + piece("Hey") + "\n\n: still there\n\nevent: ping\ndata: {}\n\n" + finished + ":\n\n" + endMark, true, "Hey", false},
		{"CRLF", strings.ReplaceAll(piece("Hey")+finished+endMark, "\n", "\r\n"), true, "Hey", false},
		{"an event of 1 MB", piece(million) + finished + endMark, true, million, false},
	}
	side(4, len(cases), func(i int) {
		s := cases[i]
		c.sub(s.name, 2, func(t *trial) {
			var held atomic.Int64
			t.hostile(func(x *exchange) {
				if x.nth == 1 || s.whole {
					if s.whole {
						x.bill()
					}
					x.raw(streamHead + s.body)
					if s.open {
						at := time.Now()
						x.silence(0) // until the client leaves
						held.Store(max(held.Load(), int64(time.Since(at))))
						return
					}
					x.cut()
					return
				}
				x.bill()
				x.raw(streamHead + piece("Hey") + finished + endMark)
				x.cut()
			})
			t.args = []string{"--stream"}
			p := t.run(0)
			calls := 2
			if !s.whole {
				calls = 4
			}
			t.want(p.report.Calls == calls, "%d calls, want %d: %s", p.report.Calls, calls, p.Tail())
			t.quick(time.Duration(held.Load()) < 2*time.Second, "left %s after [DONE], want at once", time.Duration(held.Load()))
			t.complete(s.text, 2)
		})
	})
	c.sub("split at each byte", 1, func(t *trial) {
		t.hostile(func(x *exchange) {
			x.bill()
			for _, b := range []byte(streamHead + piece("Zoë") + finished + endMark) {
				x.raw(string([]byte{b}))
			}
			x.cut()
		})
		t.args = []string{"--stream"}
		t.run(0)
		t.complete("Zoë", 1)
	})
	c.say("%d streams", len(cases)+1)
}

func cutShort(c *trial) {
	c.sub("length", 0, func(t *trial) {
		t.input("One [[fault:length]]", "Two.")
		t.mock()
		t.lax.same = true
		p := t.run(0)
		t.want(p.report.Completed == 2 && p.report.Truncated == 1, "%+v, want 2 completed, 1 of them cut", p.report)
		t.want(strings.Contains(string(t.read("x.results.jsonl")), `"finish":"length"`), "no finish length in the output")
		t.says(p, "cut")
	})
}

func foreignBytes(c *trial) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		c.sub(fmt.Sprint("redirect ", status), 2, func(t *trial) {
			other := t.hostile(func(x *exchange) { x.ok() })
			leaked := other.URL()
			t.hostile(func(x *exchange) { x.reply(status, "", "Location: "+leaked+"/chat/completions") })
			t.args = []string{"--concurrency", "1"}
			t.lax.rerun = true
			p := t.start(how{})
			t.want(p.Wait() == 3 || p.Wait() == 4, "exit status %d: %s", p.Wait(), p.Tail())
			t.check(p.result())
			l, err := other.Ledger(t.ctx)
			t.check(err)
			t.want(l.Asked == 0 && other.conns == 0, "the other server saw %d requests on %d connections", l.Asked, other.conns)
			t.want(p.report.Retries == 0, "%d retries, want none", p.report.Retries)
		})
	}
	body := strings.Replace(good, "Fine.", "Zoë ✓", 1)
	c.sub("BOM in front", 2, func(t *trial) {
		t.hostile(func(x *exchange) { x.bill(); x.reply(200, "\ufeff"+body) })
		t.run(0)
		t.complete("Zoë ✓", 2)
	})
	c.sub("charset named", 2, func(t *trial) {
		t.hostile(func(x *exchange) { x.bill(); x.reply(200, body, "Content-Type: application/json; charset=utf-8") })
		t.run(0)
		t.complete("Zoë ✓", 2)
	})
	c.spoil(
		spoilt{name: "brotli that was not asked for", play: func(x *exchange) { x.reply(200, "\x0b\x02\x80hey\x03", "Content-Encoding: br") }, class: "bad_content_type"},
		spoilt{name: "UTF-16", play: func(x *exchange) { x.reply(200, "\xff\xfe{\x00\"\x00i\x00d\x00\"\x00:\x001\x00}\x00") }, class: "bad_content_type"},
	)
	c.sub("bytes that are no UTF-8", 2, func(t *trial) {
		t.hostile(func(x *exchange) { x.bill(); x.reply(200, strings.Replace(good, "Fine.", "Zo\xeb", 1)) })
		t.lax.twice, t.lax.rerun = true, true
		t.args = []string{"--max-attempts", "2"}
		p := t.start(how{})
		t.want(p.Wait() == 0 || p.Wait() == 3, "exit status %d: %s", p.Wait(), p.Tail())
		t.check(p.result())
		raw := string(t.read("x.results.jsonl"))
		t.want(strings.ToValidUTF8(raw, "") == raw, "the output is no UTF-8")
	})
}

func late(c *trial) {
	c.sub("an answer a second late", 3, func(t *trial) {
		t.hostile(func(x *exchange) {
			if x.nth == 1 {
				x.bill()
				x.silence(2 * time.Second) // the client has left
				x.reply(200, strings.Replace(good, "Fine.", "LATE", 1))
				return
			}
			x.ok()
		})
		t.timed("headers: 1s")
		t.lax.twice = true // that is the fault
		p := t.run(0)
		t.want(p.report.PossiblyTwice == 3, "%d named as possibly billed twice, want 3", p.report.PossiblyTwice)
		t.complete("Fine.", 3)
	})
}

func diesMidway(c *trial) {
	c.sub("two providers", 3, func(t *trial) {
		first := t.hostile(func(x *exchange) {
			x.raw(streamHead + piece("PAR") + piece("TI") + piece("AL"))
			x.reset()
		})
		broken := first.URL()
		t.hostile(func(x *exchange) {
			x.bill()
			x.raw(streamHead + piece("FU") + piece("LL") + finished + endMark)
			x.cut()
		})
		t.write("routes.yaml", fmt.Sprintf(`providers:
  first: {kind: openai-compatible, base_url: %q, api_key_env: OPENAI_API_KEY}
  second: {kind: openai-compatible, base_url: %q, api_key_env: OPENAI_API_KEY}
retry:
  short: {max_attempts: 2}
tasks:
  default:
    primary: {provider: first, model: gpt-4o-mini}
    fallbacks: [{provider: second, model: gpt-4o-mini, when: [primary_unavailable]}]
    retry: short
`, broken, t.server.URL()))
		t.config = "routes.yaml"
		t.args = []string{"--stream"}
		t.lax.calls = true
		p := t.run(0)
		t.complete("FULL", 3)
		raw := string(t.read("x.results.jsonl"))
		t.want(!strings.Contains(raw, "PAR") && strings.Count(raw, `"provider":"second"`) == 3, "not wholly of the second: %.400s", raw)
		t.want(p.report.PossiblyTwice > 0, "the calls that died are not named as possibly billed")
		l, err := first.Ledger(t.ctx)
		t.check(err)
		t.say("%d calls died, %d named", l.Asked, p.report.PossiblyTwice)
	})
}
