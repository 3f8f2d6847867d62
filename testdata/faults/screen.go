package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

var screenRows = []row{
	{"F53", "a panic over one line", "a dead letter; the others go on", panics},
	{"F54", "metrics port busy; scrapes while a run ends", "exit 2 ahead of the first call; no crash", scrapes},
	{"F55", "progress without a terminal, on one of width 0, NO_COLOR, resized", "no CR and no ESC without a terminal; a line an interval", screens},
}

func panics(c *trial) {
	c.goTest("runner", "TestDefectEndsItsLineAlone")
}

func scrapes(c *trial) {
	c.sub("port busy", 4, func(t *trial) {
		t.mock()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		t.check(err)
		defer l.Close()
		p := t.runAs(how{}, 2, "--metrics-addr", l.Addr().String())
		t.says(p, "--metrics-addr", "hint:")
		t.want(t.stats().Asked == 0, "%d calls, want none", t.stats().Asked)
	})
	c.sub("scraped to the end", 120, func(t *trial) {
		t.mock("--latency", "50ms")
		p := t.start(how{}, "--metrics-addr", "127.0.0.1:0", "--concurrency", "8")
		address := regexp.MustCompile(`http://\S+/metrics`)
		t.until("the address", func() bool { return address.MatchString(p.Errs.String()) })
		where, read := address.FindString(p.Errs.String()), 0
		client := &http.Client{Timeout: time.Second}
		for p.Running() {
			response, err := client.Get(where)
			if err != nil {
				continue
			}
			if _, err := io.Copy(io.Discard, response.Body); err == nil {
				read++
			}
			_ = response.Body.Close() // it was read
		}
		t.want(p.Wait() == 0, "exit status %d: %s", p.Wait(), p.Tail())
		t.check(p.result())
		t.want(read > 0, "no scrape got through")
		t.say("%d scrapes", read)
	})
}

func screens(c *trial) {
	c.sub("no terminal", 60, func(t *trial) {
		t.mock("--latency", "1s")
		p := t.run(0, "--concurrency", "4")
		said := p.Errs.String()
		t.want(!strings.ContainsAny(said, "\r\x1b"), "CR or ESC: %.300q", said)
		lines := strings.Count(said, "done (")
		t.want(lines >= 1 && lines < 20, "%d lines of progress in %s", lines, p.took())
		t.say("%d lines in %.0f s", lines, p.took().Seconds())
	})
	terminals := []struct{ name, set, clean string }{
		{"terminal", "stty cols 80", ""},
		{"width 0", "stty cols 0 rows 0", ""},
		{"width 1", "stty cols 1", ""},
		{"NO_COLOR", "export NO_COLOR=1; stty cols 80", "\x1b["},
		{"--no-progress", "stty cols 80", "\x1b"},
	}
	side(2, len(terminals), func(i int) {
		s := terminals[i]
		c.sub(s.name, 20, func(t *trial) {
			t.mock("--latency", "200ms")
			flag := ""
			if s.name == "--no-progress" {
				flag = s.name
			}
			inner := fmt.Sprintf("%s; %s run x.jsonl --base-url %s --concurrency 4 %s; echo status $?", s.set, t.binary, t.server.URL(), flag)
			cmd := exec.CommandContext(t.ctx, "script", "-qec", inner, "/dev/null")
			cmd.Dir = t.dir
			cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "TERM=xterm", "HOME=" + t.dir, "TMPDIR=" + t.dir, "OPENAI_API_KEY=" + canary}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := cmd.CombinedOutput()
			t.check(err)
			t.want(strings.Contains(string(out), "status 0"), "no status 0: %.600q", out)
			t.want(!strings.Contains(string(out), "goroutine "), "a trace: %.600q", out)
			t.want(s.clean == "" || !strings.Contains(string(out), s.clean), "%q on the screen: %.600q", s.clean, out)
			t.want(!strings.Contains(string(out), canary), "I9: the key is on the screen")
		})
	})
	c.sub("resized while it runs", 30, func(t *trial) {
		t.mock("--latency", "300ms")
		inner := fmt.Sprintf("stty cols 100; (for n in 40 10 200 0 80; do sleep 0.3; stty cols $n <&1; done) & %s run x.jsonl --base-url %s --concurrency 4; echo status $?", t.binary, t.server.URL())
		cmd := exec.CommandContext(t.ctx, "script", "-qec", inner, "/dev/null")
		cmd.Dir = t.dir
		cmd.Env = []string{"PATH=/usr/bin:/bin", "TERM=xterm", "HOME=" + t.dir, "TMPDIR=" + t.dir, "OPENAI_API_KEY=" + canary}
		out, err := cmd.CombinedOutput()
		t.check(err)
		t.want(strings.Contains(string(out), "status 0"), "no status 0: %.600q", out)
	})
}
