package route

import (
	"bytes"
	"encoding/json"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readJSON turns a valid JSON text into the nodes that YAML would give. JSON is
// all but a part of YAML: the library knows neither \/ nor the \ud83d\ude00 that
// other programs write, nor long keys.
func readJSON(data []byte) *yaml.Node {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	r := jsonReader{Decoder: d, data: data, line: 1}
	return r.value()
}

type jsonReader struct {
	*json.Decoder
	data []byte
	at   int // bytes of data whose lines are counted
	line int // of the last token
}

// token gives the next token; data is valid, so there is one.
func (r *jsonReader) token() json.Token {
	t, err := r.Token()
	if err != nil {
		return nil
	}
	end := int(r.InputOffset())
	r.line += bytes.Count(r.data[r.at:end], []byte("\n"))
	r.at = end
	return t
}

func (r *jsonReader) value() *yaml.Node {
	t := r.token()
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Line: r.line}
	switch v := t.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		if v == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		for r.More() { // a key is a value like any other
			n.Content = append(n.Content, r.value())
		}
		r.token()
	case string:
		n.Value = v
	case json.Number:
		n.Value, n.Tag = v.String(), "!!int"
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", "false"
		if v {
			n.Value = "true"
		}
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n
}
