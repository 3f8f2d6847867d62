package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider/chat"
)

// request is a body of the messages API, with the fields that a chat
// completion can ask for.
type request struct {
	Model       string          `json:"model"`
	MaxTokens   json.RawMessage `json:"max_tokens"`
	System      string          `json:"system,omitempty"`
	Messages    []message       `json:"messages"`
	Temperature json.RawMessage `json:"temperature,omitempty"`
	TopP        json.RawMessage `json:"top_p,omitempty"`
	TopK        json.RawMessage `json:"top_k,omitempty"`
	Stop        []string        `json:"stop_sequences,omitempty"`
	Tools       []tool          `json:"tools,omitempty"`
	ToolChoice  *toolChoice     `json:"tool_choice,omitempty"`
	Thinking    json.RawMessage `json:"thinking,omitempty"`
	Output      *outputConfig   `json:"output_config,omitempty"`
	Metadata    *metadata       `json:"metadata,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"` // a text, or blocks
}

type block struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Source    *source         `json:"source,omitempty"`
	Title     string          `json:"title,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   any             `json:"content,omitempty"`
}

type source struct {
	Type      string `json:"type"` // base64 or url
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      bool            `json:"strict,omitempty"`
}

type toolChoice struct {
	Type    string `json:"type"`
	Name    string `json:"name,omitempty"`
	OneTool bool   `json:"disable_parallel_tool_use,omitempty"`
}

type outputConfig struct {
	Effort string        `json:"effort,omitempty"`
	Format *outputFormat `json:"format,omitempty"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type metadata struct {
	UserID string `json:"user_id"`
}

// efforts are the levels of output_config.effort; a model that does not take
// one says so itself.
var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// encode translates a chat completion. top_k and thinking, which OpenAI's API
// does not have, pass as they are.
func encode(r *chat.Request, defaultCap int64) ([]byte, error) {
	out := request{
		Model: r.Model, MaxTokens: r.MaxTokens, System: strings.Join(r.System, "\n\n"),
		Temperature: r.Temperature, TopP: r.TopP, TopK: r.Take("top_k"), Stop: r.Stop, Thinking: r.Take("thinking"),
	}
	if out.MaxTokens == nil {
		out.MaxTokens = strconv.AppendInt(nil, defaultCap, 10)
	}
	switch {
	case r.Seed != nil:
		return nil, chat.Cannot("seed")
	case r.N != 1:
		return nil, chat.Cannot("n")
	}
	if user := r.Take("user"); user != nil {
		out.Metadata = &metadata{}
		if json.Unmarshal(user, &out.Metadata.UserID) != nil {
			return nil, fmt.Errorf("user: want a text")
		}
	}
	if err := out.output(r); err != nil {
		return nil, err
	}
	if err := out.toolbox(r); err != nil {
		return nil, err
	}
	for _, m := range r.Messages {
		if err := out.turn(m); err != nil {
			return nil, err
		}
	}
	if err := r.Left(); err != nil {
		return nil, err
	}
	return chat.Marshal(out)
}

// output says what the answer must look like, and how hard to think.
func (out *request) output(r *chat.Request) error {
	var o outputConfig
	switch {
	case r.Effort != "" && !slices.Contains(efforts, r.Effort):
		return chat.Cannot(fmt.Sprintf("reasoning_effort %q", r.Effort))
	case r.Format != nil && r.Format.Schema == nil:
		return chat.Cannot(`response_format.type "json_object"`) // there is no such mode; a schema is taken
	case r.Format != nil:
		o.Format = &outputFormat{Type: "json_schema", Schema: r.Format.Schema}
	}
	if o.Effort = r.Effort; o.Effort != "" || o.Format != nil {
		out.Output = &o
	}
	return nil
}

func (out *request) toolbox(r *chat.Request) error {
	for _, t := range r.Tools {
		schema := t.Parameters
		if schema == nil {
			schema = json.RawMessage(`{"type":"object","properties":{}}`) // a function without parameters
		}
		out.Tools = append(out.Tools, tool{Name: t.Name, Description: t.Description, InputSchema: schema, Strict: t.Strict})
	}
	c := toolChoice{OneTool: r.OneTool}
	switch r.ToolChoice {
	case "":
		if !r.OneTool || len(r.Tools) == 0 {
			return nil
		}
		c.Type = "auto"
	case "required":
		c.Type = "any"
	case "function":
		c.Type, c.Name = "tool", r.ToolName
	case "none":
		c.Type, c.OneTool = "none", false
	default:
		c.Type = r.ToolChoice
	}
	out.ToolChoice = &c
	return nil
}

// turn adds a message. Results of tools are blocks of the user's turn, those
// of one turn in one message.
func (out *request) turn(m chat.Message) error {
	if m.Role == "tool" {
		content, err := contentOf(m.Parts)
		if err != nil {
			return err
		}
		result := block{Type: "tool_result", ToolUseID: m.CallID, Content: content}
		if n := len(out.Messages); n > 0 && out.Messages[n-1].Role == "user" {
			if blocks, ok := out.Messages[n-1].Content.([]block); ok && blocks[0].Type == "tool_result" {
				out.Messages[n-1].Content = append(blocks, result)
				return nil
			}
		}
		out.Messages = append(out.Messages, message{"user", []block{result}})
		return nil
	}
	if len(m.Calls) == 0 {
		content, err := contentOf(m.Parts)
		if err == nil {
			out.Messages = append(out.Messages, message{m.Role, content})
		}
		return err
	}
	blocks, err := blocksOf(m.Parts)
	if err != nil {
		return err
	}
	for _, call := range m.Calls {
		blocks = append(blocks, block{Type: "tool_use", ID: call.ID, Name: call.Name, Input: call.Arguments})
	}
	out.Messages = append(out.Messages, message{m.Role, blocks})
	return nil
}

// contentOf is a text where the message is one, else blocks.
func contentOf(parts []chat.Part) (any, error) {
	switch {
	case len(parts) == 0:
		return "", nil
	case len(parts) == 1 && parts[0].Media == nil:
		return parts[0].Text, nil
	}
	return blocksOf(parts)
}

// blocksOf leaves out empty texts, which the API refuses and which say nothing.
func blocksOf(parts []chat.Part) ([]block, error) {
	blocks := make([]block, 0, len(parts))
	for _, p := range parts {
		switch {
		case p.Media != nil:
			b, err := mediaBlock(p.Media)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, b)
		case p.Text != "":
			blocks = append(blocks, block{Type: "text", Text: &p.Text})
		}
	}
	return blocks, nil
}

func mediaBlock(m *chat.Media) (block, error) {
	b := block{Type: "image", Source: &source{Type: "url", URL: m.URL}, Title: m.Name}
	if m.URL == "" {
		b.Source = &source{Type: "base64", MediaType: m.Type, Data: m.Data}
	}
	switch {
	case m.Kind == "audio", m.Kind == "file" && m.URL == "" && m.Type != "application/pdf", strings.HasPrefix(m.URL, "gs:"):
		return block{}, chat.Cannot(m.At)
	case m.Kind == "file":
		b.Type = "document"
	}
	return b, nil
}
