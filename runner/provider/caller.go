package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Options set up a client of any wire format.
type Options struct {
	Profile    Profile
	Name       string // in errors and results; empty = the profile's
	BaseURL    string // empty = the profile's
	AllowPlain bool   // http:// to another machine
	Key        Secret
	Headers    http.Header // the user's own; may not replace ours
	Version    string      // {version} of the profile's path; empty = the profile's
	Transport  *Transport  // nil = one with the defaults
}

// Caller is what the clients of all wire formats share: where calls go, how
// they identify themselves, and what must be cut out of text. It is not
// changed after [NewCaller], and safe for concurrent use.
type Caller struct {
	Profile  Profile
	Name     string
	Base     *url.URL // without a slash at its end
	Redactor *Redactor

	header    http.Header
	transport *Transport
}

// own lists the headers that a user cannot set: they are the transport's or
// the run's, and a second value would break promises made about them.
var own = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "Host", "Idempotency-Key", "Accept-Encoding", "Connection", "Transfer-Encoding", "Te", "Trailer",
	"Upgrade", "Expect",
}

// NewCaller makes a Caller. It fails for a base URL that would leak the key,
// for a missing key where the provider needs one, and for a header that is not
// the user's to set.
func NewCaller(o Options) (*Caller, error) {
	c := &Caller{Profile: o.Profile, Name: o.Name, transport: o.Transport, header: http.Header{}}
	if c.Name == "" {
		c.Name = o.Profile.Name
	}
	raw := o.BaseURL
	if raw == "" {
		raw = o.Profile.BaseURL
	}
	if raw == "" {
		return nil, fmt.Errorf("%s: no base URL is known: give one", c.Name)
	}
	var err error
	if c.Base, err = CheckBaseURL(raw, o.AllowPlain); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	if o.Key.IsZero() && !o.Profile.KeyFree && o.Headers.Get(o.Profile.AuthHeader) == "" && o.Headers.Get("Authorization") == "" {
		return nil, fmt.Errorf("%s: no key", c.Name)
	}
	if err := c.setHeaders(o); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	if c.transport == nil {
		c.transport = NewTransport(TransportOptions{})
	}
	return c, nil
}

// setHeaders builds the headers of every request and what must be cut out of
// text: the key, and the values of the user's own headers that look like keys.
func (c *Caller) setHeaders(o Options) error {
	secrets := []string{o.Key.Reveal()}
	for name, v := range o.Profile.Headers {
		c.header.Set(name, v)
	}
	for name, values := range o.Headers {
		if err := checkHeader(name, values); err != nil {
			return err
		}
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
	c.Redactor = NewRedactor(secrets...)
	return nil
}

// checkHeader refuses what HTTP cannot carry, without repeating it: a key may
// stand in the wrong place. The transport would take it for a dead provider.
func checkHeader(name string, values []string) error {
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if name == "" {
		return errors.New("a header has no name")
	}
	for _, r := range name {
		if !strings.ContainsRune(token, r) {
			return fmt.Errorf("a header's name holds %q: want letters, digits and hyphens", r)
		}
	}
	for _, v := range values {
		for i := range len(v) {
			if v[i] < ' ' && v[i] != '\t' || v[i] == 0x7f {
				return fmt.Errorf("the value of header %s holds %q: want one line without control characters", name, rune(v[i]))
			}
		}
	}
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

// Header returns the value of a header of every request.
func (c *Caller) Header(name string) string { return c.header.Get(name) }

// Post sends body and reads the whole answer; with read not nil, a success is
// handed to it as it comes in (see [Transport.Stream]). Its errors are
// complete; with one comes what there was of a success.
func (c *Caller) Post(ctx context.Context, target *url.URL, r Request, body []byte, read func(io.Reader) error) (*Reply, *Error) {
	h := c.header
	if r.Key != "" {
		h = maps.Clone(h) // the values are shared: nobody changes them
		h["Idempotency-Key"] = []string{r.Key}
	}
	x := Exchange{URL: target, Header: h, Body: body, OnSent: r.OnSent}
	id := ""
	if c.Profile.Generations {
		x.OnHead = func(h http.Header) { id = c.generation(h, r) }
	}
	var reply *Reply
	var failed *Error
	if read == nil {
		reply, failed = c.transport.Do(ctx, x)
	} else {
		reply, failed = c.transport.Stream(ctx, x, read)
	}
	if failed != nil {
		failed.AnswerID = id
		return reply, c.sign(failed)
	}
	return reply, nil
}

// generation reads the id under which OpenRouter keeps the figures of a call.
func (c *Caller) generation(h http.Header, r Request) string {
	id := c.Redactor.CleanName(h.Get("X-Generation-Id"))
	if id != "" && r.Stream && r.OnID != nil {
		r.OnID(id)
	}
	return id
}

// Get reads what a URL gives. Its errors are complete.
func (c *Caller) Get(ctx context.Context, target *url.URL) (*Reply, *Error) {
	reply, failed := c.transport.Do(ctx, Exchange{Method: http.MethodGet, URL: target, Header: c.header})
	if failed != nil {
		return nil, c.sign(failed)
	}
	return reply, nil
}

// sign completes an error of the transport.
func (c *Caller) sign(e *Error) *Error {
	e.Provider = c.Name
	e.Message = c.Redactor.Clean(e.Message)
	return e
}

// Refuse is the error of a request that was not sent because it is wrong.
func (c *Caller) Refuse(err error) *Error {
	return &Error{Provider: c.Name, Kind: KindInvalid, Message: c.Redactor.Clean(err.Error()), Rate: NoRate(), Err: err}
}

// Failure begins the Error of an answer that is no success: all but its Kind.
// code and text are the server's own; wait is the hint inside the body,
// negative if there is none.
func (c *Caller) Failure(reply *Reply, code, text string, wait time.Duration) *Error {
	h := reply.Header
	e := &Error{
		Provider: c.Name, Phase: PhaseBody, StatusCode: reply.StatusCode,
		Code: c.Redactor.CleanName(code), Message: c.Redactor.Clean(text), RequestID: c.Redactor.RequestID(h),
		Body: c.Redactor.FaultBody(h, reply.Body),
		Rate: ParseRate(h, c.Profile.Dialect, reply.Done),
		Sent: true, SentAt: reply.SentAt,
	}
	if c.Profile.Generations {
		e.AnswerID = c.Redactor.CleanName(h.Get("X-Generation-Id"))
	}
	e.RetryAfter, e.HasRetryAfter = WaitHint(h, wait, e.Rate, text, reply.Done)
	if reply.StatusCode == http.StatusUnauthorized && c.header.Get(c.Profile.AuthHeader) == "" && c.header.Get("Authorization") == "" {
		e.Message += " (no key was sent: " + c.missingKey() + ")"
	}
	return e
}

// missingKey says where a key would have come from.
func (c *Caller) missingKey() string {
	if len(c.Profile.KeyEnv) == 0 {
		return "no variable is named that holds one"
	}
	return strings.Join(c.Profile.KeyEnv, " or ") + " is not set"
}

// BodyText is what to say of an answer without an error object.
func (c *Caller) BodyText(reply *Reply) string {
	switch {
	case IsHTML(reply.Header, reply.Body):
		return c.Redactor.EdgeMessage(reply.StatusCode, reply.Header)
	case strings.HasPrefix(strings.TrimSpace(string(reply.Body[:min(len(reply.Body), 64)])), "{"):
		return "an answer without a message"
	default:
		return c.Redactor.Clean(string(reply.Body))
	}
}
