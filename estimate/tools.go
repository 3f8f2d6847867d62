package estimate

// Tool definitions, after the OpenAI cookbook ("How to count tokens with
// tiktoken", section on tool calls), which has no word on nested schemas: their
// properties are counted like those of the first level here.
const (
	perFunctionO200k  = 7
	perFunctionCL100k = 10
	perProperties     = 3
	perProperty       = 3
	perEnum           = -3
	perEnumItem       = 3
	perTools          = 12 // once, after the last
)

// anthropicTools is the system prompt that Anthropic adds where there are tools
// (its pricing page; Claude 4, tool choice "auto").
const anthropicTools = 346

// toolCount says what kinds of tools a request has.
type toolCount struct {
	functions, anthropic bool
}

// close counts what comes once for all tools.
func (c toolCount) close(w *walk) {
	if c.functions {
		w.t.Prompt += perTools
	}
	if c.anthropic {
		w.t.Prompt += anthropicTools
	}
}

// tool counts the definition of a tool: a function of chat completions (its
// fields under "function") or of responses (flat), a tool of Anthropic's
// (input_schema), or anything else by its JSON text.
func (w *walk) tool() {
	w.next()
	start := w.i
	function, flat, anthropic := false, false, false
	w.object(func(key []byte) {
		switch string(key) {
		case "function":
			function = true
		case "parameters":
			flat = true
		case "input_schema":
			anthropic = true
		}
	})
	end := w.i
	w.i = start
	switch {
	case w.fault != nil:
		w.i = end
	case function:
		w.object(func(key []byte) {
			if string(key) == "function" {
				w.function()
			}
		})
	case flat:
		w.function()
	default:
		w.tools.anthropic = w.tools.anthropic || anthropic
		w.json()
	}
}

// function counts the definition of a function.
func (w *walk) function() {
	w.tools.functions = true
	w.t.Prompt += w.perFunction
	var name, description quoted
	w.object(func(key []byte) {
		switch string(key) {
		case "name":
			name = w.string()
		case "description":
			description = w.string()
		case "parameters":
			w.schema()
		}
	})
	w.definition(name, quoted{}, description)
}

// schema counts the properties of a JSON schema, nested ones too.
func (w *walk) schema() { w.object(w.schemaField) }

func (w *walk) schemaField(key []byte) {
	switch string(key) {
	case "properties", "$defs", "definitions":
		first := true
		w.object(func(name []byte) {
			if first {
				w.t.Prompt += perProperties
				first = false
			}
			w.property(name)
		})
	case "items", "additionalProperties":
		w.schema()
	case "anyOf", "oneOf", "allOf", "prefixItems":
		w.array(w.schema)
	}
}

// property counts one property of a schema and what is nested in it.
func (w *walk) property(name []byte) {
	w.t.Prompt += perProperty
	kind, description := quoted{}, quoted{}
	w.object(func(key []byte) {
		switch string(key) {
		case "type":
			if w.next() == '"' {
				kind = w.string()
			}
		case "description":
			description = w.string()
		case "enum":
			w.t.Prompt += perEnum
			w.array(func() {
				w.t.Prompt += perEnumItem
				if w.next() == '"' {
					w.extra()
				} else {
					w.json()
				}
			})
		default:
			w.schemaField(key)
		}
	})
	w.definition(quoted{raw: name}, orAny(kind), description)
}

// orAny keeps the colon of a property whose type is a list or missing.
func orAny(kind quoted) quoted {
	if kind.raw == nil {
		kind.raw = []byte{}
	}
	return kind
}

// definition counts the line "name:type:description", without the full stop at
// its end; a kind that is nil is left out with its colon.
func (w *walk) definition(name, kind, description quoted) {
	w.line = name.append(w.line[:0])
	w.line = append(w.line, ':')
	if kind.raw != nil {
		w.line = kind.append(w.line)
		w.line = append(w.line, ':')
	}
	w.line = description.append(w.line)
	if n := len(w.line); len(description.raw) > 0 && w.line[n-1] == '.' {
		w.line = w.line[:n-1]
	}
	w.t.Prompt += w.enc.count(w.plainText(quoted{raw: w.line}))
}
