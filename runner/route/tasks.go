package route

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

func (l *loader) tasks(n *yaml.Node, path string) {
	l.each(n, path, func(key, value *yaml.Node) {
		at := join(path, key.Value)
		if name, ok := l.text(key, at); ok {
			l.c.Tasks[name] = l.task(value, at, nil)
		}
	})
}

// bareTask reads a task that carries its own name.
func (l *loader) bareTask(n *yaml.Node) {
	var name string
	t := l.task(n, "task", &name)
	switch _, twice := l.c.Tasks[name]; {
	case name == "":
	case twice:
		l.fault(n, join("task", name), "is there twice")
	default:
		l.c.Tasks[name] = t
	}
}

// task reads a route; name is where a bare task's own name goes.
func (l *loader) task(n *yaml.Node, path string, name *string) (t Task) {
	before := len(l.problems)
	handlers := fields{
		"primary":   func(n *yaml.Node, path string) { t.Primary = l.target(n, path, nil) },
		"fallbacks": func(n *yaml.Node, path string) { t.Fallbacks = l.fallbacks(n, path) },
		"degrade_to": func(n *yaml.Node, path string) {
			if !null(n) {
				f := l.fallback(n, path, 0)
				t.DegradeTo = &f
			}
		},
		"retry": func(n *yaml.Node, path string) {
			var ok bool
			if t.Retry, ok = l.text(n, path); ok {
				l.names = append(l.names, place{n, path, t.Retry})
			}
		},
		"timeouts": func(n *yaml.Node, path string) { t.Timeouts = l.timeouts(n, path) },
	}
	if name != nil {
		handlers["task"] = func(n *yaml.Node, path string) { *name, _ = l.text(n, path) }
	}
	l.object(n, path, handlers)
	if len(l.problems) > before {
		return t // one mistake, one message
	}
	if name != nil && *name == "" {
		l.fault(n, path, `want "task", the name that lines use`)
	}
	if t.Primary.Provider == "" {
		l.fault(n, path, "want primary: {provider, model}")
		return t
	}
	seen := map[Ref]bool{t.Primary: true}
	for i, f := range t.Fallbacks {
		if seen[f.Ref] {
			l.fault(n, path, "fallback %d, %s, is there already", i+1, f.Ref)
		}
		seen[f.Ref] = true
	}
	return t
}

func (l *loader) fallbacks(n *yaml.Node, path string) (all []Fallback) {
	l.list(n, path, func(n *yaml.Node, path string) {
		all = append(all, l.fallback(n, path, SetOf(PrimaryUnavailable)))
	})
	if len(all) > mostFallbacks {
		l.fault(n, path, "%d are too many; want up to %d", len(all), mostFallbacks)
	}
	return all
}

// fallback reads a target and when it takes over; a fallback that does not say
// when does so if the target before it is unavailable.
func (l *loader) fallback(n *yaml.Node, path string, when Set) Fallback {
	f := Fallback{When: when}
	f.Ref = l.target(n, path, func(n *yaml.Node, path string) { f.When = l.when(n, path) })
	return f
}

func (l *loader) when(n *yaml.Node, path string) (s Set) {
	before := len(l.problems)
	l.texts(n, path, func(n *yaml.Node, path, name string) {
		c, ok := ParseCondition(name)
		if !ok {
			l.fault(n, path, "unknown condition %.80q; want one of %s%s", name, Set(1<<conditions-1), suggest(name, conditionNames[:]))
			return
		}
		s |= SetOf(c)
	})
	if s == 0 && len(l.problems) == before {
		l.fault(n, path, "want at least one of %s", Set(1<<conditions-1))
	}
	return s
}

// target reads {provider, model}, with "when" where it may be.
func (l *loader) target(n *yaml.Node, path string, when func(*yaml.Node, string)) (r Ref) {
	handlers := fields{
		"provider": func(n *yaml.Node, path string) {
			name, ok := l.text(n, path)
			if ok && strings.Contains(name, "/") {
				l.fault(n, path, "a provider's name has no slash")
			} else if ok {
				r.Provider = name
				l.refs = append(l.refs, place{n, path, name})
			}
		},
		"model": func(n *yaml.Node, path string) { r.Model, _ = l.text(n, path) },
	}
	if when != nil {
		handlers["when"] = when
	}
	before := len(l.problems)
	l.object(n, path, handlers)
	if r.Provider == "" && len(l.problems) == before {
		l.fault(n, path, "want a provider")
	}
	return r
}

// check verifies the references. A provider that the file says nothing of and
// no profile knows is no mistake until a line needs it (see Target.Usable),
// unless it looks like a slip beside the providers that the file has.
func (l *loader) check() {
	known := slices.Concat(slices.Sorted(maps.Keys(l.c.Providers)), append(Kinds(), "google"))
	for _, r := range l.refs {
		if slices.Contains(known, r.name) || len(l.c.Providers) == 0 {
			continue
		}
		if near := Nearest(r.name, known); near != "" {
			l.fault(r.node, r.path, "unknown provider %.80q; did you mean %q?", r.name, near)
		}
	}
	for _, r := range l.names {
		if _, ok := l.c.Retry[r.name]; !ok {
			l.fault(r.node, r.path, "no retry policy %.80q is in the file%s", r.name, suggest(r.name, slices.Sorted(maps.Keys(l.c.Retry))))
		}
	}
	for _, r := range l.small {
		switch t, ok := l.c.Tasks[r.name]; {
		case !ok:
			l.fault(r.node, r.path, "no task %.80q is in the file%s", r.name, suggest(r.name, slices.Sorted(maps.Keys(l.c.Tasks))))
		case t.DegradeTo == nil:
			l.fault(r.node, r.path, "task %.80q has no degrade_to", r.name)
		}
	}
}
