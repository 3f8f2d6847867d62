package input

import (
	"bytes"
	"fmt"
	"strings"
)

// A field is a top-level member that llmbatch reads.
type field uint8

const (
	fCustomID field = iota
	fID
	fMethod
	fURL
	fBody
	fParams
	fPrompt
	fMessages
	fInput
	fSystem
	fModel
	fMaxTokens
	fTemperature
	fTopP
	fStop
	fSeed
	fResponseFormat
	fTools
	fReasoningEffort
	fTask
	fTenant
	fPriority
	fRetry
	fMetadata
	fields // how many
)

var fieldNames = [fields]string{
	"custom_id", "id", "method", "url", "body", "params", "prompt", "messages", "input", "system", "model", "max_tokens", "temperature",
	"top_p", "stop", "seed", "response_format", "tools", "reasoning_effort", "task", "tenant", "priority", "retry", "metadata",
}

// fieldOf finds a key among the fields; fields = none.
func fieldOf(key []byte) field {
	for f, name := range fieldNames {
		if len(name) == len(key) && name == string(key) {
			return field(f)
		}
	}
	return fields
}

// apiOf is the route that a batch line's url, as JSON, names: one of the known ones, with and without the /v1 that the base URL stands for (Azure's files leave it out).
// Nothing but these exact strings passes, so no line can choose a host or a query.
func apiOf(url []byte) string {
	switch string(url) {
	case `"/v1/chat/completions"`, `"/chat/completions"`:
		return "/chat/completions"
	case `"/v1/responses"`, `"/responses"`:
		return "/responses"
	case `"/v1/embeddings"`, `"/embeddings"`:
		return "/embeddings"
	case `"/v1/completions"`, `"/completions"`:
		return "/completions"
	case `"/v1/moderations"`, `"/moderations"`:
		return "/moderations"
	}
	return ""
}

// parser takes one line apart. It is used again for the next one; not safe for concurrent use.
type parser struct {
	scanner
	set   *Settings
	at    [fields]span // values of the fields that the line has
	shape Shape
	api   string
	id    span   // the ID's value
	idKey string // and the member it came from
	idNew bool   // IDField is set and the line has no such member

	prompt      []byte // JSON of the prompt, for plain lines that have none of messages and input
	formed      bool   // the line is a JSON object without repeated keys
	made        bool   // by --template or --prompt-field
	empty       bool   // the prompt has no text
	capped      bool   // the plain body has an output cap of the line or of the flags
	ownSystem   bool   // messages hold a system message of their own
	priority    Priority
	out         bytes.Buffer // of the template
	model       string       // that the request will ask for
	hasModel    bool         // the line names it
	unread      uint64       // bits of apiParameters that a plain line has and that are not sent
	modelMember span         // value of model in the body
}

// parse checks a line and takes it apart; the fault says what is wrong with it.
func (p *parser) parse(line []byte, s *Settings) *fault {
	p.scanner = scanner{b: line, top: p.top[:0], body: p.body[:0], params: p.params[:0]}
	p.set, p.at, p.id, p.idKey, p.idNew = s, [fields]span{}, span{}, "", false
	p.prompt, p.made, p.empty, p.ownSystem, p.priority, p.model, p.hasModel, p.unread = nil, false, false, false, Normal, "", false, 0
	p.modelMember, p.shape, p.api, p.formed, p.capped = span{}, Plain, "", false, false
	if err := p.scanLine(); err != nil {
		return err
	}
	p.formed = true
	for _, step := range []func(*parser) *fault{
		(*parser).findFields, (*parser).findID, (*parser).findShape, (*parser).checkCommon, (*parser).checkShape, (*parser).findModel,
	} {
		if err := step(p); err != nil {
			return err
		}
	}
	return nil
}

func bad(pos int, format string, args ...any) *fault {
	return &fault{pos, fmt.Sprintf(format, args...)}
}

func (p *parser) scanLine() *fault {
	b := p.b
	switch {
	case b[0] == '[':
		return bad(0, "a line must be a JSON object, not an array (jq -c '.[]' turns an array into lines)")
	case b[0] != '{':
		return bad(0, "a line must be a JSON object, not %s", p.glyph(0))
	}
	end := p.object(0, 1, &p.top)
	if end < 0 { // what was read so far may still name the line
		fault := p.fault
		_ = p.findFields()
		_ = p.findID()
		return fault
	}
	if end = p.space(end); end < len(b) {
		return bad(end, "text after the object: %s; one JSON object a line", p.glyph(end))
	}
	for _, members := range [][]member{p.top, p.body, p.params} {
		if again, first, found := repeated(b, members); found {
			return bad(int(again.key.start)-1, "key %s is there twice (first at column %d)", clip(string(again.name(b))), column(b, int(first.key.start)-1))
		}
	}
	return nil
}

// column counts characters, as editors do.
func column(b []byte, pos int) int {
	n := 1
	for _, c := range b[:min(pos, len(b))] {
		if c&0xC0 != 0x80 {
			n++
		}
	}
	return n
}

func (p *parser) findFields() *fault {
	for _, m := range p.top {
		if f := fieldOf(m.name(p.b)); f < fields {
			p.at[f] = m.val
		}
	}
	return nil
}

func (p *parser) has(f field) bool { return p.at[f].some() }

// raw is a field's value as written; nil when the line does not have it.
func (p *parser) raw(f field) []byte { return p.at[f].of(p.b) }

// given is raw without null, which settings may be.
func (p *parser) given(f field) []byte {
	if v := p.raw(f); len(v) > 0 && v[0] != 'n' {
		return v
	}
	return nil
}

// findID finds the line's ID and checks its type: strings and integers.
func (p *parser) findID() *fault {
	if name := p.set.IDField; name != "" {
		p.id, p.idKey = p.lookup(p.top, name), name
		p.idNew = !p.id.some()
	}
	for _, f := range []field{fCustomID, fID} {
		if !p.id.some() {
			p.id, p.idKey = p.at[f], fieldNames[f]
		}
	}
	if !p.id.some() {
		return nil
	}
	v, pos := p.id.of(p.b), int(p.id.start)
	wrong := ""
	switch {
	case string(v) == `""`:
		wrong = "is empty: give a string or an integer, or leave it out"
	case string(v) == "null":
		wrong = "is null: give a string or an integer, or leave it out"
	case v[0] != '"' && (bytes.ContainsAny(v, ".eE") || v[0] != '-' && v[0]-'0' > 9):
		wrong = "must be a string or an integer, not " + kind(v)
	default:
		return nil
	}
	p.id = span{} // what the line has is none
	return bad(pos, "%s %s", p.idKey, wrong)
}

// kind names a value for messages; a number is shown.
func kind(v []byte) string {
	switch v[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f', 'n':
		return string(v)
	}
	if len(v) > 32 {
		return "a number"
	}
	return string(v)
}

// findShape tells the line's shape by the fields that it has.
func (p *parser) findShape() *fault {
	chat := p.has(fPrompt) || p.has(fMessages)
	switch {
	case p.flagMakesPrompt():
		p.made = true
	case p.has(fBody) && (p.has(fURL) || p.has(fMethod)) && !chat:
		p.shape = Batch
	case p.has(fParams) && !chat && !p.has(fInput):
		p.shape = AnthropicBatch
	case p.has(fModel) && (p.has(fMessages) || p.has(fInput)) && !p.has(fCustomID) && !p.has(fID) && !p.has(fSystem) && !p.has(fPrompt):
		p.shape = Raw
	case chat || p.has(fInput):
		p.shape = Plain
	case p.has(fBody):
		return bad(0, `a batch line needs a url: add "url": "/v1/chat/completions"`)
	case p.has(fURL) || p.has(fMethod):
		return bad(0, "a batch line needs a body")
	case p.set.PromptField != "":
		return bad(0, "no field %q (--prompt-field)", p.set.PromptField)
	default:
		return bad(0, "no request: a line has prompt, messages or input, or body with url (or name a field by --prompt-field or --template)%s", p.nearMiss())
	}
	return nil
}

// flagMakesPrompt tells whether the line is a record that --template or --prompt-field makes a prompt of. A line of a batch file is not.
func (p *parser) flagMakesPrompt() bool {
	switch {
	case p.set.PromptField != "":
		return p.lookup(p.top, p.set.PromptField).some()
	case p.set.Template == "":
		return false
	}
	object := func(f field) bool { return p.has(f) && p.raw(f)[0] == '{' }
	batch := object(fBody) && p.has(fURL) && apiOf(p.raw(fURL)) != ""
	return !batch && !(object(fParams) && p.has(fCustomID))
}

// nearMiss points at a key that is a field in other letters.
func (p *parser) nearMiss() string {
	for _, m := range p.top {
		name := string(m.name(p.b))
		for _, f := range []field{fPrompt, fMessages, fInput, fBody, fParams} {
			if name != fieldNames[f] && strings.EqualFold(name, fieldNames[f]) {
				return fmt.Sprintf("; field names are case-sensitive: %q is not %q", name, fieldNames[f])
			}
		}
	}
	return ""
}

// checkCommon checks what is read from any shape.
func (p *parser) checkCommon() *fault {
	for _, f := range []field{fTask, fTenant} {
		if err := p.want(f, "a string", '"'); err != nil {
			return err
		}
	}
	if v := p.given(fPriority); v != nil {
		switch text(v) {
		case "high":
			p.priority = High
		case "low":
			p.priority = Low
		case "normal":
		default:
			return bad(int(p.at[fPriority].start), `priority must be "high", "normal" or "low"`)
		}
	}
	if v := p.given(fRetry); v != nil && (v[0] != '"' || text(v) != "never") {
		return bad(int(p.at[fRetry].start), `retry must be "never" or left out`)
	}
	return nil
}

// want checks a field's type by the value's first byte; null and nothing pass.
func (p *parser) want(f field, what string, first ...byte) *fault {
	v := p.given(f)
	if v == nil || bytes.IndexByte(first, v[0]) >= 0 {
		return nil
	}
	return bad(int(p.at[f].start), "%s must be %s, not %s", fieldNames[f], what, kind(v))
}
