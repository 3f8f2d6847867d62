package input

import (
	"bytes"
	"math/bits"
	"strconv"
	"strings"
)

func (p *parser) checkShape() *fault {
	switch p.shape {
	case Batch:
		return p.checkBatch()
	case AnthropicBatch:
		return p.checkAnthropic()
	case Raw:
		return p.checkRaw()
	}
	return p.checkPlain()
}

func (p *parser) checkBatch() *fault {
	if v := p.raw(fMethod); p.has(fMethod) && (v[0] != '"' || text(v) != "POST") {
		return bad(int(p.at[fMethod].start), `method must be "POST"`)
	}
	if !p.has(fURL) {
		return bad(0, `a batch line needs a url: add "url": "/v1/chat/completions"`)
	}
	url := p.raw(fURL)
	if err := p.want(fURL, "a string", '"'); err != nil {
		return err
	}
	if p.api = apiOf(url); p.api == "" {
		return bad(int(p.at[fURL].start), "unknown url %s: one of /v1/chat/completions, /v1/responses, /v1/embeddings, /v1/completions, /v1/moderations", clip(text(url)))
	}
	if v := p.raw(fBody); v[0] != '{' {
		return bad(int(p.at[fBody].start), "body must be an object, not %s", kind(v))
	}
	return p.checkBody(p.body, "body.")
}

func (p *parser) checkAnthropic() *fault {
	if v := p.raw(fParams); v[0] != '{' {
		return bad(int(p.at[fParams].start), "params must be an object, not %s", kind(v))
	}
	if !p.set.Anthropic {
		return bad(int(p.at[fParams].start), "this is a line of Anthropic's batch file, and the provider has no such route: anthropic, openrouter and ollama have it")
	}
	p.api = "/messages"
	return p.checkBody(p.params, "params.")
}

func (p *parser) checkRaw() *fault {
	p.api = "/chat/completions"
	if !p.has(fMessages) {
		p.api = p.inputAPI()
	}
	return p.checkBody(p.top, "")
}

// checkBody checks what a caller's body holds as far as llmbatch reads it; all else is the server's to judge.
func (p *parser) checkBody(members []member, prefix string) *fault {
	if v := p.lookup(members, "model"); v.some() {
		if p.b[v.start] != '"' || text(v.of(p.b)) == "" {
			return bad(int(v.start), "%smodel must be a string that is not empty", prefix)
		}
		p.modelMember = v
	}
	if v := p.lookup(members, "messages"); v.some() {
		if p.b[v.start] != '[' {
			return bad(int(v.start), "%smessages must be an array, not %s", prefix, kind(v.of(p.b)))
		}
		p.empty = len(bytes.TrimSpace(p.b[v.start+1:v.end-1])) == 0
	}
	for _, name := range []string{"input", "prompt"} {
		if v := p.lookup(members, name); v.some() && string(v.of(p.b)) == `""` {
			p.empty = true
		}
	}
	return nil
}

// inputAPI is the route of a raw body that has input and no messages. The model's name decides, as the two bodies look alike.
func (p *parser) inputAPI() string {
	name := strings.ToLower(text(p.raw(fModel)))
	name = name[strings.LastIndexByte(name, '/')+1:]
	for _, prefix := range []string{"bge-", "gte-", "e5-", "voyage-", "multilingual-e5", "all-minilm"} {
		if strings.HasPrefix(name, prefix) {
			return "/embeddings"
		}
	}
	switch {
	case strings.Contains(name, "moderation"):
		return "/moderations"
	case strings.Contains(name, "embed"):
		return "/embeddings"
	}
	return "/responses"
}

func (p *parser) checkPlain() *fault {
	s := p.set
	p.api = "/chat/completions"
	if err := p.checkSettings(); err != nil {
		return err
	}
	switch {
	case p.made && s.Template != "":
		return p.render()
	case p.made:
		return p.usePrompt(p.lookup(p.top, s.PromptField), s.PromptField)
	}
	p.findUnread()
	if n := btoi(p.has(fPrompt)) + btoi(p.has(fMessages)) + btoi(p.has(fInput)); n > 1 {
		return bad(0, "a line has one of prompt, messages and input, not %d of them", n)
	}
	switch {
	case p.has(fPrompt):
		return p.usePrompt(p.at[fPrompt], "prompt")
	case p.has(fMessages):
		return p.checkMessages()
	}
	p.api = "/embeddings"
	v := p.raw(fInput)
	if v[0] != '"' && v[0] != '[' {
		return bad(int(p.at[fInput].start), "input must be a string or an array, not %s", kind(v))
	}
	p.empty = string(v) == `""` || len(bytes.Trim(v, "[] \t")) == 0
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p *parser) usePrompt(v span, name string) *fault {
	if p.prompt = v.of(p.b); p.prompt[0] != '"' {
		return bad(int(v.start), "%s must be a string, not %s", name, kind(p.prompt))
	}
	p.empty = len(p.prompt) == 2
	return nil
}

// checkMessages checks that messages is an array of objects with a role each.
func (p *parser) checkMessages() *fault {
	v := p.at[fMessages]
	if p.b[v.start] != '[' {
		return bad(int(v.start), "messages must be an array, not %s", kind(v.of(p.b)))
	}
	n := 0
	p.empty = true
	var members []member
	for i := p.space(int(v.start) + 1); p.b[i] != ']'; n++ {
		if p.b[i] != '{' {
			return bad(i, "message %d must be an object, not %s", n+1, kind(p.b[i:v.end]))
		}
		members = members[:0]
		end := p.object(i, 2, &members)
		role := p.lookup(members, "role")
		if !role.some() || p.b[role.start] != '"' {
			return bad(i, "message %d needs a role that is a string", n+1)
		}
		if name := text(role.of(p.b)); name == "system" || name == "developer" {
			p.ownSystem = true
		}
		if content := p.lookup(members, "content"); content.some() && string(content.of(p.b)) != `""` {
			p.empty = false
		}
		if i = p.space(end); p.b[i] == ',' {
			i = p.space(i + 1)
		}
	}
	return nil
}

// checkSettings checks the types and ranges of what a plain line sets itself.
func (p *parser) checkSettings() *fault {
	const digits = "-0123456789"
	for _, c := range []struct {
		f     field
		what  string
		first string
	}{
		{fSystem, "a string", `"`},
		{fModel, "a string", `"`},
		{fMaxTokens, "a whole number", digits},
		{fTemperature, "a number", digits},
		{fTopP, "a number", digits},
		{fStop, "a string or an array", `"[`},
		{fSeed, "a whole number", digits},
		{fResponseFormat, "an object", "{"},
		{fTools, "an array", "["},
		{fReasoningEffort, "a string", `"`},
	} {
		if p.has(c.f) {
			if err := p.want(c.f, c.what, []byte(c.first)...); err != nil {
				return err
			}
		}
	}
	for _, f := range []field{fMaxTokens, fSeed} {
		if v := p.given(f); v != nil && (bytes.ContainsAny(v, ".eE") || f == fMaxTokens && v[0] == '-') {
			return bad(int(p.at[f].start), "%s must be a whole number, not %s", fieldNames[f], kind(v))
		}
	}
	if v := p.given(fTemperature); v != nil && !between(string(v), 0, 2) {
		return bad(int(p.at[fTemperature].start), "temperature %s is not between 0 and 2", clip(string(v)))
	}
	if v := p.given(fTopP); v != nil && !between(string(v), 0, 1) {
		return bad(int(p.at[fTopP].start), "top_p %s is not between 0 and 1", clip(string(v)))
	}
	return nil
}

func between(number string, low, high float64) bool {
	x, err := strconv.ParseFloat(number, 64)
	return err == nil && x >= low && x <= high
}

// clip shortens a caller's text for a message and shows what cannot be printed as an escape.
func clip(s string) string {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return strconv.Quote(s)
}

// findModel finds the model that the request will ask for.
func (p *parser) findModel() *fault {
	own := p.modelMember
	if p.shape == Plain && p.given(fModel) != nil {
		own = p.at[fModel]
	}
	if own.some() {
		p.hasModel = true
		p.model = text(own.of(p.b))
	}
	if p.model == "" {
		p.hasModel, p.model = false, p.set.Model
	}
	if p.set.OverrideModel != "" {
		p.model = p.set.OverrideModel
	}
	if p.model == "" && p.set.TaskModel != nil {
		p.model = p.set.TaskModel(text(p.given(fTask)))
	}
	if p.model == "" {
		return bad(0, "no model: name one in the line or by --model")
	}
	return nil
}

// apiParameters are parameters of chat completions that a plain line does not take. One that has them gets a notice, as it was perhaps
// meant to be a request body.
var apiParameters = [...]string{
	"frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "n", "max_completion_tokens", "max_output_tokens",
	"tool_choice", "parallel_tool_calls", "stream", "top_k", "dimensions", "encoding_format", "instructions",
}

func (p *parser) findUnread() {
	for _, m := range p.top {
		if m.key.end-m.key.start > 21 || m.key.end == m.key.start {
			continue
		}
		key := m.key.of(p.b)
		if fieldOf(key) < fields {
			continue
		}
		for i, name := range apiParameters {
			if string(key) == name {
				p.unread |= 1 << i
			}
		}
	}
}

func parameterNames(set uint64) string {
	var names []string
	for ; set != 0; set &= set - 1 {
		names = append(names, apiParameters[bits.TrailingZeros64(set)])
	}
	return strings.Join(names, ", ")
}
