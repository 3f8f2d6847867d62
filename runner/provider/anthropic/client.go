// Package anthropic speaks Anthropic's messages API.
//
// Requests for /messages pass byte for byte. Chat completions are translated,
// and so are their answers. It retries nothing.
package anthropic

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/chat"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

const (
	apiMessages = "/messages"
	apiChat     = "/chat/completions"
)

// Client is a [provider.Client] for one base URL and key.
type Client struct{ *provider.Caller }

var (
	_ provider.Client  = (*Client)(nil)
	_ provider.Checker = (*Client)(nil)
)

// New makes a Client; see [provider.NewCaller] for what it refuses.
func New(o provider.Options) (*Client, error) {
	c, err := provider.NewCaller(o)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Check implements [provider.Checker].
func (c *Client) Check(r provider.Request) error {
	if _, err := c.body(r); err != nil {
		return c.Refuse(err)
	}
	return nil
}

// Do makes one call. Its errors are *provider.Error.
func (c *Client) Do(ctx context.Context, r provider.Request) (*provider.Response, error) {
	body, err := c.body(r)
	if err != nil {
		return nil, c.Refuse(err)
	}
	var whole []byte
	var read func(io.Reader) error
	if r.Stream {
		read = func(in io.Reader) (err error) {
			whole, err = wire.Collect(in, &messageStream{})
			return err
		}
	}
	reply, failed := c.Post(ctx, c.target(), r, body, read)
	if failed != nil {
		return nil, failed
	}
	if r.Stream && reply.StatusCode/100 == 2 {
		reply.Body = whole
	}
	resp, failed := c.read(r.API, reply)
	if failed != nil {
		return nil, failed
	}
	return resp, nil
}

// body is what is sent.
func (c *Client) body(r provider.Request) ([]byte, error) {
	body := r.Body
	if err := wire.RefuseStream(body); err != nil {
		return nil, err
	}
	switch r.API {
	case apiMessages:
	case apiChat:
		asked, err := chat.Decode(body)
		if err != nil {
			return nil, err
		}
		if body, err = encode(asked, c.Profile.DefaultCap); err != nil {
			return nil, err
		}
	default:
		return nil, errors.New("this provider has no such API: it takes messages, and chat completions by translation")
	}
	if r.Stream {
		return wire.SetMember(body, "stream", "true")
	}
	return body, nil
}

// target is the URL of the messages API below a base URL with or without its
// version.
func (c *Client) target() *url.URL {
	u := *c.Base
	path := "/v1/messages"
	if strings.HasSuffix(u.Path, "/v1") {
		path = "/messages"
	}
	raw := u.EscapedPath() + path
	u.Path += path
	u.RawPath = raw
	return &u
}
