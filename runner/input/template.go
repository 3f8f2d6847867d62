package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"text/template"
	"unicode/utf8"
)

// prepare checks the settings and compiles the template.
func (s *Settings) prepare() (*prepared, error) {
	var ready prepared
	if s.Template != "" && s.PromptField != "" {
		return nil, errors.New("--template and --prompt-field exclude each other")
	}
	if s.Template != "" {
		t, err := template.New("template").Option("missingkey=error").Parse(s.Template)
		if err != nil {
			return nil, err
		}
		ready.template = t
	}
	if s.Temperature != "" && (!json.Valid([]byte(s.Temperature)) || !between(s.Temperature, 0, 2)) {
		return nil, fmt.Errorf("temperature %s is not between 0 and 2", clip(s.Temperature))
	}
	if s.MaxTokens < 0 {
		return nil, fmt.Errorf("max-tokens %d is negative", s.MaxTokens)
	}
	if len(s.ExtraBody) > 0 {
		sc := scanner{b: s.ExtraBody}
		i := sc.space(0)
		if i >= len(sc.b) || sc.b[i] != '{' {
			return nil, errors.New("extra-body must be a JSON object")
		}
		end := sc.object(i, 1, &ready.extra)
		if end < 0 {
			return nil, fmt.Errorf("extra-body: column %d: %w", column(sc.b, sc.fault.pos), sc.fault)
		}
		if sc.space(end) < len(sc.b) {
			return nil, errors.New("extra-body must be one JSON object")
		}
		ready.hosted = sc.hosted(ready.extra)
		if again, _, found := repeated(sc.b, ready.extra); found {
			return nil, fmt.Errorf("extra-body: key %q is there twice", again.name(sc.b))
		}
	}
	return &ready, nil
}

// What a template sees of a line: objects, arrays, strings (json.Number for numbers, as written), bools. Printed whole, an object or an
// array is JSON and null is nothing.
type (
	object map[string]any
	array  []any
	null   string
)

// String is the object as JSON, keys sorted.
func (o object) String() string { return string(appendJSON(nil, o)) }

// String is the array as JSON.
func (a array) String() string { return string(appendJSON(nil, a)) }

func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case object:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		dst = append(dst, '{')
		for i, k := range keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendQuoted(dst, k), ':')
			dst = appendJSON(dst, v[k])
		}
		return append(dst, '}')
	case array:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, e)
		}
		return append(dst, ']')
	case string:
		return appendQuoted(dst, v)
	case json.Number:
		return append(dst, v...)
	case bool:
		return fmt.Append(dst, v)
	}
	return append(dst, "null"...)
}

// decode turns the valid JSON value at i into what a template sees.
func (s *scanner) decode(i int) (any, int) {
	switch s.b[i] {
	case '{':
		o := object{}
		for i = s.space(i + 1); s.b[i] != '}'; {
			end := s.str(i + 1)
			key := string(appendUnquoted(nil, s.b[i+1:end-1]))
			o[key], i = s.decode(s.space(s.space(end) + 1))
			if i = s.space(i); s.b[i] == ',' {
				i = s.space(i + 1)
			}
		}
		return o, i + 1
	case '[':
		a := array{}
		for i = s.space(i + 1); s.b[i] != ']'; {
			var e any
			e, i = s.decode(i)
			a = append(a, e)
			if i = s.space(i); s.b[i] == ',' {
				i = s.space(i + 1)
			}
		}
		return a, i + 1
	case '"':
		end := s.str(i + 1)
		return string(appendUnquoted(nil, s.b[i+1:end-1])), end
	}
	end := s.value(i, 0)
	switch v := string(s.b[i:end]); v {
	case "true", "false":
		return v == "true", end
	case "null":
		return null(""), end
	default:
		return json.Number(v), end
	}
}

// render makes the prompt by the template. What the template produces must be text.
func (p *parser) render() *fault {
	v, _ := p.decode(0)
	fields := map[string]any(v.(object))
	p.out.Reset()
	if err := p.set.ready.template.Execute(&p.out, fields); err != nil {
		msg := err.Error()
		if _, key, ok := strings.Cut(msg, "map has no entry for key "); ok {
			return bad(0, "the template needs a field %s, which the line does not have", key)
		}
		return bad(0, "%s", msg)
	}
	out := p.out.Bytes()
	p.empty = len(out) == 0
	p.prompt = appendQuoted(nil, toText(out))
	return nil
}

// toText replaces bytes that are neither UTF-8 nor a lone surrogate of the line, as a template that cuts a string may leave.
func toText(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r != utf8.RuneError || size > 1:
			out = append(out, b[:size]...)
		case len(b) >= 3 && b[0] == 0xED && b[1]&0xE0 == 0xA0 && b[2]&0xC0 == 0x80:
			size = 3
			out = append(out, b[:size]...)
		default:
			out = utf8.AppendRune(out, utf8.RuneError)
		}
		b = b[size:]
	}
	return out
}
