// Package openai speaks the API of OpenAI and of the servers that follow it.
//
// It builds one request, decides whether an answer is a success, and gives
// every failure its class. It retries nothing. Where such servers differ, the
// difference is data in [provider.Profile] or a marked line in classify.go.
package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// Options set up a [Client].
type Options struct {
	Profile    provider.Profile
	Name       string // in errors and results; empty = the profile's
	BaseURL    string // empty = the profile's
	AllowPlain bool   // http:// to another machine
	Key        provider.Secret
	Headers    http.Header // the user's own; may not replace ours
	Version    string      // {version} of the profile's path; empty = the profile's
	Transport  *provider.Transport
}

// Client is a [provider.Client] for one base URL and key.
type Client struct {
	profile   provider.Profile
	name      string
	base      *url.URL
	version   string
	header    http.Header
	transport *provider.Transport
	redact    *provider.Redactor
}

var _ provider.Client = (*Client)(nil)

// own lists the headers that a user cannot set: they are the transport's or
// the run's, and a second value would break promises made about them.
var own = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "Host", "Idempotency-Key", "Accept-Encoding", "Connection", "Transfer-Encoding", "Te", "Trailer",
	"Upgrade", "Expect",
}

// New makes a Client. It fails for a base URL that would leak the key, for a
// missing key where the provider needs one, and for a header that is not the
// user's to set. Without a Transport it makes one with the defaults.
func New(o Options) (*Client, error) {
	c := &Client{profile: o.Profile, name: o.Name, version: o.Version, transport: o.Transport, header: http.Header{}}
	if c.name == "" {
		c.name = o.Profile.Name
	}
	if c.version == "" {
		c.version = o.Profile.Version
	}
	raw := o.BaseURL
	if raw == "" {
		raw = o.Profile.BaseURL
	}
	if raw == "" {
		return nil, fmt.Errorf("%s: no base URL is known: give one", c.name)
	}
	var err error
	if c.base, err = provider.CheckBaseURL(raw, o.AllowPlain); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	if o.Key.IsZero() && !o.Profile.KeyFree && o.Headers.Get(o.Profile.AuthHeader) == "" {
		return nil, fmt.Errorf("%s: no key", c.name)
	}
	if err := c.setHeaders(o); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	if c.transport == nil {
		c.transport = provider.NewTransport(provider.TransportOptions{})
	}
	return c, nil
}

// setHeaders builds the headers of every request and what must be cut out of
// text: the key, the values of the user's own headers that look like keys,
// and the base URL's query.
func (c *Client) setHeaders(o Options) error {
	secrets := []string{o.Key.Reveal()}
	for name, v := range o.Profile.Headers {
		c.header.Set(name, v)
	}
	for name, values := range o.Headers {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if slices.Contains(own, canonical) {
			return fmt.Errorf("header %s cannot be set", canonical)
		}
		if canonical == o.Profile.AuthHeader && !o.Key.IsZero() {
			return fmt.Errorf("header %s is made of the key; give one of the two", canonical)
		}
		c.header[canonical] = slices.Clone(values)
		if sensitive(canonical) {
			for _, v := range values {
				secrets = append(secrets, v, strings.TrimPrefix(v, "Bearer "))
			}
		}
	}
	c.header.Set("Content-Type", "application/json")
	if c.header.Get("Accept") == "" {
		c.header.Set("Accept", "application/json")
	}
	switch {
	case o.Key.IsZero():
	case o.Profile.AuthHeader == "Authorization":
		c.header.Set("Authorization", "Bearer "+o.Key.Reveal())
	default:
		c.header.Set(o.Profile.AuthHeader, o.Key.Reveal())
	}
	for _, values := range c.base.Query() {
		secrets = append(secrets, values...)
	}
	c.redact = provider.NewRedactor(secrets...)
	return nil
}

func sensitive(header string) bool {
	h := strings.ToLower(header)
	for _, word := range []string{"auth", "key", "token", "secret", "cookie", "password"} {
		if strings.Contains(h, word) {
			return true
		}
	}
	return false
}

// Host returns the host that is called, for messages.
func (c *Client) Host() string { return c.base.Host }

// Do makes one call. Its errors are *provider.Error.
func (c *Client) Do(ctx context.Context, r provider.Request) (*provider.Response, error) {
	target, err := c.target(r.API, r.Model)
	if err == nil {
		err = refuse(r.Body)
	}
	if err != nil {
		return nil, &provider.Error{Provider: c.name, Kind: provider.KindInvalid, Message: c.redact.Clean(err.Error()), Rate: provider.NoRate(), Err: err}
	}
	h := c.header
	if r.Key != "" {
		h = h.Clone()
		h.Set("Idempotency-Key", r.Key)
	}
	reply, failed := c.transport.Do(ctx, provider.Exchange{URL: target, Header: h, Body: r.Body, OnSent: r.OnSent})
	if failed != nil {
		failed.Provider = c.name
		failed.Message = c.redact.Clean(failed.Message)
		return nil, failed
	}
	resp, failed := c.read(r.API, reply)
	if failed != nil {
		return nil, failed
	}
	return resp, nil
}

// target builds the URL of a request. Only known paths are built: an input
// line cannot choose where it goes.
func (c *Client) target(api, model string) (*url.URL, error) {
	switch api {
	case "/chat/completions", "/responses", "/embeddings", "/completions", "/moderations":
	default:
		return nil, errors.New("this provider has no such API")
	}
	u := *c.base
	path := c.profile.Path
	if path == "" || strings.HasSuffix(u.Path, "/v1") || strings.Contains(u.Path, "/deployments/") {
		path = "{api}"
		if c.profile.Path != "" && u.RawQuery == "" && strings.Contains(u.Path, "/deployments/") {
			path = "{api}?api-version={version}"
		}
	}
	if api == "/responses" {
		// Azure names the deployment in the body here.
		path = strings.Replace(path, "/deployments/{model}", "", 1)
	}
	path = strings.NewReplacer("{api}", api, "{model}", url.PathEscape(model), "{version}", url.QueryEscape(c.version)).Replace(path)
	path, query, _ := strings.Cut(path, "?")
	rel, err := url.Parse(path)
	if err != nil {
		return nil, errors.New("the model's name cannot stand in a path")
	}
	if u.RawQuery == "" {
		u.RawQuery = query
	}
	raw := u.EscapedPath() + rel.EscapedPath()
	u.Path += rel.Path
	u.RawPath = raw
	return &u, nil
}

// refuse finds what this client could send but not read back: the answer
// would be paid for and lost.
func refuse(body []byte) error {
	if !bytes.Contains(body, []byte(`"stream"`)) && !bytes.Contains(body, []byte(`"background"`)) {
		return nil
	}
	var asked struct{ Stream, Background bool }
	_ = json.Unmarshal(body, &asked) // a body that is no JSON is the server's to refuse
	switch {
	case asked.Stream:
		return errors.New(`the body asks for "stream": true; leave it out, a batch keeps whole answers`)
	case asked.Background:
		return errors.New(`the body asks for "background": true; leave it out, a batch keeps whole answers`)
	}
	return nil
}
