package fake

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
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
