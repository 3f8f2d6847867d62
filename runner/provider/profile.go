package provider

import (
	"net/url"
	"slices"
	"strings"
)

// Profile is what is known of a provider ahead of any call: data alone, so a
// new compatible server is one more entry of the table below. Sources are the
// providers' documents and SDKs.
type Profile struct {
	Name    string
	BaseURL string   // empty: must be given
	KeyEnv  []string // variables that may hold the key, the first one set counts
	BaseEnv string   // variable that may hold another base URL
	EnvPath string   // path put after a base URL from BaseEnv that has none
	KeyFree bool     // works without a key

	AuthHeader string            // "Authorization" takes "Bearer KEY", any other the bare key
	Headers    map[string]string // sent with each request

	// Path of a request after the base URL; {api} and {model} are filled in,
	// {version} from VersionEnv. Empty = "{api}".
	Path       string
	VersionEnv string
	Version    string // used when VersionEnv is not set

	Wire            Wire
	Messages        bool     // offers Anthropic's messages beside OpenAI's APIs, below the same base URL
	Aliases         []string // other names by which it is found
	DefaultCap      int64    // output cap sent where a request names none and the API wants one; 0 = none is sent
	Generations     bool     // keeps figures of each call under the id in X-Generation-Id, and no response by its own id
	NoStreamOptions bool     // refuses stream_options; usage comes in the last chunk all the same

	Caps        []CapRule // the first match names the output cap of a chat completion
	Accounting  string    // what the token limit charges: sum, max, input, split, none
	Dialect     Dialect
	Concurrency int // ceiling of open requests found by itself; 0 = the runner's own
}

// Wire is the format that a provider's API speaks.
type Wire uint8

// The formats.
const (
	WireOpenAI    Wire = iota // chat completions, responses, embeddings, and what follows them
	WireAnthropic             // messages
	WireGemini                // generateContent
)

// CapRule names the parameter that caps a chat completion's output for models
// whose name, without "vendor/", starts with Prefix.
type CapRule struct{ Prefix, Param string }

const (
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
	// openAIVersion is the Azure version sent when no variable names one.
	openAIVersion = "2024-10-21"
)

// CapParam names the body field that caps the output of a request to api.
func (p Profile) CapParam(api, model string) string {
	switch api {
	case "/responses":
		return "max_output_tokens"
	case "/completions", "/messages":
		return maxTokens
	}
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	for _, r := range p.Caps {
		if strings.HasPrefix(name, r.Prefix) {
			return r.Param
		}
	}
	return maxTokens
}

// Base returns the base URL in force without a flag: the provider's variable,
// made whole where its convention leaves out scheme, port or path, else the
// profile's own. fromEnv says which.
func (p Profile) Base(getenv func(string) string) (base string, fromEnv bool) {
	v := ""
	if p.BaseEnv != "" {
		v = strings.TrimSpace(getenv(p.BaseEnv))
	}
	if v == "" {
		return p.BaseURL, false
	}
	if p.Name == "ollama" {
		v = ollamaHost(v)
	}
	if u, err := url.Parse(v); err == nil && strings.Trim(u.Path, "/") == "" && p.EnvPath != "" {
		u.Path = p.EnvPath
		v = u.String()
	}
	return v, true
}

// ollamaHost completes OLLAMA_HOST, which may be "host", ":port" or "0.0.0.0".
func ollamaHost(v string) string {
	schemed := strings.Contains(v, "://")
	if !schemed {
		v = "http://" + v
	}
	u, err := url.Parse(v)
	if err != nil {
		return v
	}
	host, port := u.Hostname(), u.Port()
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == "" && !schemed {
		port = "11434"
	}
	if u.Host = host; port != "" {
		u.Host += ":" + port
	}
	return u.String()
}

// TakesMessages says that it takes requests for Anthropic's messages as they stand.
func (p Profile) TakesMessages() bool { return p.Wire == WireAnthropic || p.Messages }

// Lookup finds a profile by its name or alias; "openai-compatible" is one of them.
func Lookup(name string) (Profile, bool) {
	for _, p := range Profiles() {
		if p.Name == name || slices.Contains(p.Aliases, name) {
			return p, true
		}
	}
	return Profile{}, false
}

// Profiles lists the known providers.
func Profiles() []Profile {
	const bearer = "Authorization"
	reasoning := []CapRule{
		{"o1", maxCompletionTokens}, {"o3", maxCompletionTokens}, {"o4", maxCompletionTokens}, {"gpt-5", maxCompletionTokens},
	}
	always := []CapRule{{"", maxCompletionTokens}}
	return []Profile{
		{
			// Charges max(characters, cap) on admission; says so in its guide.
			Name: "openai", BaseURL: "https://api.openai.com/v1", KeyEnv: []string{"OPENAI_API_KEY"}, BaseEnv: "OPENAI_BASE_URL",
			AuthHeader: bearer, Caps: always, Accounting: "max",
		},
		{
			// Counts input (without what the cache served) and output as it comes.
			Name: "anthropic", BaseURL: "https://api.anthropic.com", KeyEnv: []string{"ANTHROPIC_API_KEY"}, BaseEnv: "ANTHROPIC_BASE_URL",
			AuthHeader: "X-Api-Key", Headers: map[string]string{"Anthropic-Version": "2023-06-01"},
			Wire: WireAnthropic, DefaultCap: 4096, Accounting: "split", Dialect: DialectAnthropic,
		},
		{
			// GOOGLE_API_KEY wins in Google's own SDKs too.
			Name: "gemini", Aliases: []string{"google"}, BaseURL: "https://generativelanguage.googleapis.com/v1beta",
			KeyEnv: []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"}, BaseEnv: "GOOGLE_GEMINI_BASE_URL", EnvPath: "/v1beta",
			AuthHeader: "X-Goog-Api-Key", Wire: WireGemini, Accounting: "input",
		},
		{Name: "openai-compatible", KeyFree: true, AuthHeader: bearer, Caps: reasoning, Accounting: "sum"},
		{
			Name: "azure", KeyEnv: []string{"AZURE_OPENAI_API_KEY"}, BaseEnv: "AZURE_OPENAI_ENDPOINT", AuthHeader: "Api-Key",
			Path: "/openai/deployments/{model}{api}?api-version={version}", VersionEnv: "OPENAI_API_VERSION", Version: openAIVersion,
			Caps: reasoning, Accounting: "sum",
		},
		{
			Name: "openrouter", BaseURL: "https://openrouter.ai/api/v1", KeyEnv: []string{"OPENROUTER_API_KEY"}, BaseEnv: "OPENROUTER_BASE_URL",
			AuthHeader: bearer, Caps: always, Accounting: "sum", Generations: true, Messages: true,
		},
		{
			Name: "groq", BaseURL: "https://api.groq.com/openai/v1", KeyEnv: []string{"GROQ_API_KEY"}, BaseEnv: "GROQ_BASE_URL", EnvPath: "/openai/v1",
			AuthHeader: bearer, Caps: always, Accounting: "sum", Dialect: DialectGroq,
		},
		{
			Name: "mistral", BaseURL: "https://api.mistral.ai/v1", KeyEnv: []string{"MISTRAL_API_KEY"},
			AuthHeader: bearer, Accounting: "sum", NoStreamOptions: true,
		},
		{
			Name: "together", BaseURL: "https://api.together.xyz/v1", KeyEnv: []string{"TOGETHER_API_KEY"}, BaseEnv: "TOGETHER_BASE_URL",
			AuthHeader: bearer, Accounting: "sum", Dialect: DialectTogether,
		},
		{
			// Limits open requests, not tokens.
			Name: "deepseek", BaseURL: "https://api.deepseek.com", KeyEnv: []string{"DEEPSEEK_API_KEY"},
			AuthHeader: bearer, Accounting: "none",
		},
		{
			Name: "vllm", BaseURL: "http://localhost:8000/v1", KeyEnv: []string{"VLLM_API_KEY"}, KeyFree: true,
			AuthHeader: bearer, Accounting: "sum",
		},
		{
			Name: "ollama", BaseURL: "http://localhost:11434/v1", BaseEnv: "OLLAMA_HOST", EnvPath: "/v1", KeyFree: true,
			AuthHeader: bearer, Accounting: "sum", Concurrency: 4, Messages: true,
		},
		{
			Name: "llamacpp", BaseURL: "http://127.0.0.1:8080/v1", KeyEnv: []string{"LLAMA_API_KEY"}, KeyFree: true,
			AuthHeader: bearer, Accounting: "sum", Concurrency: 4,
		},
	}
}
