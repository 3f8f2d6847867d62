package fake

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strings"
)

// The APIs that are answered, by the end of their path.
const (
	apiChat        = "/chat/completions"
	apiResponses   = "/responses"
	apiEmbeddings  = "/embeddings"
	apiCompletions = "/completions"
	apiModerations = "/moderations"
	apiMessages    = "/messages"
	apiGenerate    = "/generateContent" // Gemini's: /models/MODEL:generateContent, or :streamGenerateContent
	apiEmbed       = "/embedContent"
)

// route reads the API off a path such as /v1/chat/completions, whatever its prefix, and the model off those that have it:
// Gemini's, and Azure's /openai/deployments/MODEL/chat/completions.
func (c *call) route(path string) {
	if _, rest, ok := strings.Cut(path, azurePath); ok {
		c.model, _, _ = strings.Cut(rest, "/")
	}
	for _, api := range [...]string{apiChat, apiResponses, apiEmbeddings, apiCompletions, apiModerations, apiMessages} {
		if strings.HasSuffix(path, api) {
			c.api = api
			return
		}
	}
	_, last, _ := strings.Cut(path, "/models/")
	switch model, method, _ := strings.Cut(last, ":"); {
	case model == "":
	case method == "generateContent" || method == "streamGenerateContent":
		c.api, c.model, c.stream = apiGenerate, model, method[0] == 's'
	case method == "embedContent":
		c.api, c.model = apiEmbed, model
	}
}

// generates says whether the API's answers are a model's output.
func (c *call) generates() bool {
	switch c.api {
	case apiChat, apiResponses, apiCompletions, apiMessages, apiGenerate:
		return true
	}
	return false
}

// azurePath is followed by a deployment, which stands for the model.
const azurePath = "/openai/deployments/"

// What one call may ask for: OpenAI's bound of n, and enough for any embedding.
const (
	maxChoices = 128
	maxDims    = 1 << 14
)

// call is one request and what became of it.
type call struct {
	api, model string
	id         string // of the request
	group      *group
	dialect    Style  // of error bodies
	hints      Style  // of headers
	key        string // Idempotency-Key
	keyID      uint64 // hash of key; bodyID without one
	lockID     uint64 // hash of key, API and model: a key means nothing to another model
	bodyID     uint64
	body       []byte // valid until the handler returns

	chars   int    // characters of texts and role names
	prompt  int    // tokens
	maxOut  int    // the body's cap; 0 = none
	choices int    // n; for completions times the prompts
	inputs  int    // texts to embed or moderate
	dims    int    // of an embedding
	base64  bool   // embeddings as base64
	text    []byte // last text, raw JSON: what Echo answers
	stream  bool
	tool    string // first one that is offered
	usage   bool   // chat: the stream is to end with a chunk that has the usage

	era     uint64 // of the server, see Reset
	at      int64  // admission, ns
	inFlt   int    // calls in flight at that moment, this one included
	serial  uint64 // number of the call, from 1
	attempt uint64 // number of the admitted call with this body, from 1
	charge  int64
	out     int    // tokens of the answer, all choices, reasoning included
	cached  int    // tokens of the prompt
	reason  int    // tokens of out
	finish  string // in OpenAI's words, or as a fault has it
	fault   string // its name, if one was played
	arg     string // its argument
}

// read fills the call from its body; false if that is no JSON object.
func (c *call) read(body []byte) bool {
	body = bytes.Trim(body, " \t\r\n")
	sum := sha256.Sum256(body)
	c.body, c.bodyID = body, binary.BigEndian.Uint64(sum[:])
	c.keyID = c.bodyID
	if c.key != "" {
		c.keyID = hash(c.key)
	}
	if len(body) == 0 || body[0] != '{' || !json.Valid(body) {
		return false
	}
	n := 1
	object(body, func(key, v []byte) {
		switch string(key) {
		case "model":
			if c.model == "" {
				c.model = string(unquote(v))
			}
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			c.maxOut = max(c.maxOut, number(v))
		case "n":
			n = max(1, number(v))
		case "dimensions", "outputDimensionality":
			c.dims = number(v)
		case "encoding_format":
			c.base64 = string(v) == `"base64"`
		case "stream":
			c.stream = string(v) == "true" && c.generates()
		case "stream_options":
			object(v, func(key, v []byte) {
				c.usage = c.usage || string(key) == "include_usage" && string(v) == "true"
			})
		case "messages", "prompt", "input", "instructions", "system":
			c.texts(v)
		case "contents": // a list, or one alone
			c.texts(v)
			object(v, c.message)
		case "tools":
			c.readTool(v)
		case "content", "systemInstruction", "system_instruction":
			object(v, c.message)
		case "generationConfig":
			object(v, func(key, v []byte) {
				switch string(key) {
				case "maxOutputTokens":
					c.maxOut = number(v)
				case "candidateCount":
					n = max(1, number(v))
				}
			})
		}
	})
	c.lockID = mix(mix(c.keyID, hash(c.api)), hash(c.model))
	c.inputs, c.choices = max(1, c.inputs), 1
	switch c.api {
	case apiChat, apiGenerate:
		c.choices = n
	case apiCompletions:
		c.choices = n * c.inputs
	}
	return true
}

// texts adds what a prompt, an input or a list of messages holds. Token lists (arrays of numbers) count a token each.
func (c *call) texts(v []byte) {
	if t := unquote(v); t != nil {
		c.text = t
		c.chars += runes(t)
		c.inputs = 1
		return
	}
	array(v, func(e []byte) {
		switch e[0] {
		case '"':
			c.inputs++
			c.text = unquote(e)
			c.chars += runes(c.text)
		case '{':
			object(e, c.message)
		case '[':
			c.inputs++
			array(e, func([]byte) { c.chars += 4 })
		default:
			c.chars += 4
		}
	})
}

func (c *call) message(key, v []byte) {
	switch string(key) {
	case "role":
		c.chars += runes(unquote(v))
	case "text": // a part that stands where a message may
		if t := unquote(v); t != nil {
			c.text = t
			c.chars += runes(t)
		}
	case "content", "parts":
		if t := unquote(v); t != nil {
			c.text = t
			c.chars += runes(t)
			return
		}
		array(v, func(part []byte) {
			object(part, func(key, v []byte) {
				if t := unquote(v); t != nil && string(key) == "text" {
					c.text = t
					c.chars += runes(t)
				}
			})
		})
	}
}

func hash(s string) uint64 {
	sum := sha256.Sum256([]byte(s))
	return binary.BigEndian.Uint64(sum[:])
}

// mix is splitmix64's finaliser: what the choices made by hash are drawn from.
func mix(a, b uint64) uint64 {
	z := a + b*0x9e3779b97f4a7c15 + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// unit maps a hash to [0, 1).
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }
