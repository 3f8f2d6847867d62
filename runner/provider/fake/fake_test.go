package fake

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// got is an answer as a client sees it.
type got struct {
	status int
	header http.Header
	body   string
	err    error // of the round trip or of reading the body
}

// send makes one call; key "" sends no Idempotency-Key.
func send(ctx context.Context, rt http.RoundTripper, base, api, body, key string) got {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+api, strings.NewReader(body))
	if err != nil {
		return got{err: err}
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
		req.GetBody = nil
	}
	res, err := rt.RoundTrip(req)
	if err != nil {
		return got{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // a bomb is longer
	return got{res.StatusCode, res.Header, string(b), err}
}

func post(t *testing.T, rt http.RoundTripper, api, body, key string) got {
	t.Helper()
	return send(t.Context(), rt, "http://fake", api, body, key)
}

func chat(text string) string {
	return `{"model":"m","messages":[{"role":"user","content":"` + text + `"}]}`
}
