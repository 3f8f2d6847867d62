package input

import (
	"fmt"
	"slices"
	"strings"
)

// tally counts what notices tell.
type tally struct {
	operations, empty int
	shapes            [4]int // operations by shape
	named             int    // operations that are not plain and name their model
	unmade            int    // operations that --template or --prompt-field leaves alone
	noIDField         int    // operations without the member that --id-field names
	embeddings        int    // plain lines for embeddings
	unread            int    // plain lines with parameters that are not sent
	unreadNames       uint64
	models            []string // that operations ask for, the first MaxModels
}

// MaxModels is how many of an input's models a report lists.
const MaxModels = 64

// model adds one to the list.
func (t *tally) model(name string) {
	if len(t.models) < MaxModels && !slices.Contains(t.models, name) {
		t.models = append(t.models, name)
	}
}

func (t *tally) add(o *tally) {
	t.operations += o.operations
	t.empty += o.empty
	for i, n := range o.shapes {
		t.shapes[i] += n
	}
	t.named += o.named
	t.unmade += o.unmade
	t.noIDField += o.noIDField
	t.embeddings += o.embeddings
	t.unread += o.unread
	t.unreadNames |= o.unreadNames
	for _, name := range o.models {
		t.model(name)
	}
}

// count keeps the figures of the operation just parsed.
func (x *examiner) count() {
	p, t := &x.p, &x.out.tally
	t.operations++
	t.shapes[p.shape]++
	t.model(p.model)
	t.empty += btoi(p.empty)
	t.named += btoi(p.shape != Plain && p.hasModel)
	t.unmade += btoi(!p.made)
	t.noIDField += btoi(p.idNew)
	t.embeddings += btoi(p.shape == Plain && p.api == "/embeddings")
	if p.unread != 0 && p.shape == Plain {
		t.unread++
		t.unreadNames |= p.unread
	}
}

// notices tells which flags do not reach which lines, and what else the user should know before the first call.
func (t *tally) notices(s *Settings) []string {
	var list []string
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	others := t.operations - t.shapes[Plain]
	kinds := t.kinds()
	for _, flag := range []struct {
		name  string
		given bool
		chat  bool // it is no setting of embeddings
	}{
		{"--system", s.System != "", true},
		{"--max-tokens", s.MaxTokens > 0, true},
		{"--temperature", s.Temperature != "", true},
		{"--extra-body", len(s.ready.extra) > 0, false},
	} {
		n, what := others, kinds
		if flag.chat && t.embeddings > 0 {
			n, what = n+t.embeddings, append(slices.Clone(kinds), "embeddings")
		}
		if flag.given && n > 0 {
			say("%s does not apply to %s (%s)", flag.name, lines(n), strings.Join(what, ", "))
		}
	}
	if s.Model != "" && s.OverrideModel == "" && t.named > 0 {
		say("--model does not apply to %s (%s) with a model of their own: --override-model replaces it", lines(t.named), strings.Join(kinds, ", "))
	}
	if s.Template != "" && t.unmade > 0 {
		say("--template does not apply to %s (%s)", lines(t.unmade), strings.Join(kinds, ", "))
	}
	if s.PromptField != "" && t.unmade > 0 {
		say("--prompt-field does not apply to %s without the field %q", lines(t.unmade), s.PromptField)
	}
	if t.noIDField > 0 {
		say("%s without the field %q of --id-field", lines(t.noIDField), s.IDField)
	}
	if t.unread > 0 {
		say("%s (plain) with fields that plain lines do not send: %s; a batch line sends its body as it stands", lines(t.unread), parameterNames(t.unreadNames))
	}
	if t.empty > 0 {
		say("%s with an empty prompt", lines(t.empty))
	}
	return list
}

func lines(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

// kinds names the shapes but Plain that the file has.
func (t *tally) kinds() []string {
	var kinds []string
	for _, shape := range []Shape{Batch, AnthropicBatch, Raw} {
		if t.shapes[shape] > 0 {
			kinds = append(kinds, shape.String())
		}
	}
	return kinds
}
