package estimate

import (
	"fmt"
	"sync"
	"unicode/utf8"
)

// Tokens of one request as reckoned before sending. The zero value is a request
// without text.
type Tokens struct {
	Text      int // of the text alone: contents of messages, prompts, inputs; no framing, no roles
	Prompt    int // Text, framing, tool calls and definitions, response schema, images
	Chars     int // characters of the contents of messages and of role names, prompts, inputs; OpenAI's limiter charges ceil(Chars/4)+1
	Images    int // of images, which are part of Prompt
	Pictures  int // how many images that are
	MaxOutput int // the body's cap times the number of answers asked for; 0 = the body gives no cap
	Extra     int // answers asked for beyond the first
}

// Framing of chat messages: OpenAI cookbook, "How to count tokens with
// tiktoken" (gpt-3.5-turbo-0613 and later, gpt-4, gpt-4o), exact for 85 of 102
// recorded calls. Other providers' framing is not published; the same is taken.
const (
	perMessage = 3 // around each message
	perName    = 1 // for a name beside the role
	perReply   = 3 // the start of the answer
)

// flatMedia is what an image of unknown size, a sound or a file is taken for:
// the middle of what the providers' formulas give for common images.
const flatMedia = 1500

// Request reckons the tokens of a request body as it would be sent to api
// ("/chat/completions", "/responses", "/messages", "/embeddings",
// "/completions", "/moderations"), counted for model. body is the raw JSON; it
// is read in place and not kept. The error is a body that is no JSON object, or
// an unknown api.
func (c *Counter) Request(api, model string, body []byte) (Tokens, error) {
	w := walks.Get().(*walk)
	defer w.release()
	name, _ := Encoding(model)
	*w = walk{
		reader:      reader{b: body},
		enc:         c.encoding(name),
		base:        baseModel(model),
		answers:     1,
		perFunction: perFunctionO200k,
		text:        w.text,
		line:        w.line,
	}
	if name == CL100kBase {
		w.perFunction = perFunctionCL100k
	}
	if w.next() != '{' {
		return Tokens{}, fmt.Errorf("request body: no JSON object")
	}
	switch api {
	case "/chat/completions":
		w.object(w.chatField)
		w.t.Prompt += perReply
	case "/responses":
		w.object(w.responsesField)
		w.t.Prompt += perReply
	case "/messages":
		w.object(w.anthropicField)
		w.t.Prompt += perReply
	case "/embeddings", "/moderations":
		w.object(w.inputField)
	case "/completions":
		w.object(w.completionField)
		w.answers = min(w.answers*max(w.prompts, 1), maxInteger)
	default:
		return Tokens{}, fmt.Errorf("no estimate for requests to %q", api)
	}
	if w.next() != 0 {
		w.fail("more after the object")
	}
	w.tools.close(w)
	w.t.MaxOutput, w.t.Extra = w.cap*w.answers, w.answers-1
	return w.t, w.fault
}

// walk is the state of one Request.
type walk struct {
	reader
	enc         *encoding
	base        string // the model's name without vendor and variant
	perFunction int
	t           Tokens
	cap         int // the largest output cap met
	answers     int // n
	prompts     int // prompts of a completion
	tools       toolCount
	text        []byte // unescaped text
	line        []byte // a line of a tool definition
}

var walks = sync.Pool{New: func() any { return new(walk) }}

// keepText is the largest buffer that is kept for later requests.
const keepText = 1 << 20

// release gives w back without the body and without large buffers.
func (w *walk) release() {
	w.b = nil
	if cap(w.text) > keepText {
		w.text = nil
	}
	if cap(w.line) > keepText {
		w.line = nil
	}
	walks.Put(w)
}

// plainText returns the text of q in valid UTF-8; it is good until the next
// call.
func (w *walk) plainText(q quoted) []byte {
	b := q.raw
	if q.escaped {
		w.text = q.append(w.text[:0])
		b = w.text
	}
	if !utf8.Valid(b) {
		return []byte(string([]rune(string(b))))
	}
	return b
}

// words takes the string that follows and counts it as text of the prompt.
func (w *walk) words() { w.countWords(w.string()) }

func (w *walk) countWords(q quoted) {
	b := w.plainText(q)
	n := w.enc.count(b)
	w.t.Text += n
	w.t.Prompt += n
	w.t.Chars += utf8.RuneCount(b)
}

// extra takes the string that follows and counts it in Prompt alone.
func (w *walk) extra() {
	w.t.Prompt += w.enc.count(w.plainText(w.string()))
}

// json takes the value that follows, of any type, and counts its JSON text in
// Prompt alone.
func (w *walk) json() {
	w.next()
	start := w.i
	w.skip()
	w.t.Prompt += w.enc.count(w.plainText(quoted{raw: w.b[start:w.i]}))
}

// media counts an image, sound or file that is not text.
func (w *walk) media(tokens int, image bool) {
	w.t.Prompt += tokens
	if image {
		w.t.Images += tokens
		w.t.Pictures++
	}
}

// limit takes an output cap; of several the largest counts.
func (w *walk) limit() { w.cap = max(w.cap, w.integer()) }

// number takes n, the number of answers; nonsense is one.
func (w *walk) number() { w.answers = max(w.integer(), w.answers) }

func (w *walk) chatField(key []byte) {
	switch string(key) {
	case "messages":
		w.array(w.message)
	case "tools":
		w.array(w.tool)
	case "functions":
		w.array(w.function)
	case "response_format":
		w.object(w.formatField)
	case "max_completion_tokens", "max_tokens":
		w.limit()
	case "n":
		w.number()
	}
}

func (w *walk) responsesField(key []byte) {
	switch string(key) {
	case "input":
		if w.next() == '"' {
			w.frame("user")
			w.words()
			return
		}
		w.array(w.item)
	case "instructions":
		if w.next() == '"' {
			w.frame("system")
			w.words()
		}
	case "tools":
		w.array(w.tool)
	case "text":
		w.object(func(key []byte) {
			if string(key) == "format" {
				w.object(w.formatField)
			}
		})
	case "max_output_tokens":
		w.limit()
	}
}

func (w *walk) anthropicField(key []byte) {
	switch string(key) {
	case "messages":
		w.array(w.message)
	case "system":
		w.frame("system")
		w.content()
	case "tools":
		w.array(w.tool)
	case "max_tokens":
		w.limit()
	}
}

func (w *walk) inputField(key []byte) {
	if string(key) == "input" {
		w.input()
	}
}

func (w *walk) completionField(key []byte) {
	switch string(key) {
	case "prompt":
		w.input()
	case "suffix":
		w.extra()
	case "max_tokens":
		w.limit()
	case "n", "best_of":
		w.number()
	}
}

// input counts a prompt: a string, an array of strings or of tokens, an array
// of arrays of tokens, or an array of content parts (moderations).
func (w *walk) input() {
	switch w.next() {
	case '"':
		w.prompts++
		w.words()
	case '[':
		tokens := false
		w.array(func() {
			switch c := w.next(); {
			case c == '"' || c == '[':
				w.input()
			case c == '{':
				w.part()
			case c >= '0' && c <= '9':
				w.t.Text++
				w.t.Prompt++
				tokens = true
			}
		})
		if tokens {
			w.prompts++
		}
	}
}

// formatField counts the schema of a structured answer, which the provider puts
// before the model as JSON.
func (w *walk) formatField(key []byte) {
	switch string(key) {
	case "json_schema":
		w.object(w.formatField)
	case "schema", "name", "description":
		w.json()
	}
}
