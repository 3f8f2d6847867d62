package route

import (
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// DefaultTask is the task that serves lines without one.
const DefaultTask = "default"

// Config is a config file. The zero value is an empty one. It is not changed
// after [Load], so it is safe for concurrent use.
type Config struct {
	Providers   map[string]Provider
	Models      map[string]Model // by "provider/model"
	Retry       map[string]retry.Policy
	Tasks       map[string]Task
	Degradation Degradation
}

// Provider is one account of one API.
type Provider struct {
	Kind       string // one of Kinds; never empty
	BaseURL    string // empty = what the kind's profile knows
	KeyEnv     string // the variable that holds the key; empty = those of the profile
	LimitGroup string // all models of all providers with this name share their limits; empty = none
	Headers    map[string]string
}

// Model is what the file says of a model at a provider. The zero value says
// nothing.
type Model struct {
	Limits        limit.Limits
	Accounting    limit.Accounting
	AccountingSet bool // false: the profile's, corrected by what the server shows
	Price         money.Price
	Context       int64 // tokens that prompt and output may have together; 0 = not known
	Factor        Factor
	Timeouts      provider.Timeouts // zero fields: the defaults
	LimitGroup    string            // like that of Provider, and ahead of it
}

// Factor is by how much a model's tokens outnumber those reckoned for it. The
// zero value leaves that to the estimate.
type Factor struct{ Num, Den int64 }

// Ref names a model at a provider. Without Model each line keeps its own.
type Ref struct{ Provider, Model string }

// String gives "provider/model", or the provider alone.
func (r Ref) String() string {
	if r.Model == "" {
		return r.Provider
	}
	return r.Provider + "/" + r.Model
}

// Fallback is a target that takes over under one of the conditions When. A
// DegradeTo without any does so whenever there is pressure.
type Fallback struct {
	Ref
	When Set
}

// Task is the route of the lines that name it.
type Task struct {
	Primary   Ref
	Fallbacks []Fallback
	DegradeTo *Fallback         // the smaller model; nil = none
	Retry     string            // a policy of the file; empty = see Config.Policy
	Timeouts  provider.Timeouts // zero fields: the model's
}

// Policy is the retry policy of a line's task: the one that the task names,
// else the one that bears its name, else "default", else the zero policy, which
// takes the batch defaults.
func (c *Config) Policy(task string) retry.Policy {
	if task == "" {
		task = DefaultTask
	}
	entry, known := c.Tasks[task]
	if !known {
		entry = c.Tasks[DefaultTask]
	}
	for _, name := range []string{entry.Retry, task, DefaultTask} {
		if p, ok := c.Retry[name]; ok && name != "" {
			return p
		}
	}
	return retry.Policy{}
}

// compatible is the kind of a provider that names none and is no profile.
const compatible = "openai-compatible"

// mock is the provider inside this process.
const mock = "mock"

// Kinds lists the kinds of provider that a file may name, "google" beside them
// as another name of gemini.
func Kinds() []string {
	return []string{
		compatible, "openai", "anthropic", "gemini", "azure", "openrouter", "groq", "mistral", "together",
		"deepseek", "vllm", "ollama", "llamacpp", mock,
	}
}

// kindOf is the kind that a name stands for, "" if for none.
func kindOf(name string) string {
	if name == "google" {
		return "gemini"
	}
	for _, k := range Kinds() {
		if k == name {
			return k
		}
	}
	return ""
}
