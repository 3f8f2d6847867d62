package chat

import (
	"bytes"
	"encoding/json"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// Answer is a chat completion to build.
type Answer struct {
	ID, Model  string
	Created    int64 // Unix seconds
	Choices    []Choice
	Usage      provider.Usage
	CacheWrite int64 // input tokens written to a cache; part of Usage.Input
}

// Choice is one of its answers.
type Choice struct {
	Text      string
	Reasoning string // shown as reasoning_content, the name that DeepSeek and vLLM use
	Calls     []Call
	Images    []string // data URLs, shown as images, the name that OpenRouter uses
	Finish    string   // one of the Finish constants of package provider, or another word
}

type wireAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []wireChoice `json:"choices"`
	Usage   *wireUsage   `json:"usage,omitempty"`
}

type wireChoice struct {
	Index   int         `json:"index"`
	Message wireMessage `json:"message"`
	Finish  string      `json:"finish_reason"`
}

type wireMessage struct {
	Role      string      `json:"role"`
	Content   *string     `json:"content"`
	Reasoning string      `json:"reasoning_content,omitempty"`
	Refusal   *string     `json:"refusal"`
	Calls     []wireCall  `json:"tool_calls,omitempty"`
	Images    []wireImage `json:"images,omitempty"`
}

type wireImage struct {
	Type string `json:"type"`
	URL  struct {
		URL string `json:"url"`
	} `json:"image_url"`
}

type wireCall struct {
	ID       string        `json:"id"`
	Type     string        `json:"type"`
	Function wireFunction  `json:"function"`
	Extra    *extraContent `json:"extra_content,omitempty"`
}

type wireFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type wireUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	PromptIn   struct {
		Cached int64 `json:"cached_tokens"`
		Write  int64 `json:"cache_write_tokens,omitempty"`
	} `json:"prompt_tokens_details"`
	CompletionIn struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// Encode writes the completion as JSON. A refusal ends with content_filter:
// its text, if any, is content that was cut off.
func (a *Answer) Encode() ([]byte, error) {
	out := wireAnswer{ID: a.ID, Object: "chat.completion", Created: a.Created, Model: a.Model, Choices: make([]wireChoice, len(a.Choices))}
	for i, c := range a.Choices {
		out.Choices[i] = wireChoice{Index: i, Message: c.message(), Finish: finishWord(c.Finish)}
	}
	if u := a.Usage; u.Known {
		w := &wireUsage{Prompt: u.Input, Completion: u.Output, Total: u.Input + u.Output}
		w.PromptIn.Cached, w.PromptIn.Write, w.CompletionIn.Reasoning = u.Cached, a.CacheWrite, u.Reasoning
		out.Usage = w
	}
	return Marshal(out)
}

func (c *Choice) message() wireMessage {
	m := wireMessage{Role: "assistant", Reasoning: c.Reasoning}
	if c.Text != "" || len(c.Calls) == 0 {
		m.Content = &c.Text
	}
	for _, url := range c.Images {
		w := wireImage{Type: "image_url"}
		w.URL.URL = url
		m.Images = append(m.Images, w)
	}
	for _, call := range c.Calls {
		w := wireCall{ID: call.ID, Type: "function", Function: wireFunction{call.Name, string(call.Arguments)}}
		if call.Signature != "" {
			w.Extra = &extraContent{}
			w.Extra.Google.Signature = call.Signature
		}
		m.Calls = append(m.Calls, w)
	}
	return m
}

// finishWord is OpenAI's word for a finish.
func finishWord(finish string) string {
	if finish == provider.FinishRefused {
		return provider.FinishContentFilter
	}
	return finish
}

// Marshal is json.Marshal that leaves <, > and & as they are.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
