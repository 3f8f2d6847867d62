package gemini

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/llmbatch/llmbatch/runner/provider/chat"
)

// request is a body of generateContent, with the fields that a chat completion
// can ask for.
type request struct {
	System   *content        `json:"systemInstruction,omitempty"`
	Contents []content       `json:"contents"`
	Tools    []tools         `json:"tools,omitempty"`
	ToolConf *toolConfig     `json:"toolConfig,omitempty"`
	Config   generation      `json:"generationConfig"`
	Safety   json.RawMessage `json:"safetySettings,omitempty"`
	Cached   json.RawMessage `json:"cachedContent,omitempty"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

type part struct {
	Text      *string           `json:"text,omitempty"`
	Inline    *blob             `json:"inlineData,omitempty"`
	File      *file             `json:"fileData,omitempty"`
	Call      *functionCall     `json:"functionCall,omitempty"`
	Response  *functionResponse `json:"functionResponse,omitempty"`
	Signature string            `json:"thoughtSignature,omitempty"`
}

type blob struct {
	Type string `json:"mimeType"`
	Data string `json:"data"`
}

type file struct {
	Type string `json:"mimeType,omitempty"`
	URI  string `json:"fileUri"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type functionResponse struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
}

type tools struct {
	Functions []function `json:"functionDeclarations"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type toolConfig struct {
	Calling struct {
		Mode    string   `json:"mode"`
		Allowed []string `json:"allowedFunctionNames,omitempty"`
	} `json:"functionCallingConfig"`
}

type generation struct {
	MaxOutputTokens  json.RawMessage `json:"maxOutputTokens,omitempty"`
	Temperature      json.RawMessage `json:"temperature,omitempty"`
	TopP             json.RawMessage `json:"topP,omitempty"`
	TopK             json.RawMessage `json:"topK,omitempty"`
	Seed             json.RawMessage `json:"seed,omitempty"`
	FrequencyPenalty json.RawMessage `json:"frequencyPenalty,omitempty"`
	PresencePenalty  json.RawMessage `json:"presencePenalty,omitempty"`
	Stop             []string        `json:"stopSequences,omitempty"`
	CandidateCount   int             `json:"candidateCount,omitempty"`
	ResponseMIME     string          `json:"responseMimeType,omitempty"`
	ResponseSchema   json.RawMessage `json:"responseJsonSchema,omitempty"`
	Thinking         *thinking       `json:"thinkingConfig,omitempty"`
}

type thinking struct {
	Level  string `json:"thinkingLevel,omitempty"`
	Budget *int   `json:"thinkingBudget,omitempty"`
}

// encode translates a chat completion for model. top_k, and Gemini's own
// safetySettings and cachedContent, pass as they are.
func encode(r *chat.Request, model string) ([]byte, error) {
	out := request{Safety: r.Take("safetySettings"), Cached: r.Take("cachedContent"), Contents: []content{}}
	out.Config = generation{
		MaxOutputTokens: r.MaxTokens, Temperature: r.Temperature, TopP: r.TopP, TopK: r.Take("top_k"), Seed: r.Seed,
		FrequencyPenalty: r.Take("frequency_penalty"), PresencePenalty: r.Take("presence_penalty"), Stop: r.Stop,
	}
	if r.N > 1 {
		out.Config.CandidateCount = r.N
	}
	if r.Format != nil {
		out.Config.ResponseMIME, out.Config.ResponseSchema = "application/json", r.Format.Schema
	}
	if r.OneTool {
		return nil, chat.Cannot("parallel_tool_calls")
	}
	var err error
	if out.Config.Thinking, err = think(r.Effort, model); err != nil {
		return nil, err
	}
	if len(r.System) > 0 {
		out.System = &content{}
		for i := range r.System {
			out.System.Parts = append(out.System.Parts, part{Text: &r.System[i]})
		}
	}
	out.toolbox(r)
	if out.Contents, err = turns(r.Messages); err != nil {
		return nil, err
	}
	if err := r.Left(); err != nil {
		return nil, err
	}
	return chat.Marshal(out)
}

// think maps reasoning_effort as Google's OpenAI-compatible API documents it:
// a budget of tokens up to Gemini 2.5, levels from Gemini 3 on. What a model
// does not take it refuses itself.
func think(effort, model string) (*thinking, error) {
	if effort == "" {
		return nil, nil
	}
	budget, known := map[string]int{"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}[effort]
	switch {
	case !known:
		return nil, chat.Cannot(fmt.Sprintf("reasoning_effort %q", effort))
	case strings.Contains(model, "gemini-2"):
		return &thinking{Budget: &budget}, nil
	case effort == "none":
		return nil, chat.Cannot(`reasoning_effort "none"`) // levels begin at minimal
	default:
		return &thinking{Level: effort}, nil
	}
}

// toolbox translates tools and the choice among them. A strict function needs
// a mode that holds the model to the schemas; ANY does so anyway.
func (out *request) toolbox(r *chat.Request) {
	strict := false
	var list tools
	for _, t := range r.Tools {
		list.Functions = append(list.Functions, function{t.Name, t.Description, t.Parameters})
		strict = strict || t.Strict
	}
	if list.Functions != nil {
		out.Tools = []tools{list}
	}
	var c toolConfig
	switch {
	case r.ToolChoice == "none":
		c.Calling.Mode = "NONE"
	case r.ToolChoice == "required":
		c.Calling.Mode = "ANY"
	case r.ToolChoice == "function":
		c.Calling.Mode, c.Calling.Allowed = "ANY", []string{r.ToolName}
	case strict:
		c.Calling.Mode = "VALIDATED"
	case r.ToolChoice == "auto":
		c.Calling.Mode = "AUTO"
	default:
		return
	}
	out.ToolConf = &c
}

// turns translates the messages. A tool's result names its function, which the
// call before it has; results of one turn stand in one content.
func turns(messages []chat.Message) ([]content, error) {
	out := make([]content, 0, len(messages))
	names := map[string]string{}
	for i, m := range messages {
		if m.Role == "tool" {
			name, ok := names[m.CallID]
			if !ok {
				return nil, fmt.Errorf("tool_call_id: no call %q comes before its result", m.CallID)
			}
			p, err := result(name, m)
			if err != nil {
				return nil, err
			}
			if i > 0 && messages[i-1].Role == "tool" {
				last := &out[len(out)-1]
				last.Parts = append(last.Parts, p)
			} else {
				out = append(out, content{"user", []part{p}})
			}
			continue
		}
		c := content{Role: "user"}
		if m.Role == "assistant" {
			c.Role = "model"
		}
		for _, p := range m.Parts {
			q, err := partOf(p)
			if err != nil {
				return nil, err
			}
			if len(m.Calls) == 0 || p.Text != "" || p.Media != nil {
				c.Parts = append(c.Parts, q)
			}
		}
		for _, call := range m.Calls {
			names[call.ID] = call.Name
			c.Parts = append(c.Parts, part{Call: &functionCall{call.ID, call.Name, call.Arguments}, Signature: call.Signature})
		}
		out = append(out, c)
	}
	return out, nil
}

// result is a tool's answer; text that is no JSON object becomes its output.
func result(name string, m chat.Message) (part, error) {
	var text strings.Builder
	for _, p := range m.Parts {
		if p.Media != nil {
			return part{}, chat.Cannot(p.Media.At)
		}
		text.WriteString(p.Text)
	}
	response := json.RawMessage(text.String())
	var object map[string]json.RawMessage
	if json.Unmarshal(response, &object) != nil || object == nil {
		var err error
		if response, err = chat.Marshal(map[string]string{"output": text.String()}); err != nil {
			return part{}, err
		}
	}
	return part{Response: &functionResponse{m.CallID, name, response}}, nil
}

func partOf(p chat.Part) (part, error) {
	m := p.Media
	switch {
	case m == nil:
		return part{Text: &p.Text}, nil
	case m.URL != "":
		return part{File: &file{typeOf(m.URL), m.URL}}, nil
	case m.Type == "":
		return part{}, errors.New(m.At + ": the data URL names no type")
	default:
		return part{Inline: &blob{m.Type, m.Data}}, nil
	}
}

// typeOf guesses a type by the URL's ending, for Gemini wants one beside it;
// an unknown one is left to Gemini.
func typeOf(url string) string {
	path, _, _ := strings.Cut(url, "?")
	dot := strings.LastIndexByte(path, '.')
	return map[string]string{
		".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".webp": "image/webp", ".gif": "image/gif", ".heic": "image/heic",
		".pdf": "application/pdf",
	}[strings.ToLower(path[max(dot, 0):])]
}
