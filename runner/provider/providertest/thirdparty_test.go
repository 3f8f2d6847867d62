//go:build thirdparty

package providertest_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// thirdPartyURL names the variable that has the base URL of a server not
// written here, with the fixtures of testdata/thirdparty; make thirdparty
// starts one and sets it.
const thirdPartyURL = "LLMBATCH_THIRDPARTY_URL"

// TestThirdParty asks a server not written here what the mock is asked: what
// both of ours get wrong, it shows.
func TestThirdParty(t *testing.T) {
	base := os.Getenv(thirdPartyURL)
	if base == "" {
		t.Fatalf("%s is not set: make thirdparty starts the server for this", thirdPartyURL)
	}
	const text = "Grüße, <world> & \"you\" 😀"
	for name, c := range clientsAt(t, base, nil) {
		for _, stream := range []bool{false, true} {
			ask := func(words string) (*provider.Response, *provider.Error) {
				body := `{"model":"m","tools":[{"type":"function","function":{"name":"find","parameters":{"type":"object"}}}],"messages":[{"role":"user","content":"` + words + `"}]}`
				resp, err := c.Do(t.Context(), provider.Request{API: "/chat/completions", Model: "m", Body: []byte(body), Stream: stream})
				var e *provider.Error
				if err != nil && !errors.As(err, &e) {
					t.Fatalf("%s: got %v, want a provider error", name, err)
				}
				return resp, e
			}
			var got completion
			resp, e := ask("say text")
			if e != nil || json.Unmarshal(resp.Body, &got) != nil || got.Choices[0].Message.Content != text || resp.Finish != provider.FinishStop {
				t.Errorf("%s, streamed %t: got %+v, %v", name, stream, got, e)
			}
			got = completion{}
			resp, e = ask("say tool")
			if e != nil || json.Unmarshal(resp.Body, &got) != nil || len(got.Choices[0].Message.Calls) != 1 || resp.Finish != provider.FinishToolCalls {
				t.Errorf("%s, streamed %t: got %+v, %v", name, stream, got, e)
			} else if f := got.Choices[0].Message.Calls[0].Function; f.Name != "find" || f.Arguments != `{"id":7,"q":"a \"b\" é"}` {
				t.Errorf("%s, streamed %t: got %+v", name, stream, f)
			}
			if _, e = ask("say busy"); e == nil || e.Kind != provider.KindRateLimited || e.RetryAfter != 3*time.Second {
				t.Errorf("%s, streamed %t: got %+v, want rate_limited and 3 s", name, stream, e)
			}
			if _, e = ask("say broken"); e == nil || e.Kind != provider.KindServer {
				t.Errorf("%s, streamed %t: got %+v, want server", name, stream, e)
			}
			if _, e = ask("say cut"); stream && (e == nil || !e.Unknown()) {
				t.Errorf("%s: a cut stream: got %+v, want an unknown outcome", name, e)
			}
		}
	}
}
