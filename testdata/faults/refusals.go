package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

var refusalRows = []row{
	{"F36", "429 with each form of a wait", "never sent again sooner than it says; absurd ones stop the run: exit 5", waits},
	{"F37", "429 for every call", "sends <= records x attempts; no bunches", storm},
	{"F38", "429 for a spent quota, a spend cap, a limit of 0", "one attempt; exit 4; the others pending, none dead", spent},
	{"F39", "400, 413, 422; 401, 403, 404", "one attempt: dead letter with its class; or stop, the rest pending", hopeless},
	{"F40", "408 to 599, garbage for a status line", "asked again, with jitter", again},
	{"F41", "a proxy's HTML, with 52x and with 200", "asked again; what is kept of it is short and clean", html},
}

// waits looks at the time between a refusal and the next request. The own
// backoff of half a second and a slow machine explain what is more.
func waits(c *trial) {
	const date = "Date: Thu, 10 Sep 2026 06:00:00 GMT"
	cases := []struct {
		name    string
		headers []string
		wait    float64 // seconds; < 0 = the own backoff; 0 = none, likewise
	}{
		{"12 in blanks", []string{"Retry-After:  2 "}, 2},
		{"seconds", []string{"Retry-After: 3"}, 3},
		{"0", []string{"Retry-After: 0"}, 0},
		{"fraction", []string{"Retry-After: 1.5"}, 1.5},
		{"small fraction", []string{"Retry-After: 0.503"}, 0.503},
		{"negative", []string{"Retry-After: -5"}, -1},
		{"NaN", []string{"Retry-After: NaN"}, -1},
		{"+Inf", []string{"Retry-After: +Inf"}, -1},
		{"a word", []string{"Retry-After: soon"}, -1},
		{"nothing", []string{"Retry-After: "}, -1},
		{"RFC 1123", []string{"Retry-After: Thu, 10 Sep 2026 06:00:03 GMT", date}, 3},
		{"RFC 850", []string{"Retry-After: Thursday, 10-Sep-26 06:00:03 GMT", date}, 3},
		{"asctime", []string{"Retry-After: Thu Sep 10 06:00:03 2026", date}, 3},
		{"a date in the past", []string{"Retry-After: Thu, 10 Sep 2026 05:00:00 GMT", date}, 0},
		{"retry-after-ms", []string{"retry-after-ms: 1500", "Retry-After: 4"}, 1.5},
		{"two", []string{"Retry-After: 1", "Retry-After: 3"}, 3},
		{"resets", []string{"x-ratelimit-reset-requests: 1s", "x-ratelimit-reset-tokens: 3s", "x-ratelimit-remaining-tokens: 0", "x-ratelimit-limit-tokens: 1000"}, 3},
		{"a reset of 17ms", []string{"x-ratelimit-reset-requests: 17ms", "x-ratelimit-remaining-requests: 0", "x-ratelimit-limit-requests: 10"}, 0.017},
	}
	refusal := `{"error":{"message":"Rate limit reached.","type":"requests","param":null,"code":"rate_limit_exceeded"}}`
	side(8, len(cases), func(i int) {
		w := cases[i]
		c.sub(w.name, 1, func(t *trial) {
			var refused time.Time
			h := t.hostile(nil)
			h.answer = func(x *exchange) {
				if x.n == 1 {
					h.mu.Lock()
					refused = time.Now()
					h.mu.Unlock()
					x.reply(429, refusal, w.headers...)
					return
				}
				x.ok()
			}
			p := t.run(0)
			times := h.times()
			t.want(len(times) == 2, "%d requests, want 2", len(times))
			gap := times[1].Sub(refused).Seconds()
			low, high := max(w.wait, 0), max(w.wait, 0)*1.1+6
			t.want(gap >= low, "sent again after %.3f s, want at least %.3f", gap, low)
			t.quick(gap < high, "sent again after %.3f s, want less than %.3f: %s", gap, high, p.Tail())
		})
	})
	far := []string{"1e100", strings.Repeat("9", 300), "99999999999", "1209600", "10800"}
	side(5, len(far), func(i int) {
		c.sub("Retry-After of "+far[i][:min(5, len(far[i]))], 3, func(t *trial) {
			h := t.hostile(func(x *exchange) { x.reply(429, refusal, "Retry-After: "+far[i]) })
			t.args = []string{"--concurrency", "1"}
			p := t.run(5)
			t.want(len(h.times()) == 1 && p.report.Pending == 3, "%d requests, %+v; want one and all pending", len(h.times()), p.report)
			t.says(p, "hint:")
		})
	})
	c.say("%d forms", len(cases)+len(far))
}

func storm(c *trial) {
	c.sub("without a hint", 12, func(t *trial) {
		h := t.hostile(func(x *exchange) {
			x.reply(429, `{"error":{"message":"Slow down.","type":"requests","code":"rate_limit_exceeded"}}`)
		})
		t.args = []string{"--max-attempts", "4", "--max-outage", "15s", "--concurrency", "6"}
		p := t.start(how{})
		status := p.Wait()
		t.want(status == 3 || status == 4, "exit status %d, want 3 or 4: %s", status, p.Tail())
		t.check(p.result())
		times := h.times()
		t.want(len(times) <= 12*4, "%d sends, want at most %d", len(times), 12*4)
		bunch := 0
		for i := range times { // behind the first flight
			n := 0
			for _, later := range times[i:] {
				if i >= 6 && later.Sub(times[i]) < 100*time.Millisecond {
					n++
				}
			}
			bunch = max(bunch, n)
		}
		t.want(bunch <= 2, "%d sends within 100 ms", bunch)
		t.lax.rerun = true
		t.say("%d sends of at most 48, exit %d", len(times), status)
	})
}

func spent(c *trial) {
	cases := []struct {
		marker string
		status int
	}{{"quota", 4}, {"quota=project_spend_limit_exceeded", 4}, {"quota=billing_hard_limit_reached", 4}, {"daily", 5}}
	side(4, len(cases), func(i int) {
		s := cases[i]
		c.sub(s.marker, 0, func(t *trial) {
			t.input("Fine.", "Gone [[fault:"+s.marker+"]]", "Fine too.", "As well.")
			t.mock()
			t.args = []string{"--concurrency", "1"}
			t.lax.same = true
			p := t.run(s.status)
			r := p.report
			t.want(r.Completed == 1 && r.Pending == 3 && r.Calls == 2, "%+v, want 1 completed, 3 pending, 2 calls", r)
			t.says(p, "hint:")
		})
	})
	c.sub("a limit of 0", 3, func(t *trial) {
		t.hostile(func(x *exchange) {
			x.reply(429, `{"error":{"message":"You exceeded your current quota: limit: 0, please check your plan.","type":"insufficient_quota","code":"insufficient_quota"}}`)
		})
		t.args = []string{"--concurrency", "1"}
		p := t.run(4)
		t.want(p.report.Pending == 3 && p.report.Calls == 1, "%+v, want all pending after one call", p.report)
	})
	c.say("5 accounts")
}

func hopeless(c *trial) {
	c.sub("the line's own fault", 0, func(t *trial) {
		classes := map[string]string{"context": "context_length", "policy": "content_policy", "413": "", "422": "", "invalid": "invalid", "unsupported": ""}
		var prompts []string
		for m := range classes {
			prompts = append(prompts, "Fine beside "+m, "Bad [[fault:"+m+"]]")
		}
		t.input(prompts...)
		t.mock()
		t.lax.same = true
		p := t.run(3)
		r := p.report
		t.want(r.Completed == len(classes) && r.Failed == len(classes) && r.Calls == 2*len(classes) && r.Retries == 0, "%+v, want one attempt each", r)
		dead := string(t.read("x.errors.jsonl"))
		for m, class := range classes {
			t.want(class == "" || strings.Contains(dead, `"class":"`+class+`"`), "%s: no class %s in %.400s", m, class, dead)
		}
	})
	markers := []string{"auth", "region", "model", "401", "403"}
	side(5, len(markers), func(i int) {
		c.sub(markers[i], 0, func(t *trial) {
			t.input("Gone [[fault:"+markers[i]+"]]", "Fine.", "Fine too.")
			t.mock()
			t.args = []string{"--concurrency", "1"}
			t.lax.same = true
			p := t.start(how{})
			status := p.Wait()
			t.check(p.result())
			t.want(status == 4 && p.report.Pending == 3 && p.report.Calls == 1, "exit status %d, %+v; want 4 and all pending after one call: %s", status, p.report, p.Tail())
			t.says(p, "hint:")
		})
	})
	c.say("6 dead letters, 5 stops")
}

func again(c *trial) {
	c.sub("statuses", 0, func(t *trial) {
		statuses := []int{408, 409, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529, 599}
		var prompts []string
		for _, s := range statuses {
			prompts = append(prompts, fmt.Sprintf("Once more [[fault:%dx1]]", s), fmt.Sprintf("Fine beside %d.", s))
		}
		t.input(prompts...)
		t.mock("--honour-keys")
		t.lax.same = true
		p := t.run(0)
		t.want(p.report.Calls == 3*len(statuses), "%d calls, want %d", p.report.Calls, 3*len(statuses))
		t.say("%d statuses", len(statuses))
	})
	c.spoil(
		spoilt{name: "no HTTP", play: func(x *exchange) { x.raw("garbage\r\n\r\n"); x.cut() }, unknown: true, class: "broken"},
		spoilt{name: "a status that is no number", play: func(x *exchange) { x.raw("HTTP/1.1 abc OK\r\n\r\n"); x.cut() }, unknown: true, class: "broken"},
		spoilt{name: "zeroes", play: func(x *exchange) { x.raw(string(make([]byte, 4096))); x.cut() }, unknown: true, class: "broken"},
		spoilt{name: "another protocol", play: func(x *exchange) { x.raw("SSH-2.0-OpenSSH_9.2\r\n"); x.cut() }, unknown: true, class: "broken"},
	)
}

func html(c *trial) {
	page := "<!DOCTYPE html><html><head><title>\x1b[2Jexample.com | 524: A timeout occurred</title></head><body>" + strings.Repeat("<p>Ray ID: 8a7b \x1b]52;c;aGk=\x07 \u202e</p>", 200) + "</body></html>"
	c.spoil(
		spoilt{name: "524", play: func(x *exchange) { x.reply(524, page, "Content-Type: text/html") }, class: "server_timeout"},
		spoilt{name: "520", play: func(x *exchange) { x.reply(520, page, "Content-Type: text/html") }, class: "bad_gateway"},
		spoilt{name: "200", play: func(x *exchange) { x.reply(200, page, "Content-Type: text/html") }, class: "bad_content_type"},
		spoilt{name: "200 without a type", play: func(x *exchange) { x.raw("HTTP/1.1 200 OK\r\n\r\n" + page); x.cut() }, class: "bad_content_type"},
	)
	c.sub("for good", 0, func(t *trial) {
		t.input("Bad.", "Fine.", "Good.")
		t.hostile(func(x *exchange) {
			if strings.Contains(x.body, "Bad.") {
				x.reply(200, page, "Content-Type: text/html")
				return
			}
			x.ok()
		})
		t.args = []string{"--max-attempts", "2"}
		t.lax.rerun, t.lax.twice = true, true // a transient dead letter
		p := t.run(3)
		raw, err := os.ReadFile(t.errors())
		t.check(err)
		t.want(len(raw) < 6<<10, "a dead letter of %d bytes", len(raw))
		for _, text := range []string{string(raw), p.Errs.String()} {
			t.want(!strings.ContainsAny(text, "\x1b\x07\u202e"), "control characters get through: %.300q", text)
		}
		t.say("dead letter of %d bytes for a page of %d", len(raw), len(page))
	})
}
