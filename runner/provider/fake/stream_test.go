package fake

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// streamed lists the streaming APIs: path, body with %s for the prompt, terminator.
var streamed = []struct{ name, path, body, done string }{
	{"chat", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"%s"}]}`, "data: [DONE]\n\n"},
	{"completions", "/v1/completions", `{"model":"m","stream":true,"prompt":"%s"}`, "data: [DONE]\n\n"},
	{"responses", "/v1/responses", `{"model":"m","stream":true,"input":"%s"}`, "event: response.completed\n"},
	{"messages", "/v1/messages", `{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"%s"}]}`, "event: message_stop\n"},
	{"gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"%s"}]}]}`, `"finishReason":"STOP"`},
}

func ask(body, prompt string) string { return strings.Replace(body, "%s", prompt, 1) }

// request makes a native call; the version header is what Anthropic wants.
func request(ctx context.Context, t *testing.T, base, path, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Anthropic-Version", "2023-06-01")
	return req
}

// native makes such a call and reads its answer.
func native(ctx context.Context, t *testing.T, rt http.RoundTripper, path, body string) got {
	t.Helper()
	res, err := rt.RoundTrip(request(ctx, t, "http://fake", path, body))
	if err != nil {
		return got{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return got{res.StatusCode, res.Header, string(b), err}
}

// TestStreams reads whole streams: text and usage are those of the answer that is not streamed, and the last piece comes
// when that would have come.
func TestStreams(t *testing.T) {
	for _, a := range streamed {
		synctest.Test(t, func(t *testing.T) {
			s := New(Config{Latency: 9 * time.Second, Output: 40, Cached: 1, Reasoning: 3})
			start := time.Now()
			g := native(t.Context(), t, &Transport{Server: s}, a.path, ask(a.body, "hello there"))
			if g.status != 200 || g.err != nil || time.Since(start) != 9*time.Second || g.header.Get("Content-Type") != "text/event-stream" {
				t.Fatalf("%s: got %+v after %v", a.name, g, time.Since(start))
			}
			if strings.Count(g.body, a.done) != 1 || !strings.HasSuffix(g.body, "\n\n") {
				t.Errorf("%s: got %s", a.name, g.body)
			}
			text, events := collect(t, g.body)
			if n := len(strings.Fields(text)); n != 37 || events < 9 {
				t.Errorf("%s: got %d words in %d events, want 37 (40 tokens without 3 of reasoning): %q", a.name, n, events, text)
			}
			if st := s.Stats(); st.Answered != 1 || st.Billed != 1 || st.OutputTokens != 40 || st.Lost != 0 || st.InFlight != 0 || st.Statuses["200"] != 1 {
				t.Errorf("%s: got %+v", a.name, st)
			}
			for _, usage := range map[string][]string{
				"chat":      {`"usage":null`, `"choices":[],`, `"completion_tokens":40`, `"cached_tokens":1`, `"reasoning_tokens":3`},
				"responses": {`"output_tokens":40`, `"sequence_number":0`},
				"messages":  {`"output_tokens":1,`, `"output_tokens":40`, `"cache_read_input_tokens":1`, "event: ping"},
				"gemini":    {`"candidatesTokenCount":37`, `"thoughtsTokenCount":3`, `"cachedContentTokenCount":1`},
			}[a.name] {
				if !strings.Contains(g.body, usage) {
					t.Errorf("%s: got no %s in %s", a.name, usage, g.body)
				}
			}
		})
	}
}

// collect joins the text of a stream's deltas and counts its events; every one must be JSON but [DONE].
func collect(t *testing.T, body string) (text string, events int) {
	t.Helper()
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		events++
		var v struct {
			Type    string
			Delta   json.RawMessage
			Choices []struct {
				Text  string
				Delta struct{ Content string }
			}
			Candidates []struct {
				Content struct{ Parts []struct{ Text string } }
			}
		}
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		for _, c := range v.Choices {
			text += c.Text + c.Delta.Content
		}
		for _, c := range v.Candidates {
			for _, p := range c.Content.Parts {
				text += p.Text
			}
		}
		var delta struct{ Text string }
		switch v.Type {
		case "content_block_delta":
			_ = json.Unmarshal(v.Delta, &delta)
			text += delta.Text
		case "response.output_text.delta":
			_ = json.Unmarshal(v.Delta, &delta.Text)
			text += delta.Text
		}
	}
	return text, events
}

func TestStreamFaults(t *testing.T) {
	for _, a := range streamed {
		for _, c := range []struct {
			fault  string
			status int
			err    error
			whole  bool // the terminator comes
			words  string
			fate   fate
			out    int64 // tokens billed
		}{
			{"stream_cut=2", 200, io.ErrUnexpectedEOF, false, "Mock", lost, 10},
			{"stream_lost=2", 200, io.ErrUnexpectedEOF, false, "Mock", lost, 40},
			{"stream_cut=0", 200, io.ErrUnexpectedEOF, false, "", lost, 0},
			{"truncated", 200, io.ErrUnexpectedEOF, false, "Mock", lost, 20},
			{"short", 200, nil, false, "Mock", lost, 20},
			{"stream_end=3", 200, nil, false, "Mock", lost, 15},
			{"stream_undone", 200, nil, false, "", lost, 40},
			{"stream_error", 200, nil, false, `"error"`, lost, 20},
			{"stream_error=rate", 200, nil, false, "rror", lost, 20},
			{"stream_stall=2", 200, context.DeadlineExceeded, false, "Mock", abandoned, 10},
			{"stream_open", 200, context.DeadlineExceeded, true, "Mock", answered, 40},
			{"keepalive=50s", 200, nil, true, "Mock", answered, 40},
			{"slow=50s", 200, nil, true, "Mock", answered, 40},
			{"refusal", 200, nil, a.name == "chat" || a.name == "completions" || a.name == "messages" || a.name == "responses", "", answered, 40},
			{"lost", 0, io.EOF, false, "", lost, 40},
			{"drop", 0, io.EOF, false, "", failed, 0},
			{"hang", 0, context.DeadlineExceeded, false, "", failed, 0},
			{"overloaded", map[string]int{"messages": 529}[a.name], nil, false, "verloaded", failed, 0},
			{"error200", 200, nil, false, `data: {"error"`, failed, 0},
			{"html", 200, nil, false, "<!DOCTYPE", failed, 0},
		} {
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{Latency: 9 * time.Second, Output: 40})
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
				defer cancel()
				g := native(ctx, t, &Transport{Server: s}, a.path, ask(a.body, "[[fault:"+c.fault+"]]"))
				synctest.Wait()
				if c.fault == "overloaded" && c.status == 0 {
					c.status = 503
				}
				if c.fault == "error200" && a.name == "messages" {
					c.words = `data: {"error":{"message":`
				}
				if c.fault == "stream_undone" && a.name == "gemini" {
					c.out = 40
				}
				whole := strings.Contains(g.body, a.done)
				if g.status != c.status || !errors.Is(g.err, c.err) || whole != c.whole || !strings.Contains(g.body, c.words) {
					t.Errorf("%s %s: got %d, %v, whole %v: %s", a.name, c.fault, g.status, g.err, whole, g.body)
				}
				st := s.Stats()
				fates := map[fate]int64{answered: st.Answered, lost: st.Lost, abandoned: st.Abandoned}
				if c.fate != failed && fates[c.fate] != 1 || st.Answered+st.Lost+st.Abandoned != st.Billed || st.OutputTokens != c.out || st.InFlight != 0 {
					t.Errorf("%s %s: got %+v", a.name, c.fault, st)
				}
			})
		}
	}
}

// TestStreamLife looks at when things come: signs of life first, then an even flow.
func TestStreamLife(t *testing.T) {
	for _, a := range streamed {
		synctest.Test(t, func(t *testing.T) {
			s := New(Config{Latency: 9 * time.Second})
			start := time.Now()
			res, err := (&Transport{Server: s, HeaderTimeout: time.Second}).RoundTrip(request(t.Context(), t, "http://fake", a.path, ask(a.body, "[[fault:keepalive=20s]]")))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			var last, longest time.Duration
			for lines := bufio.NewScanner(res.Body); lines.Scan(); {
				at := time.Since(start)
				longest, last = max(longest, at-last), at
			}
			if last != 29*time.Second || longest > 3*time.Second {
				t.Errorf("%s: got the last line after %v, the longest silence %v", a.name, last, longest)
			}
		})
	}
}

// TestStreamAbandoned closes the body in the middle: what was generated by then is billed.
func TestStreamAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Latency: 9 * time.Second, Output: 40, HonourKeys: true})
		rt := &Transport{Server: s}
		req := request(t.Context(), t, "http://fake", streamed[0].path, ask(streamed[0].body, "x"))
		req.Header.Set("Idempotency-Key", "k")
		res, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, res.Body, 800); err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		synctest.Wait()
		st := s.Stats()
		if st.Abandoned != 1 || st.OutputTokens == 0 || st.OutputTokens == 40 || st.InFlight != 0 || st.Statuses["aborted"] != 1 {
			t.Errorf("got %+v", st)
		}
		g := post(t, rt, streamed[0].path, ask(streamed[0].body, "x"), "k")
		if !strings.HasSuffix(g.body, "data: [DONE]\n\n") || g.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("again: got %+v", g)
		}
	})
}

// TestStreamLoopback is the same over a socket.
func TestStreamLoopback(t *testing.T) {
	s := New(Config{})
	base := listen(t, s)
	rt := &http.Transport{}
	defer rt.CloseIdleConnections()
	for _, a := range streamed {
		for fault, want := range map[string]error{"": nil, "[[fault:stream_cut=2]]": io.ErrUnexpectedEOF, "[[fault:stream_end]]": nil} {
			res, err := rt.RoundTrip(request(t.Context(), t, base, a.path, ask(a.body, "x"+fault)))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if !errors.Is(err, want) || res.ContentLength != -1 || strings.Contains(string(b), a.done) != (fault == "") {
				t.Errorf("%s %s: got %v, %s", a.name, fault, err, b)
			}
		}
	}
	if st := s.Stats(); st.Answered != 5 || st.Lost != 10 || st.Billed != 15 {
		t.Errorf("got %+v", st)
	}
}
