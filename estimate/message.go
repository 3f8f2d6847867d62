package estimate

import "unicode/utf8"

// frame counts what stands around a message of the given role.
func (w *walk) frame(role string) {
	w.t.Prompt += perMessage + w.enc.count([]byte(role))
	w.t.Chars += len(role)
}

// message counts a message of a chat, OpenAI's or Anthropic's.
func (w *walk) message() {
	w.t.Prompt += perMessage
	w.object(w.messageField)
}

func (w *walk) messageField(key []byte) {
	switch string(key) {
	case "role":
		b := w.plainText(w.string())
		w.t.Prompt += w.enc.count(b)
		w.t.Chars += utf8.RuneCount(b)
	case "content":
		w.content()
	case "name":
		if w.next() == '"' {
			w.t.Prompt += perName
			w.extra()
		}
	case "refusal":
		w.words()
	case "tool_calls":
		w.array(func() { w.object(w.callField) })
	case "function_call":
		w.object(w.callField)
	}
}

// item counts an item of a response's input: a message, a call of a tool, its
// output. What the server keeps to itself (encrypted reasoning, references to
// items) counts nothing.
func (w *walk) item() {
	w.t.Prompt += perMessage
	w.object(func(key []byte) {
		switch string(key) {
		case "output":
			w.content()
		case "arguments":
			w.extra()
		case "summary":
			w.content()
		default:
			w.messageField(key)
		}
	})
}

// callField counts a tool call that stands in a message: its name and its
// arguments, and three tokens as for a message of its own.
func (w *walk) callField(key []byte) {
	switch string(key) {
	case "function", "custom":
		w.t.Prompt += perMessage
		w.object(w.callField)
	case "name", "arguments":
		w.extra()
	case "input":
		w.json()
	}
}

// content counts the content of a message: a string, an array of parts, or one
// part.
func (w *walk) content() {
	switch w.next() {
	case '"':
		w.words()
	case '[':
		w.array(w.part)
	case '{':
		w.part()
	}
}

// part counts one part of a content. The types are told apart by the fields
// that carry their data, which differ; the base64 of images, sounds and files
// is never counted as text.
func (w *walk) part() {
	if w.next() == '"' { // Responses and moderations allow bare strings
		w.words()
		return
	}
	p := part{}
	w.object(func(key []byte) { w.partField(&p, key) })
	switch {
	case p.image:
		w.media(imageTokens(w.base, p.size, p.low), true)
	case p.file:
		w.media(flatMedia, false)
	}
}

// part is what is known of an image or a file once its fields are read, in
// whatever order they came.
type part struct {
	image, file bool
	low         bool // detail: low
	size        imageSize
}

func (w *walk) partField(p *part, key []byte) {
	switch string(key) {
	case "type":
		switch t := w.string().plain(); string(t) {
		case "image", "image_url", "input_image":
			p.image = true
		case "input_audio", "input_file", "file", "document":
			p.file = true
		case "tool_use":
			w.t.Prompt += perMessage
		}
	case "text", "refusal", "thinking":
		if w.next() == '"' {
			w.words()
		}
	case "content": // of a tool's result or of a document, Anthropic
		w.content()
		p.file = false
	case "name":
		w.extra()
	case "input": // of a tool call, Anthropic
		w.json()
	case "detail":
		p.low = string(w.string().plain()) == "low"
	case "image_url":
		p.image = true
		if w.next() == '"' {
			p.size = dataURLSize(w.string())
			return
		}
		w.object(func(key []byte) {
			switch string(key) {
			case "url":
				p.size = dataURLSize(w.string())
			case "detail":
				p.low = string(w.string().plain()) == "low"
			}
		})
	case "source":
		w.source(p)
	}
}

// source reads where an image or a document of Anthropic's API comes from.
func (w *walk) source(p *part) {
	var data quoted
	text := false
	w.object(func(key []byte) {
		switch string(key) {
		case "type":
			text = string(w.string().plain()) == "text"
		case "data":
			data = w.string()
		case "content":
			text = true
			w.content()
		}
	})
	if text {
		p.file = false
		w.countWords(data)
		return
	}
	p.size = base64Size(data)
}
