package runner

import (
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
	default:
		return openai.New(o)
	}
}

// DefaultPolicy is the retry policy for batches.
func DefaultPolicy() retry.Policy { return retry.Policy{}.OrDefaults() }
