// Package gemini speaks Gemini's generateContent and embedContent.
//
// Chat completions and embeddings are translated, and so are their answers. It
// retries nothing.
package gemini

import (
	"context"
	"errors"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/chat"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

const (
	apiChat       = "/chat/completions"
	apiEmbeddings = "/embeddings"
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

// call is a translated request.
type call struct {
	method string
	model  string
	body   []byte
	want   int // answers asked for
}

// Check implements [provider.Checker].
func (c *Client) Check(r provider.Request) error {
	if _, _, err := c.accept(r); err != nil {
		return c.Refuse(err)
	}
	return nil
}

// accept translates a request and says where it goes.
func (c *Client) accept(r provider.Request) (q call, target *url.URL, err error) {
	if q, err = translate(r); err != nil {
		return q, nil, err
	}
	target, err = c.target(q, r.Stream)
	return q, target, err
}

// Do makes one call. Its errors are *provider.Error.
func (c *Client) Do(ctx context.Context, r provider.Request) (*provider.Response, error) {
	q, target, err := c.accept(r)
	if err != nil {
		return nil, c.Refuse(err)
	}
	var whole []byte
	var read func(io.Reader) error
	if r.Stream && r.API == apiChat {
		read = func(in io.Reader) (err error) {
			whole, err = wire.Collect(in, &contentStream{want: q.want})
			return err
		}
	}
	reply, failed := c.Post(ctx, target, r, q.body, read)
	if failed != nil {
		return nil, failed
	}
	if read != nil && reply.StatusCode/100 == 2 {
		reply.Body = whole
	}
	resp, failed := c.read(r.API, q, reply)
	if failed != nil {
		return nil, failed
	}
	return resp, nil
}

func translate(r provider.Request) (q call, err error) {
	if err := wire.RefuseStream(r.Body); err != nil {
		return q, err
	}
	q.model = r.Model
	switch r.API {
	case apiChat:
		asked, err := chat.Decode(r.Body)
		if err != nil {
			return q, err
		}
		if q.model == "" {
			q.model = asked.Model
		}
		q.method, q.want = "generateContent", asked.N
		q.body, err = encode(asked, q.model)
		return q, err
	case apiEmbeddings:
		return encodeEmbeddings(r.Body, q.model)
	default:
		return q, errors.New("this provider has no such API: it takes chat completions and embeddings, by translation")
	}
}

// version is the part of a base URL's path that names the API's version.
var version = regexp.MustCompile(`/v[0-9][a-z0-9]*(/|$)`)

// target is the URL of a model's method below a base URL with or without its
// version.
func (c *Client) target(q call, stream bool) (*url.URL, error) {
	name := strings.TrimPrefix(q.model, "models/")
	if name == "" || strings.Trim(name, ".") == "" {
		return nil, errors.New("model: is missing")
	}
	u := *c.Base
	path, raw := u.Path, u.EscapedPath()
	if !version.MatchString(path) {
		path, raw = path+"/v1beta", raw+"/v1beta"
	}
	method := q.method
	if stream && method == "generateContent" {
		method = "streamGenerateContent"
		u.RawQuery = "alt=sse"
	}
	u.Path = path + "/models/" + name + ":" + method
	u.RawPath = raw + "/models/" + url.PathEscape(name) + ":" + method
	return &u, nil
}
