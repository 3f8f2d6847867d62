package runner

import (
	"context"
	"maps"
	"net/http"

	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/anthropic"
	"github.com/llmbatch/llmbatch/runner/provider/gemini"
	"github.com/llmbatch/llmbatch/runner/provider/openai"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// Endpoint is where calls go and how they identify themselves.
type Endpoint struct {
	Profile    provider.Profile
	Name       string // in errors; "" = the profile's
	BaseURL    string
	AllowPlain bool // http:// to another machine
	Key        provider.Secret
	Header     http.Header // the user's own
	Version    string      // of the API, where its path names one; "" = the profile's
	Transport  provider.TransportOptions
}

// NewClient makes the client that speaks the endpoint's wire format.
func NewClient(e Endpoint) (provider.Client, error) {
	o := provider.Options{
		Profile: e.Profile, Name: e.Name, BaseURL: e.BaseURL, AllowPlain: e.AllowPlain, Key: e.Key, Headers: e.Header, Version: e.Version,
		Transport: provider.NewTransport(e.Transport),
	}
	switch e.Profile.Wire {
	case provider.WireAnthropic:
		return anthropic.New(o)
	case provider.WireGemini:
		return gemini.New(o)
	}
	c, err := openai.New(o)
	if err != nil || !e.Profile.Messages {
		return c, err
	}
	// That format wants a header with its version.
	native, _ := provider.Lookup("anthropic")
	o.Profile.Headers = maps.Clone(native.Headers)
	maps.Copy(o.Profile.Headers, e.Profile.Headers)
	m, err := anthropic.New(o)
	if err != nil {
		return nil, err
	}
	return withMessages{c, m}, nil
}

// withMessages speaks two formats to a provider that offers Anthropic's messages
// beside OpenAI's APIs.
type withMessages struct {
	*openai.Client
	messages *anthropic.Client
}

var (
	_ provider.Looker  = withMessages{}
	_ provider.Checker = withMessages{}
)

func (c withMessages) Check(r provider.Request) error {
	if r.API == "/messages" {
		return c.messages.Check(r)
	}
	return c.Client.Check(r)
}

func (c withMessages) Do(ctx context.Context, r provider.Request) (*provider.Response, error) {
	if r.API == "/messages" {
		return c.messages.Do(ctx, r)
	}
	return c.Client.Do(ctx, r)
}

// DefaultPolicy is the retry policy for batches.
func DefaultPolicy() retry.Policy { return retry.Policy{}.OrDefaults() }
