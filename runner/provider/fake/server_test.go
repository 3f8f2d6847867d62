package fake

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// listen serves s on a free port of the loopback interface and returns its base URL.
func listen(t *testing.T, s *Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, ln, s) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Serve: got %v, want nil", err)
		}
	})
	return "http://" + ln.Addr().String()
}

func TestLoopback(t *testing.T) {
	s := New(Config{RPM: 5})
	base := listen(t, s)
	rt := &http.Transport{}
	defer rt.CloseIdleConnections()
	for i, c := range []struct {
		text   string
		status int
		err    error
	}{
		{"a", 200, nil},
		{"[[fault:500]]", 500, nil},
		{"[[fault:lost]]", 0, io.EOF},
		{"[[fault:truncated]]", 200, io.ErrUnexpectedEOF},
		{"[[fault:html]]", 200, nil},
		{"b", 429, nil},
	} {
		g := send(t.Context(), rt, base, "/v1/chat/completions", chat(c.text), "")
		if g.status != c.status || g.err != c.err {
			t.Errorf("call %d %q: got %d, %v, want %d, %v", i, c.text, g.status, g.err, c.status, c.err)
		}
	}
	req, _ := http.NewRequest(http.MethodGet, base+"/stats", nil)
	res, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var st Stats
	if err := json.NewDecoder(res.Body).Decode(&st); err != nil {
		t.Fatal(err)
	}
	if st.Asked != 6 || st.RefusedSum != 1 || st.Refused["requests"] != 1 || st.Admitted != 5 || st.Answered != 1 || st.Billed != 3 || st.Lost != 2 || st.Statuses["aborted"] != 2 {
		t.Errorf("got %+v", st)
	}
}

func TestLoopbackHang(t *testing.T) {
	s := New(Config{})
	base := listen(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	rt := &http.Transport{}
	defer rt.CloseIdleConnections()
	if g := send(ctx, rt, base, "/v1/chat/completions", chat("[[fault:hang]]"), ""); g.err == nil {
		t.Errorf("got status %d, want the context's error", g.status)
	}
}

func TestLogAndReset(t *testing.T) {
	s := New(Config{LogMax: 2})
	rt := &Transport{Server: s}
	for range 3 {
		post(t, rt, "/v1/chat/completions", chat("a"), "key")
	}
	get := func(method, path string) string {
		req, _ := http.NewRequest(method, "http://fake"+path, nil)
		res, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		return string(b)
	}
	lines := strings.Split(strings.TrimSpace(get(http.MethodGet, "/log")), "\n")
	var e Entry
	if err := json.Unmarshal([]byte(lines[0]), &e); err != nil || len(lines) != 2 || e.Key != "key" || e.Status != 200 || e.Tokens != 35 || e.Billed != 35 || e.InFlight != 1 {
		t.Errorf("got %d lines, %+v, %v", len(lines), e, err)
	}
	if st := s.Stats(); st.LogDropped != 1 {
		t.Errorf("got %d dropped, want 1", st.LogDropped)
	}
	get(http.MethodPost, "/reset")
	if st := s.Stats(); st.Asked != 0 || len(s.Log()) != 0 || !st.First.IsZero() {
		t.Errorf("after a reset: got %+v", st)
	}
	if !strings.Contains(get(http.MethodGet, "/stats"), `"peak_minute_requests":0`) {
		t.Error("got no peak in /stats")
	}
}

func TestTrackMax(t *testing.T) {
	s := New(Config{TrackMax: 2})
	rt := &Transport{Server: s}
	for range 2 {
		for _, text := range []string{"a", "b", "c"} {
			post(t, rt, "/v1/chat/completions", chat(text), "")
		}
	}
	if st := s.Stats(); st.Untracked != 2 || st.Twice.Operations != 2 || st.Bodies != 2 || st.Billed != 6 {
		t.Errorf("got %+v", st)
	}
}
