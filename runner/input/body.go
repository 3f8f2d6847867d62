package input

import "strconv"

// plainBody builds the request of a plain line in the order that the package's comment gives.
func (p *parser) plainBody() []byte {
	// What the line holds, or what a template made of it, and a little: bodies wait by the thousand.
	size := len(p.b) + len(p.set.System) + len(p.set.ExtraBody) + 256
	if p.made {
		size = max(size, size-len(p.b)+len(p.prompt))
	}
	w := bodyWriter{out: make([]byte, 0, size)}
	w.out = append(w.out, '{')
	if own := p.given(fModel); p.hasModel && p.set.OverrideModel == "" {
		w.member("model", own)
	} else {
		w.member("model", appendQuoted(nil, p.model))
	}
	chat := p.api == "/chat/completions"
	if chat {
		w.member("messages", p.messages())
	} else {
		w.member("input", p.raw(fInput))
	}
	p.settings(&w, chat)
	for _, m := range p.set.ready.extra {
		if p.capped && isCap(string(m.name(p.set.ExtraBody))) {
			continue // servers refuse a request with two
		}
		w.add(string(m.name(p.set.ExtraBody)), m.val.of(p.set.ExtraBody))
	}
	return append(w.out, '}')
}

// messages are the line's own, or its prompt as a user message, with the system message before them.
func (p *parser) messages() []byte {
	var system []byte
	switch {
	case p.given(fSystem) != nil:
		if system = p.raw(fSystem); len(system) == 2 {
			system = nil // system: "" says that there shall be none
		}
	case p.set.System != "" && !p.ownSystem:
		system = appendQuoted(nil, p.set.System)
	}
	own := p.prompt == nil
	if own && system == nil {
		return p.raw(fMessages)
	}
	out := make([]byte, 0, len(system)+len(p.prompt)+80)
	if out = append(out, '['); system != nil {
		out = append(append(append(out, `{"role":"system","content":`...), system...), '}')
	}
	if !own {
		if system != nil {
			out = append(out, ',')
		}
		return append(append(append(out, `{"role":"user","content":`...), p.prompt...), '}', ']')
	}
	first := p.space(int(p.at[fMessages].start) + 1)
	if p.b[first] != ']' {
		out = append(out, ',')
	}
	return append(out, p.b[first:p.at[fMessages].end]...)
}

// settings writes the line's settings, and the flags' where it leaves them out. Flags of chat do not reach embeddings.
func (p *parser) settings(w *bodyWriter, chat bool) {
	s := p.set
	outputCap := p.given(fMaxTokens)
	if outputCap == nil && chat && s.MaxTokens > 0 {
		outputCap = strconv.AppendInt(nil, int64(s.MaxTokens), 10)
	}
	if p.capped = outputCap != nil; p.capped {
		name := "max_tokens"
		if s.OutputCap != nil {
			name = s.OutputCap(p.model)
		}
		w.member(name, outputCap)
	}
	temperature := p.given(fTemperature)
	if temperature == nil && chat && s.Temperature != "" {
		temperature = []byte(s.Temperature)
	}
	if temperature != nil {
		w.member("temperature", temperature)
	}
	for _, f := range []field{fTopP, fStop, fSeed, fResponseFormat, fTools, fReasoningEffort} {
		if v := p.given(f); v != nil {
			w.member(fieldNames[f], v)
		}
	}
}

// bodyWriter writes the members of an object.
type bodyWriter struct {
	out   []byte
	names []string
}

func (w *bodyWriter) member(name string, value []byte) {
	if len(w.names) > 0 {
		w.out = append(w.out, ',')
	}
	w.names = append(w.names, name)
	w.out = append(append(appendQuoted(w.out, name), ':'), value...)
}

// add writes a member unless it is there.
func (w *bodyWriter) add(name string, value []byte) {
	for _, n := range w.names {
		if n == name {
			return
		}
	}
	w.member(name, value)
}
