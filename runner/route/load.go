package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/llmbatch/llmbatch/runner/retry"
)

var (
	sections   = []string{"providers", "models", "retry", "tasks", "degradation"}
	taskFields = []string{"task", "primary", "fallbacks", "degrade_to"}
)

// Load reads a config file; name is the file's, for messages. YAML and JSON are
// taken alike. A bare task (an object with "task" and "primary"), a list of
// them, and a bare object of retry policies load too. Each mistake is told with
// its line in an [*Error].
func Load(data []byte, name string) (*Config, error) {
	root, err := parse(data, name)
	if err != nil {
		return nil, err
	}
	p := &parser{}
	c := &Config{Providers: map[string]Provider{}, Models: map[string]Model{}, Retry: map[string]retry.Policy{}, Tasks: map[string]Task{}}
	l := &loader{parser: p, c: c}
	switch {
	case root.Kind == yaml.SequenceNode:
		l.list(root, "", func(n *yaml.Node, _ string) { l.bareTask(n) })
	case has(root, sections...):
		l.file(root)
	case has(root, taskFields...):
		l.bareTask(root)
	case bareRetry(root):
		l.retry(root, "")
	default:
		l.file(root)
	}
	l.check()
	if err := p.err(name); err != nil {
		return nil, err
	}
	return c, nil
}

// parse reads the one document of a file. An empty file is an empty object.
func parse(data []byte, name string) (*yaml.Node, error) {
	fail := func(line int, text string) (*yaml.Node, error) {
		return nil, &Error{Name: name, Problems: []Problem{{line, text}}}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch {
	case len(data) > maxBytes:
		return fail(0, "is larger than "+strconv.Itoa(maxBytes>>20)+" MiB")
	case !utf8.Valid(data):
		return fail(0, "is not UTF-8")
	case json.Valid(data):
		return readJSON(data), nil
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return &yaml.Node{}, nil
	case err != nil:
		return fail(syntax(err, data))
	}
	switch err := d.Decode(&second); {
	case err == nil:
		return fail(second.Line, "a second document; want one")
	case !errors.Is(err, io.EOF):
		return fail(syntax(err, data))
	}
	return deref(doc.Content[0]), nil
}

var (
	yamlError = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)
	// offByOne are the messages whose lines the library counts from 0; those of
	// its scanner count from 1.
	offByOne = regexp.MustCompile(`^did not find expected (?:<|node content|'-' |key|',' )|^found (?:duplicate %|incompatible|undefined tag)`)
	anchor   = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
	// placeless are the messages of its reader, which knows no lines.
	placeless = regexp.MustCompile(`^control characters|UTF-|^input error`)
)

// syntax splits the line off an error of the YAML library, which leaves it out
// for the first line.
func syntax(err error, data []byte) (line int, text string) {
	m := yamlError.FindStringSubmatch(err.Error())
	text = err.Error()[len(m[0]):]
	line, _ = strconv.Atoi(m[1]) // 0 if there is none
	if a := anchor.FindStringSubmatch(text); a != nil {
		before, _, _ := bytes.Cut(data, []byte("*"+a[1]))
		return 1 + bytes.Count(before, []byte("\n")), text
	}
	switch {
	case placeless.MatchString(text):
	case offByOne.MatchString(text), line == 0:
		line++
	}
	return line, text
}

// has reports that an object has one of the keys.
func has(n *yaml.Node, keys ...string) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i < len(n.Content); i += 2 {
		if slices.Contains(keys, n.Content[i].Value) {
			return true
		}
	}
	return false
}

// bareRetry reports an object of nothing but retry policies.
func bareRetry(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return false
	}
	for i := 1; i < len(n.Content); i += 2 {
		if !has(deref(n.Content[i]), retryFields...) {
			return false
		}
	}
	return true
}
