package fake

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, rt http.RoundTripper, path string) got {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://fake"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return got{res.StatusCode, res.Header, string(b), err}
}

// TestLookUpResponse finds an answer by the id that a broken stream began with.
func TestLookUpResponse(t *testing.T) {
	for fault, words := range map[string]string{
		"stream_undone": `"status":"completed"`, "stream_cut=2": `"status":"cancelled"`, "stream_lost=2": `"status":"completed"`, "truncated": `"status":"cancelled"`, "stream_open": `"status":"completed"`,
	} {
		s := New(Config{})
		rt := &Transport{Server: s}
		res, err := rt.RoundTrip(request(t.Context(), t, "http://fake", "/v1/responses", `{"model":"m","stream":true,"input":"[[fault:`+fault+`x1]]"}`))
		if err != nil {
			t.Fatal(err)
		}
		var seen []byte
		for buf := make([]byte, 4096); ; {
			n, err := res.Body.Read(buf)
			seen = append(seen, buf[:n]...)
			if err != nil || strings.Contains(string(seen), "response.completed") {
				break
			}
		}
		_ = res.Body.Close()
		id := regexp.MustCompile(`resp_[0-9a-f]+`).FindString(string(seen))
		if g := get(t, rt, "/v1/responses/"+id); g.status != 200 || !strings.Contains(g.body, words) || !strings.Contains(g.body, id) {
			t.Errorf("%s: got %+v, want %s", fault, g, words)
		}
		if st := s.Stats(); st.Lookups != 1 || st.Asked != 1 || st.Billed != 1 {
			t.Errorf("%s: got %+v", fault, st)
		}
	}
}

func TestLookUpGeneration(t *testing.T) {
	s := New(Config{Style: OpenRouter, APIKey: ""})
	rt := &Transport{Server: s}
	g := post(t, rt, "/api/v1/chat/completions", chat("[[fault:truncated]]"), "")
	id := g.header.Get("X-Generation-Id")
	if found := get(t, rt, "/api/v1/generation?id="+id); found.status != 200 || !strings.Contains(found.body, `"tokens_completion":32`) || !strings.Contains(found.body, `"cancelled":false`) {
		t.Errorf("got %+v", found)
	}
	if text := get(t, rt, "/api/v1/generation/content?id="+id); text.status != 200 || !strings.Contains(text.body, `"completion":"Mock `) {
		t.Errorf("got %+v", text)
	}
	for _, path := range []string{"/api/v1/generation?id=gen-0", "/api/v1/generation/content?id=gen-0", "/v1/responses/resp_0"} {
		if g := get(t, rt, path); g.status != 404 {
			t.Errorf("%s: got %+v", path, g)
		}
	}
	if g := get(t, &Transport{Server: New(Config{APIKey: "k"})}, "/v1/responses/resp_0"); g.status != 401 {
		t.Errorf("got %+v", g)
	}
}
