package fake

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func chatWith(model, text string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"` + text + `"}]}`
}

// TestModelsApart has one server be two providers: the limits, failures and dialect of one leave the other alone.
func TestModelsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{
			RPM: 100, Window: Sliding,
			PerModel: map[string]Config{
				"a:free": {RPM: 2, Window: Sliding, Style: OpenRouter, Latency: time.Second},
				"b":      {FailFirst: 2, FailStatus: 529},
				"c":      {QuotaAfter: 1},
			},
		})
		rt := &Transport{Server: s}
		var got strings.Builder
		for i, model := range []string{"a:free", "m", "a:free", "b", "a:free", "b", "m", "b", "c", "c", "m"} {
			g := post(t, rt, "/v1/chat/completions", chatWith(model, fmt.Sprint(i)), "")
			fmt.Fprintf(&got, "%s %d ", model, g.status)
			if g.status == 429 && model == "a:free" && g.header.Get("X-Ratelimit-Limit") != "2" {
				t.Errorf("got %+v, want OpenRouter's headers", g)
			}
		}
		const want = "a:free 200 m 200 a:free 200 b 529 a:free 429 b 529 m 200 b 200 c 200 c 429 m 200 "
		if got.String() != want {
			t.Errorf("got  %s\nwant %s", got.String(), want)
		}
		st := s.Stats()
		if a := st.Models["a:free"]; a.Asked != 3 || a.Admitted != 2 || a.Refused != 1 || a.Answered != 2 || a.Billed != 2 || a.Output != 64 {
			t.Errorf("got %+v", a)
		}
		if b := st.Models["b"]; b.Admitted != 3 || b.Answered != 1 || st.Faults["fail_first"] != 2 {
			t.Errorf("got %+v, %v", b, st.Faults)
		}
		if log := s.Log(); len(log) != 11 || log[3].Model != "b" || log[3].Status != 529 || log[0].Output != 32 {
			t.Errorf("got %+v", log)
		}
		sum := int64(0)
		for _, m := range st.Models {
			sum += m.Billed
		}
		if sum != st.Billed || st.InFlight != 0 {
			t.Errorf("got %d billed by model, %+v", sum, st)
		}
	})
}

// TestDownByModel takes one model down by the count of all calls, and another by the clock.
func TestDownByModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{PerModel: map[string]Config{
			"a": {DownFrom: 3, DownUntil: 6, DownStatus: 503},
			"b": {DownAfter: 3 * time.Second, UpAfter: 5 * time.Second, DownStatus: 500, Latency: time.Second},
		}})
		rt := &Transport{Server: s}
		var got []int
		for i := range 8 {
			got = append(got, post(t, rt, "/v1/chat/completions", chatWith("ab"[i%2:i%2+1], fmt.Sprint(i)), "").status)
		}
		// a is asked as call 1, 3, 5 and 7, b after 0, 1, 2 and 3 seconds
		if want := []int{200, 200, 503, 200, 503, 200, 200, 500}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestFailures(t *testing.T) {
	s := New(Config{ErrorRate: 1, ErrorStatus: []int{503}, ErrorMax: 3, FailFirst: 2})
	rt := &Transport{Server: s}
	counts := map[int]int{}
	for i := range 20 {
		counts[post(t, rt, "/v1/chat/completions", chat(fmt.Sprint(i)), "").status]++
	}
	if fmt.Sprint(counts) != "map[200:15 500:2 503:3]" {
		t.Errorf("got %v", counts)
	}
}

// TestKeysByModel: a key answered by one model means nothing to another, but the ledger knows that it was billed twice.
func TestKeysByModel(t *testing.T) {
	s := New(Config{HonourKeys: true})
	rt := &Transport{Server: s}
	for _, model := range []string{"a", "b", "a"} {
		if g := post(t, rt, "/v1/chat/completions", chatWith(model, "x"), "k"); g.status != 200 || !strings.Contains(g.body, `"model":"`+model+`"`) {
			t.Errorf("%s: got %+v", model, g)
		}
	}
	if st := s.Stats(); st.Billed != 2 || st.Duplicates != 1 || st.Twice.Operations != 1 || st.Twice.List[0] != "k" {
		t.Errorf("got %+v", st)
	}
}

func TestParseModel(t *testing.T) {
	base := Config{RPM: 60, Latency: time.Second, Style: Groq, WindowLength: 10 * time.Second, DownFrom: 5, ErrorRate: 0.5}
	for _, c := range []struct {
		text, name, err string
		want            Config
	}{
		{"x/y:free:rpm=20,burst=30", "x/y:free", "", Config{RPM: 20, Burst: 30, Latency: time.Second, Style: Groq, WindowLength: 10 * time.Second}},
		{
			"b:tpm=5,headers=azure,latency=2s,error-rate=0.25,down-after=1s,window=sliding,accounting=max", "b", "",
			Config{TPM: 5, Latency: 2 * time.Second, Style: Azure, WindowLength: 10 * time.Second, ErrorRate: 0.25, DownAfter: time.Second, Window: Sliding, Accounting: Max},
		},
		{"b", "", "want NAME:SETTING=VALUE", Config{}},
		{"b:rps=3", "", `"rps" is none of rpm, tpm,`, Config{}},
		{"b:rpm=many", "", "model b: rpm:", Config{}},
		{"b:headers=soap", "", "want one of", Config{}},
		{"b:rpm=-1", "", "want 0 or more", Config{}},
		{"b:", "", "is none of", Config{}},
	} {
		name, got, err := ParseModel(base, c.text)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %v, want %s", c.text, err, c.err)
			}
		case err != nil || name != c.name || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want):
			t.Errorf("%s: got %s, %v\n%+v, want\n%+v", c.text, name, err, got, c.want)
		}
	}
	if err := (Config{PerModel: map[string]Config{"x": {RPM: -1}}}).Validate(); err == nil || !strings.Contains(err.Error(), "model x") {
		t.Errorf("got %v", err)
	}
}

// TestRateHeaders looks at the headers of the dialects that state limits.
func TestRateHeaders(t *testing.T) {
	for _, c := range []struct {
		style Style
		want  map[string]string
	}{
		{Groq, map[string]string{"X-Ratelimit-Limit-Requests": "500", "X-Ratelimit-Remaining-Requests": "499", "X-Ratelimit-Reset-Requests": "24h0m0s", "X-Ratelimit-Limit-Tokens": "60000", "Retry-After": ""}},
		{Azure, map[string]string{"X-Ratelimit-Limit-Requests": "10", "X-Ratelimit-Reset-Requests": "60", "X-Ratelimit-Remaining-Tokens": "59965"}},
		{Mistral, map[string]string{"X-Ratelimit-Limit-Req-Minute": "10", "X-Ratelimit-Remaining-Req-Minute": "9", "X-Ratelimit-Tokens-Query-Cost": "35"}},
		{Anthropic, map[string]string{"Anthropic-Ratelimit-Tokens-Remaining": "60000", "Anthropic-Ratelimit-Requests-Reset": "2000-01-01T00:01:00Z"}},
		{Gemini, map[string]string{"X-Ratelimit-Limit-Requests": ""}},
		{DeepSeek, map[string]string{"X-Ratelimit-Limit-Requests": ""}},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := post(t, &Transport{Server: New(Config{RPM: 10, TPM: 60_000, RPD: 500, Window: Sliding, Style: c.style})}, "/v1/chat/completions", chat("a"), "")
			for k, want := range c.want {
				if got := g.header.Get(k); got != want {
					t.Errorf("%v: %s: got %q, want %q", c.style, k, got, want)
				}
			}
		})
	}
}
