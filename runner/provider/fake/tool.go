package fake

import (
	"encoding/json"
	"slices"
)

// What [[fault:tool]] has the model call a tool with: the arguments, as an object, as a string and in two pieces.
const toolArguments = `{"id":7}`

var toolPieces = [...]string{`{"id"`, `:7}`}

// readTool finds the name of the first tool that the call offers, in any API's shape.
func (c *call) readTool(v []byte) {
	array(v, c.readTool)
	object(v, func(key, v []byte) {
		switch string(key) {
		case "function", "functionDeclarations", "function_declarations":
			c.readTool(v)
		case "name":
			if c.tool == "" {
				c.tool = string(unquote(v))
			}
		}
	})
}

// toolName is the tool that is called: the first, or "lookup" where none was offered.
func (c *call) toolName() json.RawMessage {
	name := c.tool
	if name == "" {
		name = "lookup"
	}
	return json.RawMessage(`"` + name + `"`)
}

// chatTool is the entry of tool_calls in a chat answer.
func (c *call) chatTool() map[string]any {
	return map[string]any{"id": "call_mock", "type": "function", "function": map[string]any{"name": c.toolName(), "arguments": toolArguments}}
}

// chatToolDeltas are the deltas of a chat stream that calls a tool: its name, then the arguments in pieces.
func (c *call) chatToolDeltas() []any {
	deltas := []any{map[string]any{"tool_calls": []any{map[string]any{
		"index": 0, "id": "call_mock", "type": "function", "function": map[string]any{"name": c.toolName(), "arguments": ""},
	}}}}
	for _, p := range toolPieces {
		deltas = append(deltas, map[string]any{"tool_calls": []any{map[string]any{"index": 0, "function": map[string]any{"arguments": p}}}})
	}
	return deltas
}

// responseTool is the output item of a response that calls a tool.
func (c *call) responseTool(h uint64, arguments string) map[string]any {
	status := "in_progress"
	if arguments != "" {
		status = "completed"
	}
	return map[string]any{
		"type": "function_call", "id": "fc_" + hexID(h), "call_id": "call_mock", "name": c.toolName(), "arguments": arguments, "status": status,
	}
}

// responseToolEvents are the events between a response's beginning and its end, when it calls a tool.
func (c *call) responseToolEvents(h uint64, event func(string, map[string]any) []byte) (ev events) {
	item := "fc_" + hexID(h)
	ev.open = event("response.output_item.added", map[string]any{"output_index": 0, "item": c.responseTool(h, "")})
	for _, p := range toolPieces {
		ev.deltas = append(ev.deltas, event("response.function_call_arguments.delta", map[string]any{"item_id": item, "output_index": 0, "delta": p}))
	}
	ev.finish = slices.Concat(
		event("response.function_call_arguments.done", map[string]any{"item_id": item, "output_index": 0, "arguments": toolArguments}),
		event("response.output_item.done", map[string]any{"output_index": 0, "item": c.responseTool(h, toolArguments)}),
	)
	return ev
}

// toolUse is the content block of a message that calls a tool, with its input or, in streams, still without.
func (c *call) toolUse(input string) map[string]any {
	return map[string]any{"type": "tool_use", "id": "toolu_mock", "name": c.toolName(), "input": json.RawMessage(input)}
}

// functionCall is Gemini's part that calls a tool; it comes whole in streams too.
func (c *call) functionCall() map[string]any {
	return map[string]any{"functionCall": map[string]any{"name": c.toolName(), "args": json.RawMessage(toolArguments)}}
}
