package openai

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/providertest"
)

// TestJSONBombs: answers that are cheap to send and dear to decode. Each is
// decided on within seconds; what is valid is kept as it came.
func TestJSONBombs(t *testing.T) {
	with := func(extra string) string { return strings.Replace(success, "{", "{"+extra+",", 1) }
	var keys, events strings.Builder
	keys.WriteString(`"x":{"k":0`)
	for i := range 1_000_000 {
		fmt.Fprintf(&keys, `,"%d":0`, i)
	}
	keys.WriteString("}")
	for range 100_000 {
		events.WriteString("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n")
	}
	deep := func(n int) string { return `"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, tt := range []struct {
		name, body string
		stream     bool
		want       provider.Kind
	}{
		{"a million keys", with(keys.String()), false, provider.KindNone},
		{"a number of 10 MB", with(`"x":1` + strings.Repeat("0", 10_000_000)), false, provider.KindNone},
		{"nested 9,000 deep", with(deep(9_000)), false, provider.KindNone},
		{"nested 10,001 deep", with(deep(10_001)), false, provider.KindBadContentType},
		{"a million choices", `{"choices":[` + strings.Repeat("{},", 1_000_000) + "{}]}", false, provider.KindEmptyAnswer},
		{"a hundred thousand events", events.String() + stream, true, provider.KindNone},
		{"a line of 20 MB", "data: " + strings.Repeat("x", 20<<20), true, provider.KindTruncated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := providertest.Serve(t, func(c net.Conn, _ providertest.Seen) bool {
				providertest.Write(c, "HTTP/1.1 200 OK\nConnection: close\nContent-Length: "+strconv.Itoa(len(tt.body)), tt.body)
				return false
			})
			profile, _ := provider.Lookup("openai")
			key, err := provider.NewSecret("sk-test-0123456789")
			if err != nil {
				t.Fatal(err)
			}
			c, err := New(provider.Options{Profile: profile, BaseURL: s.URL, Key: key})
			if err != nil {
				t.Fatal(err)
			}
			started := time.Now()
			_, err = c.Do(t.Context(), provider.Request{API: "/chat/completions", Model: "m", Body: []byte(`{"model":"m"}`), Stream: tt.stream})
			kind := provider.KindNone
			if e, ok := err.(*provider.Error); ok {
				kind = e.Kind
			}
			if took := time.Since(started); kind != tt.want || took > 20*time.Second {
				t.Errorf("got %v after %v, want %q within seconds", err, took, tt.want)
			}
		})
	}
}
