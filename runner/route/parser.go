package route

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/llmbatch/llmbatch/runner/money"
)

const (
	maxBytes    = 4 << 20 // of a file
	maxEntries  = 50_000  // keys and list items, those behind aliases counted each time
	maxProblems = 20      // told at once
)

// Problem is one mistake in a file.
type Problem struct {
	Line int // from 1; 0 = the file as a whole
	Text string
}

// Error lists what is wrong with a file, by line.
type Error struct {
	Name     string
	Problems []Problem // at least one, at most 20
	More     int       // problems beyond them
}

// Error gives a line for each problem: "routes.yaml:7: text".
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Name)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": " + p.Text)
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\n%s: and %d more", e.Name, e.More)
	}
	return b.String()
}

// parser walks the nodes of a file and gathers its problems. Values of unknown
// keys are never repeated in them: one may be a key put in the wrong place.
type parser struct {
	problems []Problem
	entries  int
}

func (p *parser) fault(n *yaml.Node, path, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if path != "" {
		text = path + ": " + text
	}
	p.problems = append(p.problems, Problem{Line: n.Line, Text: text})
}

// err returns the problems in the order of their lines.
func (p *parser) err(name string) error {
	if len(p.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(p.problems, func(a, b Problem) int { return a.Line - b.Line })
	e := &Error{Name: name, Problems: p.problems}
	if over := len(p.problems) - maxProblems; over > 0 {
		e.Problems, e.More = p.problems[:maxProblems], over
	}
	return e
}

// full counts an entry and reports that the file has too many. Aliases of
// aliases can make a small file a huge one.
func (p *parser) full(n *yaml.Node) bool {
	p.entries++
	if p.entries == maxEntries {
		p.fault(n, "", "more than %d entries", maxEntries)
	}
	return p.entries >= maxEntries
}

// join makes a path of names; names that could upset a terminal are quoted.
func join(path, name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		name = strconv.Quote(name)
	}
	if path == "" {
		return name
	}
	return path + ": " + name
}

func deref(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func null(n *yaml.Node) bool {
	return n.Kind == 0 || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// what names a node for messages, without its value.
func what(n *yaml.Node) string {
	switch {
	case null(n):
		return "nothing"
	case n.Kind == yaml.MappingNode:
		return "an object"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}

// each calls fn for the keys of an object; duplicate keys are told. Nothing at
// all is an empty object.
func (p *parser) each(n *yaml.Node, path string, fn func(key, value *yaml.Node)) {
	n = deref(n)
	if null(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		p.fault(n, path, "want an object, got %s", what(n))
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := deref(n.Content[i]), deref(n.Content[i+1])
		if p.full(key) {
			return
		}
		switch first, twice := lines[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			p.fault(key, path, "a key must be a name, got %s", what(key))
		case key.ShortTag() == "!!merge":
			p.fault(key, path, "merge keys (<<) are not supported; write the values out")
		case twice:
			p.fault(key, path, "duplicate key %.80q, first on line %d", key.Value, first)
		default:
			lines[key.Value] = key.Line
			fn(key, value)
		}
	}
}

// object calls the handler of each key and tells unknown keys.
func (p *parser) object(n *yaml.Node, path string, known map[string]func(v *yaml.Node, path string)) {
	p.each(n, path, func(key, value *yaml.Node) {
		if fn, ok := known[key.Value]; ok {
			fn(value, join(path, key.Value))
			return
		}
		names := slices.Sorted(maps.Keys(known))
		p.fault(key, path, "unknown key %.80q%s", key.Value, suggest(key.Value, names))
	})
}

// list calls fn for each item. Nothing at all is an empty list.
func (p *parser) list(n *yaml.Node, path string, fn func(v *yaml.Node, path string)) {
	n = deref(n)
	if null(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		p.fault(n, path, "want a list, got %s", what(n))
		return
	}
	for i, item := range n.Content {
		if p.full(item) {
			return
		}
		fn(deref(item), path+" "+strconv.Itoa(i+1))
	}
}

// text reads a name or other text of one line; numbers are taken as written.
func (p *parser) text(n *yaml.Node, path string) (string, bool) {
	if n.Kind != yaml.ScalarNode || null(n) {
		p.fault(n, path, "want text, got %s", what(n))
		return "", false
	}
	switch {
	case n.Value == "":
		p.fault(n, path, "is empty")
	case n.ShortTag() == "!!binary", strings.ContainsFunc(n.Value, unicode.IsControl), n.Value != strings.TrimSpace(n.Value):
		p.fault(n, path, "want text without control characters or spaces at its ends")
	case len(n.Value) > 512:
		p.fault(n, path, "is longer than 512 bytes")
	default:
		return n.Value, true
	}
	return "", false
}

// texts reads a list of names, or one name.
func (p *parser) texts(n *yaml.Node, path string, fn func(n *yaml.Node, path, s string)) {
	one := func(n *yaml.Node, path string) {
		if s, ok := p.text(n, path); ok {
			fn(n, path, s)
		}
	}
	if n.Kind == yaml.ScalarNode && !null(n) {
		one(n, path)
		return
	}
	p.list(n, path, one)
}

// whole reads a whole number within [low, high].
func (p *parser) whole(n *yaml.Node, path string, low, high int64) (int64, bool) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" {
		// Only plain decimals: 010 and 0x10 mean different things to different readers.
		if v, err := strconv.ParseInt(n.Value, 10, 64); err == nil && v >= low && v <= high && strconv.FormatInt(v, 10) == n.Value {
			return v, true
		}
	}
	p.fault(n, path, "want a whole number from %d to %d, got %s", low, high, shown(n))
	return 0, false
}

// shown repeats a value where a number was wanted.
func shown(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || null(n) {
		return what(n)
	}
	return fmt.Sprintf("%.20q", n.Value)
}

// switched reads true or false.
func (p *parser) switched(n *yaml.Node, path string) bool {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
		return n.Value == "true" || n.Value == "True" || n.Value == "TRUE"
	}
	p.fault(n, path, "want true or false, got %s", shown(n))
	return false
}

// decimal reads a decimal number exactly, in millionths.
func (p *parser) decimal(n *yaml.Node, path string, low, high int64) (int64, bool) {
	if n.Kind == yaml.ScalarNode && !null(n) {
		if v, err := money.Parse(n.Value); err == nil && v%1e6 == 0 && v/1e6 >= money.Amount(low) && v/1e6 <= money.Amount(high) {
			return int64(v / 1e6), true
		}
	}
	p.fault(n, path, "want a number from %s to %s with at most six decimals, got %s", millionths(low), millionths(high), shown(n))
	return 0, false
}

func millionths(n int64) string { return money.Amount(n).PerMillion() }

// longest bounds each time that a file may give.
const longest = 30 * 24 * time.Hour

// seconds reads a time above zero: a number of seconds, or text such as "90s".
func (p *parser) seconds(n *yaml.Node, path string) (time.Duration, bool) {
	if n.Kind == yaml.ScalarNode && !null(n) {
		if d, err := time.ParseDuration(n.Value); err == nil && d >= time.Microsecond && d <= longest {
			return d.Truncate(time.Microsecond), true
		}
		if v, err := money.Parse(n.Value); err == nil && v >= 1e6 && v%1e6 == 0 && v/1e6 <= money.Amount(longest/time.Microsecond) {
			return time.Duration(v/1e6) * time.Microsecond, true
		}
	}
	p.fault(n, path, "want a time above 0 and up to 30 days, in seconds or as 90s, got %s", shown(n))
	return 0, false
}
