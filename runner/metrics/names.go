package metrics

import (
	"strings"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/provider"
)

// maxModels bounds the models that have series of their own: an input may name
// as many as it has lines.
const maxModels = 200

// maxName is the longest name, in bytes, that becomes a label.
const maxName = 200

// other is the label of what has no series of its own.
const other = "other"

// names are what labels may be.
type names struct{ providers, tasks, models set }

// set is a bounded set of label values, used by one goroutine.
type set struct {
	known map[string]bool
	room  int    // how many more may join; 0 = the set is fixed
	empty string // what stands for none
}

func newNames(c *runner.Config) names {
	n := names{
		providers: set{known: map[string]bool{}, empty: other},
		tasks:     set{known: map[string]bool{}, empty: "default"},
		models:    set{known: map[string]bool{}, room: maxModels, empty: "any"},
	}
	for _, t := range c.Targets {
		n.providers.known[t.Provider] = true
	}
	if c.Routes != nil {
		for _, task := range c.Routes.Tasks {
			n.tasks.known[task] = true
		}
	}
	return n
}

// of returns the label for a name.
func (s *set) of(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD") // what a label must be
	switch {
	case name == "":
		return s.empty
	case s.known[name]:
		return name
	case s.room > 0 && len(name) <= maxName:
		s.room--
		name = strings.Clone(name) // it may be part of a line that is soon forgotten
		s.known[name] = true
		return name
	default:
		return other
	}
}

// class keeps classes to those that there are: rows of a checkpoint that was
// rebuilt may hold anything.
func class(name string) string {
	if name == "" || name == "unknown" {
		return "unknown"
	}
	if _, known := provider.ParseKind(name); !known && !runner.IsClass(name) {
		return other
	}
	return name
}

// limitTypes are those that provider.Error has names for.
var limitTypes = map[string]bool{
	"requests": true, "tokens": true, "input_tokens": true, "output_tokens": true, "requests_day": true, "tokens_day": true,
}

// limitType keeps what a server says of its limits to the known names.
func limitType(name string) string {
	if _, kind := provider.ParseKind(name); !kind && !limitTypes[name] {
		return other
	}
	return name
}
