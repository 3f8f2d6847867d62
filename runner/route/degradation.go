package route

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// mostAnswer bounds the fixed answer, in bytes.
const mostAnswer = 64 << 10

func (l *loader) degradation(n *yaml.Node, path string) {
	steps := fields{}
	for level := Light; level <= Severe; level++ {
		steps[level.String()] = func(n *yaml.Node, path string) { l.step(n, path, &l.c.Degradation[level]) }
	}
	l.object(n, path, steps)
}

func (l *loader) step(n *yaml.Node, path string, s *Step) {
	a := &s.Actions
	l.object(n, path, fields{
		"at":         func(n *yaml.Node, path string) { s.At = l.threshold(n, path) },
		"max_tokens": func(n *yaml.Node, path string) { a.MaxTokens, _ = l.whole(n, path, 1, mostTokens) },
		"trim": func(n *yaml.Node, path string) {
			if n.Kind == yaml.MappingNode {
				a.Trim = append(a.Trim, l.trim(n, path))
				return
			}
			l.list(n, path, func(n *yaml.Node, path string) { a.Trim = append(a.Trim, l.trim(n, path)) })
		},
		"smaller_model": func(n *yaml.Node, path string) {
			l.texts(n, path, func(n *yaml.Node, path, name string) {
				a.SmallerModel = append(a.SmallerModel, name)
				l.small = append(l.small, place{n, path, name})
			})
		},
		"hold": func(n *yaml.Node, path string) { l.hold(n, path, a) },
		"cached_answer": func(n *yaml.Node, path string) {
			a.CachedAnswer = l.switched(n, path)
		},
		"fixed_answer": func(n *yaml.Node, path string) {
			switch {
			case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || strings.TrimSpace(n.Value) == "":
				l.fault(n, path, "want the text of the answer, got %s", what(n))
			case len(n.Value) > mostAnswer:
				l.fault(n, path, "is longer than %d bytes", mostAnswer)
			default:
				a.FixedAnswer = n.Value
			}
		},
	})
}

func (l *loader) threshold(n *yaml.Node, path string) (t Threshold) {
	l.object(n, path, fields{
		"overrun": func(n *yaml.Node, path string) {
			v, _ := l.decimal(n, path, 10_000, 100_000_000)
			t.Overrun = float64(v) / 1e6
		},
		"queue_wait_seconds": l.seconded(&t.QueueWait),
		"saturation": func(n *yaml.Node, path string) {
			v, _ := l.decimal(n, path, 10_000, 1_000_000)
			t.Saturation = float64(v) / 1e6
		},
	})
	return t
}

func (l *loader) trim(n *yaml.Node, path string) (t Trim) {
	before := len(l.problems)
	l.object(n, path, fields{
		"field":     func(n *yaml.Node, path string) { t.Field, _ = l.text(n, path) },
		"max_chars": func(n *yaml.Node, path string) { t.MaxChars, _ = l.whole(n, path, 1, mostTokens) },
	})
	if (t.Field == "" || t.MaxChars == 0) && len(l.problems) == before {
		l.fault(n, path, "want field and max_chars")
	}
	return t
}

func (l *loader) hold(n *yaml.Node, path string, a *Actions) {
	l.object(n, path, fields{
		"priority": func(n *yaml.Node, path string) {
			if name, ok := l.text(n, path); ok && name != "low" {
				l.fault(n, path, "want low, got %.20q", name)
				return
			}
			a.HoldLow = true
		},
		"tenants": func(n *yaml.Node, path string) {
			l.texts(n, path, func(_ *yaml.Node, _, name string) { a.HoldTenants = append(a.HoldTenants, name) })
		},
	})
}
