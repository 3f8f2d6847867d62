package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/result"
)

// Bounds of what a page takes from servers and inputs.
const (
	maxExample = 400 // characters of a message
	maxName    = 120 // characters of an ID or a name
	maxClasses = 40
)

// failures are those of an errors file, by class.
type failures map[string]*Failure

func (f failures) add(l *result.Line) {
	class := clean(l.LLM.Class, maxName)
	if class == "" {
		class = clean(l.Error.Code, maxName)
	}
	have := f[class]
	if have == nil {
		if len(f) >= maxClasses {
			class = "other"
		}
		if have = f[class]; have == nil {
			_, advice := runner.Remedy(class)
			have = &Failure{Class: class, Advice: advice}
			f[class] = have
		}
	}
	have.Count++
	if have.Line > 0 && have.Line <= l.LLM.Line {
		return
	}
	have.Line, have.ID, have.Example = l.LLM.Line, clean(l.LLM.Op, maxName), clean(l.Error.Message, maxExample)
	have.Target, have.Status = "", 0
	if l.LLM.Model != "" { // an invalid line was for none
		have.Target = clean(l.LLM.Provider+"/"+l.LLM.Model, maxName)
	}
	if l.Response != nil {
		have.Status = l.Response.StatusCode
	}
}

func (f failures) sorted() []Failure {
	all := []Failure{}
	for _, v := range slices.SortedFunc(maps.Values(f), func(a, b *Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class))
	}) {
		all = append(all, *v)
	}
	return all
}

// clean makes text of others harmless and short: control and direction-changing
// characters are written as escapes, and what is too long is cut.
func clean(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > most {
			b.WriteRune('…')
			break
		}
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(' ')
		case provider.Hidden(r) || r == utf8.RuneError:
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
