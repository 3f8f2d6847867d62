package providertest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// Sane checks what holds of any answer, whatever the bytes: a response or an
// error, a body that is JSON, text that is short and clean and without the
// secret.
func Sane(t *testing.T, body string, resp *provider.Response, e *provider.Error, secret string) {
	t.Helper()
	switch {
	case (resp == nil) == (e == nil):
		t.Fatalf("%q: got %v and %v, want one of them", body, resp, e)
	case resp != nil && !json.Valid(resp.Body):
		t.Errorf("%q: a success whose body is no JSON: %q", body, resp.Body)
	case e != nil && (e.Kind == provider.KindNone || len(e.Message) > 2<<10 || strings.Contains(e.Message+e.Code, secret[:12]) || strings.ContainsAny(e.Message, "\x1b\n\r\u202e")),
		e != nil && e.Body != nil && (!json.Valid(e.Body) || strings.Contains(string(e.Body), secret[:12])):
		t.Errorf("%q: got %+v", body, e)
	}
}
