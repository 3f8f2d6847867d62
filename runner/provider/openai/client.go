// Package openai speaks the API of OpenAI and of the servers that follow it.
//
// It builds one request, decides whether an answer is a success, and gives
// every failure its class. It retries nothing. Where such servers differ, the
// difference is data in [provider.Profile] or a marked line in classify.go.
package openai

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/wire"
)

// Client is a [provider.Client] for one base URL and key.
type Client struct {
	*provider.Caller
	version string
}

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
	version := o.Version
	if version == "" {
		version = o.Profile.Version
	}
	return &Client{Caller: c, version: version}, nil
}

// Check implements [provider.Checker].
func (c *Client) Check(r provider.Request) error {
	if _, err := c.accept(r); err != nil {
		return c.Refuse(err)
	}
	return nil
}

// accept says where a request goes.
func (c *Client) accept(r provider.Request) (*url.URL, error) {
	if err := wire.RefuseStream(r.Body); err != nil {
		return nil, err
	}
	return c.target(r.API, r.Model)
}

// Do makes one call. Its errors are *provider.Error.
func (c *Client) Do(ctx context.Context, r provider.Request) (*provider.Response, error) {
	target, err := c.accept(r)
	if err != nil {
		return nil, c.Refuse(err)
	}
	reply, failed := c.exchange(ctx, target, r)
	if failed != nil {
		return nil, failed
	}
	resp, failed := c.read(r.API, reply)
	if failed != nil {
		if failed.Unknown() && c.keeps(r) {
			failed.AnswerID = c.Redactor.CleanName(leadingID(reply.Body))
		}
		return nil, failed
	}
	return resp, nil
}

// exchange sends the request, streamed if that was asked for and the API can.
func (c *Client) exchange(ctx context.Context, target *url.URL, r provider.Request) (*provider.Reply, *provider.Error) {
	if r.Stream {
		if a := c.assembler(r); a != nil {
			return c.stream(ctx, target, r, a)
		}
	}
	reply, failed := c.Post(ctx, target, r, r.Body, nil)
	if failed != nil && reply != nil && c.keeps(r) {
		failed.AnswerID = c.Redactor.CleanName(leadingID(reply.Body))
	}
	return reply, failed
}

// stream sends the request and puts the answer together as it comes in.
func (c *Client) stream(ctx context.Context, target *url.URL, r provider.Request, a wire.Assembler) (*provider.Reply, *provider.Error) {
	body, err := c.streamed(r)
	if err != nil {
		return nil, c.Refuse(err)
	}
	rs, kept := a.(*responseStream)
	if kept = kept && c.keeps(r); kept && r.OnID != nil {
		rs.onID = func(id string) { r.OnID(c.Redactor.CleanName(id)) }
	}
	var whole []byte
	reply, failed := c.Post(ctx, target, r, body, func(in io.Reader) (err error) {
		whole, err = wire.Collect(in, a)
		return err
	})
	if failed == nil && reply.StatusCode/100 == 2 {
		reply.Body = whole
	}
	if failed != nil && kept {
		failed.AnswerID = c.Redactor.CleanName(rs.id)
	}
	return reply, failed
}

// target builds the URL of a request. Only known paths are built: an input
// line cannot choose where it goes.
func (c *Client) target(api, model string) (*url.URL, error) {
	switch api {
	case "/chat/completions", "/responses", "/embeddings", "/completions", "/moderations":
	default:
		return nil, errors.New("this provider has no such API")
	}
	u := *c.Base
	path := c.Profile.Path
	if path == "" || strings.HasSuffix(u.Path, "/v1") || strings.Contains(u.Path, "/deployments/") {
		path = "{api}"
		if c.Profile.Path != "" && strings.Contains(u.Path, "/deployments/") {
			path = "{api}?api-version={version}"
		} else if u.RawPath == "" {
			u.Path, u.RawQuery = u.Path+api, "" // nothing to fill in, nothing to parse
			return &u, nil
		}
	}
	if api == "/responses" {
		// Azure names the deployment in the body here.
		path = strings.Replace(path, "/deployments/{model}", "", 1)
	}
	path = strings.ReplaceAll(path, "{api}", api)
	path = strings.ReplaceAll(path, "{version}", url.QueryEscape(c.version))
	path = strings.ReplaceAll(path, "{model}", url.PathEscape(model))
	path, query, _ := strings.Cut(path, "?")
	rel, err := url.Parse(path)
	if err != nil {
		return nil, errors.New("the model's name cannot stand in a path")
	}
	u.RawQuery = query
	raw := u.EscapedPath() + rel.EscapedPath()
	u.Path += rel.Path
	u.RawPath = raw
	return &u, nil
}
