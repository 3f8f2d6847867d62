package fake

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	messagesPath = "/v1/messages"
	geminiPath   = "/v1beta/models/m:generateContent"
	embedPath    = "/v1beta/models/m:embedContent"
)

func message(text string) string {
	return `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"` + text + `"}]}`
}

func contents(text string) string {
	return `{"contents":[{"role":"user","parts":[{"text":"` + text + `"}]}]}`
}

func TestNativeAnswers(t *testing.T) {
	for _, c := range []struct {
		path, body string
		status     int
		words      []string
	}{
		{messagesPath, message("abcd"), 200, []string{
			`"type":"message"`, `"role":"assistant"`, `"content":[{"text":"Mock`, `"stop_reason":"end_turn"`, `"stop_sequence":null`,
			`"input_tokens":2,`, `"cache_read_input_tokens":1`, `"cache_creation_input_tokens":0`, `"output_tokens":32`,
		}},
		{messagesPath, `{"model":"m","max_tokens":5,"system":[{"type":"text","text":"abcd"}],"messages":[]}`, 200, []string{`"stop_reason":"max_tokens"`, `"output_tokens":5`, `"input_tokens":1,`}},
		{messagesPath, message("[[fault:refusal]]"), 200, []string{`"stop_reason":"refusal"`, `"content":[]`}},
		{messagesPath, message("[[fault:finish=pause_turn]]"), 200, []string{`"stop_reason":"pause_turn"`}},
		{messagesPath, message("[[fault:empty]]"), 200, []string{`"content":[]`, `"stop_reason":"end_turn"`}},
		{messagesPath, message("[[fault:choice_error]]"), 200, []string{`"type":"error"`, `"api_error"`}},
		{messagesPath, `{"model":"m","messages":[]}`, 400, []string{`"type":"error"`, "max_tokens: Field required", `"request_id":"req_`}},
		{geminiPath, contents("abcd"), 200, []string{
			`"candidates":[{"content":{"parts":[{"text":"Mock`, `"role":"model"`, `"finishReason":"STOP"`, `"modelVersion":"m"`,
			`"promptTokenCount":3,`, `"candidatesTokenCount":30`, `"thoughtsTokenCount":2`, `"totalTokenCount":35`, `"cachedContentTokenCount":1`,
		}},
		{geminiPath, `{"contents":{"parts":[{"text":"abcdefgh"}]},"generationConfig":{"maxOutputTokens":4,"candidateCount":2}}`, 200, []string{
			`"finishReason":"MAX_TOKENS"`, `"index":1`, `"promptTokenCount":3,`, `"totalTokenCount":11`,
		}},
		{geminiPath, contents("[[fault:filter]]"), 200, []string{`"finishReason":"SAFETY"`}},
		{geminiPath, contents("[[fault:finish=RECITATION]]"), 200, []string{`"finishReason":"RECITATION"`}},
		{geminiPath, contents("[[fault:policy]]"), 200, []string{`"blockReason":"PROHIBITED_CONTENT"`}},
		{geminiPath, contents("[[fault:empty]]"), 200, []string{`"candidates":[]`}},
		{geminiPath, `{}`, 400, []string{`"status":"INVALID_ARGUMENT"`, "contents is not specified"}},
		{"/v1beta/models/m:streamGenerateContent", contents("a"), 400, []string{"alt=sse"}},
		{"/v1beta1/projects/p/locations/l/publishers/google/models/m:generateContent", contents("a"), 200, []string{`"finishReason":"STOP"`}},
		{embedPath, `{"content":{"parts":[{"text":"a"}]},"outputDimensionality":3}`, 200, []string{`{"embedding":{"values":[`}},
		{"/openai/deployments/m/chat/completions?api-version=2024-10-21", `{"messages":[]}`, 200, []string{`"model":"m"`}},
		{"/openai/deployments/m/chat/completions", `{"messages":[]}`, 404, []string{"Resource not found"}},
	} {
		g := native(t.Context(), t, &Transport{Server: New(Config{Cached: 1, Reasoning: 2})}, c.path, c.body)
		if g.status != c.status || !json.Valid([]byte(g.body)) {
			t.Errorf("%s %s: got %+v", c.path, c.body, g)
		}
		for _, w := range c.words {
			if !strings.Contains(g.body, w) {
				t.Errorf("%s %s: got %s, want %s in it", c.path, c.body, g.body, w)
			}
		}
	}
}

func TestNativeHeaders(t *testing.T) {
	s := New(Config{APIKey: "secret"})
	rt := &Transport{Server: s}
	for _, c := range []struct {
		path, body, header, value, version string
		status                             int
		words                              string
	}{
		{messagesPath, message("a"), "X-Api-Key", "secret", "2023-06-01", 200, ""},
		{messagesPath, message("a"), "Authorization", "Bearer secret", "2023-06-01", 200, ""},
		{messagesPath, message("a"), "X-Api-Key", "secret", "", 400, "anthropic-version"},
		{messagesPath, message("a"), "X-Api-Key", "other", "2023-06-01", 401, "authentication_error"},
		{geminiPath, contents("a"), "X-Goog-Api-Key", "secret", "", 200, ""},
		{geminiPath, contents("a"), "X-Goog-Api-Key", "other", "", 400, "API_KEY_INVALID"},
		{geminiPath + "?key=secret", contents("a"), "X-Unused", "", "", 200, ""},
	} {
		req := request(t.Context(), t, "http://fake", c.path, c.body)
		req.Header = http.Header{c.header: {c.value}, "Anthropic-Version": {c.version}}
		res, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		_ = res.Write(&b)
		_ = res.Body.Close()
		if res.StatusCode != c.status || !strings.Contains(b.String(), c.words) {
			t.Errorf("%s %s: got %s", c.path, c.header, b.String())
		}
		if id := res.Header.Get("Request-Id"); (id != "") != (c.path == messagesPath) || c.status >= 400 && !strings.Contains(b.String(), id) {
			t.Errorf("%s: got request-id %q", c.path, id)
		}
	}
	req, _ := http.NewRequest(http.MethodGet, "http://fake/v1beta/models?key=secret", nil)
	res, err := (&http.Client{Transport: rt}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var v struct{ Models []struct{ Name string } }
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil || len(v.Models) != 1 || v.Models[0].Name != "models/mock" {
		t.Errorf("got %+v, %v", v, err)
	}
}

// TestInputAndOutput meets Anthropic's two token limits: input is charged at admission, but what is cached; output when
// it is there, so that calls in flight can run up a debt.
func TestInputAndOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{ITPM: 100, OTPM: 60, Window: Sliding, Latency: time.Second, Output: 32, Cached: 5})
		rt := &Transport{Server: s}
		long := strings.Repeat("abcd", 34) // 36 tokens with the role, 31 of them charged
		done := make(chan got)
		for range 4 {
			go func() { done <- native(t.Context(), t, rt, messagesPath, message(long)) }()
		}
		var refused got
		for range 4 {
			if g := <-done; g.status == 429 {
				refused = g
			}
		}
		if st := s.Stats(); st.Admitted != 3 || st.Refused["input_tokens"] != 1 || !strings.Contains(refused.body, "100 input tokens per minute") {
			t.Fatalf("got %+v, %s", st, refused.body)
		}
		g := native(t.Context(), t, rt, messagesPath, message("x"))
		if g.status != 429 || !strings.Contains(g.body, "60 output tokens per minute") || g.header.Get("Retry-After") != "60" {
			t.Errorf("after 96 tokens of output: got %+v", g)
		}
		for name, want := range map[string]string{
			"Input-Tokens-Limit": "100", "Input-Tokens-Remaining": "7", "Output-Tokens-Limit": "60", "Output-Tokens-Remaining": "0",
			"Tokens-Limit": "160", "Tokens-Remaining": "7", "Requests-Limit": "",
		} {
			if got := g.header.Get("Anthropic-Ratelimit-" + name); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		if st := s.Stats(); st.PeakOutput != 96 || st.OutputTokens != 96 || st.Refused["output_tokens"] != 1 {
			t.Errorf("got %+v", st)
		}
	})
}

// TestOutputDebt pays for what a bucket was overdrawn by.
func TestOutputDebt(t *testing.T) {
	a := newAdmission(&Config{OTPM: 60, WindowLength: time.Minute}, 0)
	c := call{prompt: 1}
	for range 2 {
		if no := a.ask(0, c.cost()); no != nil {
			t.Fatalf("got %+v", no)
		}
	}
	a.done(0, 0, 80, 0)
	a.done(0, 0, 10, 0)
	if no := a.ask(0, c.cost()); no == nil || no.name != "output_tokens" || no.wait != 31*time.Second {
		t.Errorf("got %+v, want to wait for 31 s: 30 tokens are owed, one is to be there", no)
	}
}

// TestGeminiTokens charges the input alone, whatever the accounting.
func TestGeminiTokens(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want int64
	}{{Config{}, 3}, {Config{Accounting: Max}, 3}, {Config{OneDialect: true}, 35}, {Config{Accounting: None}, 0}} {
		s := New(c.cfg)
		native(t.Context(), t, &Transport{Server: s}, geminiPath, contents("abcd"))
		if st := s.Stats(); st.Charged != c.want || st.BilledTokens != 35 {
			t.Errorf("%+v: got %+v", c.cfg, st)
		}
	}
}
