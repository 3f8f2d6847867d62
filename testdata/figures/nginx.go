package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// gate is one way in which nginx keeps 600 requests a minute: ten a second, in
// slices of a tenth, with or without room for a burst, with or without a hint.
type gate struct {
	name, burst string
	hint        bool
}

var gates = []gate{
	{"burst 10", "burst=10 nodelay", true},
	{"burst 10, no hint", "burst=10 nodelay", false},
	{"burst 10, which waits", "burst=10", true},
}

// limited is point "nginx": 300 calls behind a limiter that nobody here wrote.
func limited(ctx context.Context, b *bench) {
	var all sync.WaitGroup
	for _, g := range gates {
		for _, given := range []bool{true, false} {
			all.Go(func() {
				b.try("nginx", fmt.Sprintf("%s, limit given %t", g.name, given), func() error { return g.try(ctx, b, given) })
			})
		}
	}
	all.Wait()
}

func (g gate) try(ctx context.Context, b *bench, given bool) error {
	const n = 300
	s, err := b.scene(ctx, "nginx", same(n, 20), 20, "--latency", "300ms")
	if err != nil {
		return err
	}
	defer s.mock.Kill()
	addr, err := harness.FreeAddr()
	if err != nil {
		return err
	}
	conf := filepath.Join(s.dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte(g.config(addr, s.mock.Addr)), 0o600); err != nil {
		return err
	}
	stop, err := daemon(ctx, s.dir, "nginx", "-p", s.dir, "-c", conf)
	if err != nil {
		return err
	}
	defer stop()
	if err := listening(ctx, addr); err != nil {
		return err
	}
	s.url = "http://" + addr + "/v1"
	name, flags := g.name+", limit unknown", []string(nil)
	if given {
		name, flags = g.name+", limit given", []string{"--rpm", "600"}
	}
	o, err := s.run(ctx, flags...)
	if err != nil {
		return err
	}
	b.equal("nginx", name+": answered", o.report.Completed, n)
	b.atMost("nginx", name+": refused", float64(o.report.RateLimited), n*0.02, fmt.Sprintf(" (in %.0f s)", o.report.Seconds))
	return verify(o)
}

// config is nginx's. Its refusals look like a provider's.
func (g gate) config(addr, upstream string) string {
	hint := ""
	if g.hint {
		hint = "add_header Retry-After 1 always;"
	}
	return strings.NewReplacer("ADDR", addr, "UPSTREAM", upstream, "BURST", g.burst, "HINT", hint).Replace(`
daemon off; worker_processes 1; pid nginx.pid; error_log error.log crit;
events { worker_connections 4096; }
http {
  access_log off; client_max_body_size 64m;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  limit_req_zone $http_authorization zone=rpm:1m rate=600r/m;
  upstream mock { server UPSTREAM; keepalive 64; }
  server {
    listen ADDR; keepalive_requests 100000; error_page 429 @limited;
    location / {
      limit_req zone=rpm BURST; limit_req_status 429;
      proxy_pass http://mock; proxy_http_version 1.1; proxy_set_header Connection "";
    }
    location @limited {
      default_type application/json; HINT
      return 429 '{"error":{"message":"Rate limit reached for requests","type":"requests","code":"rate_limit_exceeded"}}';
    }
  }
}
`)
}
