package fake

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		api, body string
		words     []string
	}{
		{
			"/chat/completions", `{"model":"gpt-4o","n":2,"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:"}}]}]}`,
			[]string{`"object":"chat.completion"`, `"index":1`, `"completion_tokens":64`, `"finish_reason":"stop"`, `"model":"gpt-4o"`, `"prompt_tokens_details":{"cached_tokens":0}`},
		},
		{"/chat/completions", `{"model":"m","max_tokens":5,"messages":[]}`, []string{`"completion_tokens":5,`, `"finish_reason":"length"`}},
		{
			"/responses", `{"model":"m","instructions":"b","input":[{"role":"user","content":[{"type":"input_text","text":"abcd"}]}]}`,
			[]string{`"object":"response"`, `"status":"completed"`, `"type":"output_text"`, `"input_tokens":4,"output_tokens":32,"total_tokens":36,"input_tokens_details":{"cached_tokens":0},"output_tokens_details":{"reasoning_tokens":0}`},
		},
		{"/responses", `{"model":"m","max_output_tokens":16,"input":"abcd"}`, []string{`"status":"incomplete"`, `"reason":"max_output_tokens"`}},
		{"/responses", `{"model":"m","input":"[[fault:refusal]]"}`, []string{`"type":"refusal"`}},
		{"/responses", `{"model":"m","input":"[[fault:choice_error]]"}`, []string{`"status":"failed"`}},
		{"/embeddings", `{"model":"m","input":["a","b"],"dimensions":3}`, []string{`"object":"embedding","index":1,`, `"usage":{"prompt_tokens":2,"total_tokens":2}`}},
		{"/embeddings", `{"model":"m","input":[[1,2],[3]]}`, []string{`"index":1,`}},
		{"/completions", `{"model":"m","prompt":["a","b"],"n":2,"max_tokens":4}`, []string{`"object":"text_completion"`, `"index":3`, `"completion_tokens":16`}},
		{"/moderations", `{"model":"omni-moderation-latest","input":"a"}`, []string{`"results":[{"flagged":false`}},
	} {
		s := New(Config{})
		rt := &Transport{Server: s}
		g := post(t, rt, "/v1"+c.api, c.body, "")
		if g.status != 200 || !json.Valid([]byte(g.body)) || g.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: got %+v", c.api, g)
		}
		for _, w := range c.words {
			if !strings.Contains(g.body, w) {
				t.Errorf("%s %s: got %s, want %s in it", c.api, c.body, g.body, w)
			}
		}
		if again := post(t, &Transport{Server: New(Config{})}, "/openai/v1"+c.api, " "+c.body+"\n", "key"); again.body != g.body {
			t.Errorf("%s: got another answer from another server:\n%s\n%s", c.api, g.body, again.body)
		}
		if other := post(t, &Transport{Server: New(Config{Seed: 1})}, "/v1"+c.api, c.body, ""); other.body == g.body {
			t.Errorf("%s: got the same answer from another seed", c.api)
		}
	}
}

func TestPackedEmbedding(t *testing.T) {
	g := post(t, &Transport{Server: New(Config{})}, "/v1/embeddings", `{"model":"m","input":"a","dimensions":5,"encoding_format":"base64"}`, "")
	var v struct{ Data []struct{ Embedding string } }
	if err := json.Unmarshal([]byte(g.body), &v); err != nil {
		t.Fatal(err)
	}
	if raw, err := base64.StdEncoding.DecodeString(v.Data[0].Embedding); err != nil || len(raw) != 20 {
		t.Errorf("got %d bytes, %v, want 20", len(raw), err)
	}
}

func TestEcho(t *testing.T) {
	g := post(t, &Transport{Server: New(Config{Echo: true})}, "/v1/chat/completions",
		`{"model":"m","messages":[{"role":"system","content":"no"},{"role":"user","content":"quote \" and \u00e9"}]}`, "")
	if !strings.Contains(g.body, `"content":"quote \" and \u00e9"`) {
		t.Errorf("got %s", g.body)
	}
}

// TestRejected are calls that never come to the limits.
func TestRejected(t *testing.T) {
	cfg := Config{APIKey: "secret", Models: []string{"m", "x/y"}, MaxBody: 200}
	for _, c := range []struct {
		method, path, body, auth string
		status                   int
		code                     string
	}{
		{"POST", "/v1/chat/completions", chat("a"), "Bearer secret", 200, ""},
		{"POST", "/v1/chat/completions", chat("a"), "Bearer other", 401, "invalid_api_key"},
		{"POST", "/v1/chat/completions", chat("a"), "", 401, "invalid_api_key"},
		{"POST", "/v1/chat/completions", `{"model":"z"}`, "Bearer secret", 404, "model_not_found"},
		{"POST", "/v1/chat/completions", `{"messages":[]}`, "Bearer secret", 400, "model parameter"},
		{"POST", "/v1/chat/completions", `{"model":"m","n":129}`, "Bearer secret", 400, "maximum"},
		{"POST", "/v1/chat/completions", `{"model":`, "Bearer secret", 400, "parse"},
		{"POST", "/v1/chat/completions", `[]`, "Bearer secret", 400, "parse"},
		{"POST", "/v1/chat/completions", chat(strings.Repeat("a", 200)), "Bearer secret", 413, "too large"},
		{"POST", "/v1/rerank", "{}", "Bearer secret", 404, "Invalid URL"},
		{"GET", "/v1/chat/completions", "", "Bearer secret", 405, "GET"},
		{"GET", "/v1/models", "", "Bearer secret", 200, `"id":"x/y"`},
		{"GET", "/v1/models", "", "", 401, "invalid_api_key"},
	} {
		s := New(cfg)
		req, _ := http.NewRequest(c.method, "http://fake"+c.path, strings.NewReader(c.body))
		req.Header.Set("Authorization", c.auth)
		res, err := (&http.Client{Transport: &Transport{Server: s}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		_ = res.Write(&b)
		_ = res.Body.Close()
		if res.StatusCode != c.status || !strings.Contains(b.String(), c.code) {
			t.Errorf("%s %s %s: got %s", c.method, c.path, c.body, b.String())
		}
		if st := s.Stats(); c.method == "POST" && (c.status == 200) != (st.Admitted == 1) || st.Admitted+st.Rejected != st.Asked {
			t.Errorf("%s %s: got %+v", c.method, c.path, st)
		}
	}
}

func TestDownAndQuota(t *testing.T) {
	run := func(c Config, n int) (statuses []int) {
		rt := &Transport{Server: New(c)}
		for range n {
			statuses = append(statuses, post(t, rt, "/v1/chat/completions", chat("a"), "").status)
		}
		return statuses
	}
	for _, c := range []struct {
		name string
		cfg  Config
		want []int
	}{
		{"down for a while", Config{DownFrom: 2, DownUntil: 4}, []int{200, 0, 0, 200, 200}},
		{"down for good", Config{DownFrom: 2, DownStatus: 503}, []int{200, 503, 503, 503, 503}},
		{"quota", Config{QuotaAfter: 2}, []int{200, 200, 429, 429, 429}},
		{"quota, OpenRouter", Config{QuotaAfter: 4, Style: OpenRouter}, []int{200, 200, 200, 200, 402}},
	} {
		got := run(c.cfg, 5)
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: got %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

func TestStyles(t *testing.T) {
	for _, c := range []struct {
		style   Style
		answer  map[string]string // headers of a 200
		refusal map[string]string // headers of the 429 that follows
		words   string            // in the 429's body
	}{
		{
			OpenAI,
			map[string]string{"X-Ratelimit-Limit-Requests": "1", "X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "1m0s", "X-Ratelimit-Remaining-Tokens": "965", "Retry-After": ""},
			map[string]string{"X-Ratelimit-Remaining-Requests": "0", "Retry-After": "60"},
			`"type":"requests"`,
		},
		{
			Anthropic,
			map[string]string{"Anthropic-Ratelimit-Requests-Limit": "1", "Anthropic-Ratelimit-Tokens-Remaining": "965", "Retry-After": ""},
			map[string]string{"Retry-After": "60", "X-Ratelimit-Limit-Requests": ""},
			`"type":"rate_limit_error"`,
		},
		{
			OpenRouter,
			map[string]string{"X-Ratelimit-Limit": "", "Retry-After": ""},
			map[string]string{"X-Ratelimit-Limit": "1", "X-Ratelimit-Remaining": "0", "Retry-After": ""},
			`"limit_source":"openrouter_free_tier_per_minute"`,
		},
		{RetryAfter, map[string]string{"X-Ratelimit-Limit-Requests": "", "Retry-After": ""}, map[string]string{"Retry-After": "60"}, "Please try again in "},
		{NoHeaders, map[string]string{"Retry-After": ""}, map[string]string{"Retry-After": "", "X-Ratelimit-Limit-Requests": ""}, "rate_limit_exceeded"},
	} {
		s := New(Config{RPM: 1, TPM: 1000, Window: Sliding, Style: c.style})
		rt := &Transport{Server: s}
		for i, want := range []map[string]string{c.answer, c.refusal} {
			g := post(t, rt, "/v1/chat/completions", chat("a"), "")
			for k, v := range want {
				if got := g.header.Get(k); got != v && !(v == "1m0s" && strings.HasPrefix(got, "59.99")) {
					t.Errorf("%v, call %d: %s: got %q, want %q", c.style, i, k, got, v)
				}
			}
			if i == 1 && (g.status != 429 || !strings.Contains(g.body, c.words)) {
				t.Errorf("%v: got %d %s", c.style, g.status, g.body)
			}
		}
	}
}

func TestParse(t *testing.T) {
	if w, err := ParseWindow("slices"); w != Slices || err != nil || w.String() != "slices" {
		t.Errorf("got %v, %v", w, err)
	}
	if a, err := ParseAccounting("input"); a != In || err != nil || a.String() != "input" {
		t.Errorf("got %v, %v", a, err)
	}
	if s, err := ParseStyle("retry-after"); s != RetryAfter || err != nil || s.String() != "retry-after" {
		t.Errorf("got %v, %v", s, err)
	}
	if _, err := ParseStyle("bedrock"); err == nil || !strings.Contains(err.Error(), "want one of [openai") {
		t.Errorf("got %v", err)
	}
}

func TestLatencyDraws(t *testing.T) {
	s := New(Config{Latency: 3 * time.Second, LatencyJitter: time.Second})
	sum, lowest, highest := time.Duration(0), time.Hour, time.Duration(0)
	for i := range uint64(2000) {
		d := s.latency(&call{bodyID: i, group: s.group("")})
		sum, lowest, highest = sum+d, min(lowest, d), max(highest, d)
	}
	if mean := sum / 2000; lowest < 2*time.Second || highest > 4*time.Second || mean < 2950*time.Millisecond || mean > 3050*time.Millisecond {
		t.Errorf("got %v to %v, mean %v", lowest, highest, sum/2000)
	}
	s = New(Config{Latency: 3 * time.Second, LatencySigma: 0.5})
	below := 0
	for i := range uint64(2000) {
		if s.latency(&call{bodyID: i, group: s.group("")}) < 3*time.Second {
			below++
		}
	}
	if below < 900 || below > 1100 {
		t.Errorf("got %d of 2000 below the median, want half", below)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []Config{
		{RPM: -1},
		{Latency: -time.Second},
		{ErrorRate: 1.5},
		{LostRate: math.NaN()},
		{ErrorStatus: []int{200}},
		{DownStatus: 999},
		{WindowLength: 1},
		{DownFrom: 5, DownUntil: 5},
		{Window: 9},
	} {
		if c.Validate() == nil {
			t.Errorf("%+v: got nil, want an error", c)
		}
	}
	if err := (Config{RPM: 20, Burst: 30, ErrorRate: 1, ErrorStatus: []int{529}, DownFrom: 2, DownUntil: 3}).Validate(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}
