package input

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// Raw reads the bytes of an entry's line, without blanks around it, and checks that they are those of the pre-flight: ErrChanged if not.
// Of a line longer than MaxLineBytes it gives the beginning.
func (f *File) Raw(ix *Index, i int) ([]byte, error) {
	e := ix.at(i)
	raw := make([]byte, e.Length)
	if n, err := f.f.ReadAt(raw, e.Offset); n < len(raw) && err != io.EOF {
		return nil, fmt.Errorf("read line %d of %s: %w", e.Line, f.path, err)
	} else if n < len(raw) || xxhash.Sum64(raw) != e.Sum {
		return nil, fmt.Errorf("line %d of %s: %w", e.Line, f.path, ErrChanged)
	}
	return raw, nil
}

// Record reads an operation's line again and makes its request. s is the one of Preflight, or one that differs in what Preflight does not check. Safe for concurrent use.
func (f *File) Record(ix *Index, i int, s *Settings) (Record, error) {
	if s.ready == nil {
		own := *s
		ready, err := s.prepare()
		if err != nil {
			return Record{}, err
		}
		own.ready, s = ready, &own
	}
	e := ix.at(i)
	raw, err := f.Raw(ix, i)
	if err != nil {
		return Record{}, err
	}
	if e.flags&flagLong != 0 {
		return Record{}, fmt.Errorf("line %d is longer than %d bytes", e.Line, s.maxLine())
	}
	x, ok := f.idle.Get().(*examiner)
	if !ok {
		x = &examiner{}
	}
	defer f.idle.Put(x)
	p := &x.p
	if fault := p.parse(raw, s); fault != nil {
		return Record{}, fmt.Errorf("line %d: %w", e.Line, fault)
	}
	r := Record{
		Line: int(e.Line), Shape: p.shape, API: p.api, Model: p.model, Sum: e.Sum, Priority: p.priority,
		Task: text(p.given(fTask)), Tenant: text(p.given(fTenant)),
	}
	r.Op = ix.opOf(i, x, r.Task)
	if p.id.some() {
		r.CustomID = p.id.of(raw)
	}
	hosted := false
	switch p.shape {
	case Batch:
		r.Body, hosted = p.withModel(p.at[fBody]), p.hosted(p.body)
	case AnthropicBatch:
		r.Body, hosted = p.withModel(p.at[fParams]), p.hosted(p.params)
	case Raw:
		r.Body, hosted = p.rawBody(), p.hosted(p.top)
	default:
		r.Body, hosted = p.plainBody(), p.set.ready.hosted || p.hostedTool(p.at[fTools])
	}
	r.Metadata = p.metadata()
	r.Never = hosted || p.given(fRetry) != nil
	r.Digest = x.canon.digest(r.API, r.Model, r.Body)
	return r, nil
}

// opOf is the operation ID of a valid entry, which x has parsed.
func (ix *Index) opOf(i int, x *examiner, task string) string {
	if x.p.id.some() {
		return text(quoteID(x.p.id.of(x.p.b)))
	}
	if task == "" {
		task = "default"
	}
	sum := sha256.Sum256(x.canon.form(x.p.b))
	k, _ := slices.BinarySearch(ix.group(ix.at(i).Hash), uint32(i))
	return task + ":" + hex.EncodeToString(sum[:]) + ":" + strconv.Itoa(k)
}

// withModel is a caller's body with the model that is to be asked for; untouched where it names that already.
func (p *parser) withModel(body span) []byte {
	if p.modelMember.some() && (p.set.OverrideModel == "" || p.set.OverrideModel == text(p.modelMember.of(p.b))) {
		return p.b[body.start:body.end:body.end]
	}
	return setModel(p.b, body, p.modelMember, p.model)
}

// setModel writes an object with model's value replaced, or with model put first.
func setModel(b []byte, object, value span, model string) []byte {
	out := make([]byte, 0, int(object.end-object.start)+len(model)+16)
	if value.some() {
		out = append(out, b[object.start:value.start]...)
		out = appendQuoted(out, model)
		return append(out, b[value.end:object.end]...)
	}
	out = appendQuoted(append(out, `{"model":`...), model)
	rest := b[object.start+1 : object.end]
	if bytes.TrimSpace(rest)[0] != '}' {
		out = append(out, ',')
	}
	return append(out, rest...)
}

// ReplaceModel gives a request body with its model replaced and all other bytes as they are; a body without a model gets one.
// Routes use it. The body must be a JSON object.
func ReplaceModel(body []byte, model string) ([]byte, error) {
	s := scanner{b: body}
	i := s.space(0)
	if i >= len(body) || body[i] != '{' {
		return nil, fmt.Errorf("the body is no JSON object")
	}
	var members []member
	end := s.object(i, 1, &members)
	if end < 0 {
		return nil, s.fault
	}
	var value span
	for _, m := range members {
		if string(m.name(body)) == "model" {
			value = m.val
		}
	}
	return setModel(body, span{int32(i), int32(end)}, value, model), nil
}

// rawBody is a raw line without the members that llmbatch reads for itself, every other byte as it is, with its model.
func (p *parser) rawBody() []byte {
	whole := span{0, int32(len(p.b))}
	own := func(m member) bool {
		name := string(m.name(p.b))
		switch name {
		case "task", "tenant", "priority", "retry":
			return true
		case "model", "messages", "input":
			return false
		}
		return p.id.some() && name == p.idKey
	}
	if !slices.ContainsFunc(p.top, own) {
		return p.withModel(whole)
	}
	out := make([]byte, 0, len(p.b))
	last := int32(-1) // end of the member before
	for _, m := range p.top {
		from := m.key.start - 1
		if !own(m) {
			if len(out) == 0 {
				out = append(out, p.b[:p.top[0].key.start-1]...)
			} else {
				from = last
			}
			out = append(out, p.b[from:m.val.end]...)
		}
		last = m.val.end
	}
	out = append(out, p.b[last:]...)
	if p.set.OverrideModel == "" {
		return out
	}
	out, _ = ReplaceModel(out, p.model) // a raw line was valid and stays so
	return out
}

// metadata is what the result echoes.
func (p *parser) metadata() []byte {
	if p.has(fMetadata) {
		return p.raw(fMetadata)
	}
	if p.shape != Plain || p.made {
		return nil
	}
	var out []byte
	for _, m := range p.top {
		name := m.name(p.b)
		if fieldOf(name) < fields || p.id.some() && string(name) == p.idKey {
			continue
		}
		out = append(out, "{,"[btoi(out != nil)])
		out = append(out, p.b[m.key.start-1:m.val.end]...)
	}
	if out == nil {
		return nil
	}
	return append(out, '}')
}

// hosted tells whether a request has the server act on the world while it answers: any tool that is neither a function nor custom
// (hosted tools, MCP), Anthropic's mcp_servers, chat's web_search_options, OpenRouter's plugins. Asked twice, it would act twice.
func (s *scanner) hosted(members []member) bool {
	for _, name := range []string{"web_search_options", "mcp_servers", "plugins"} {
		if v := s.lookup(members, name); v.some() && !none(v.of(s.b)) {
			return true
		}
	}
	return s.hostedTool(s.lookup(members, "tools"))
}

func (s *scanner) hostedTool(tools span) bool {
	if !tools.some() || s.b[tools.start] != '[' {
		return false
	}
	var members []member
	for i := s.space(int(tools.start) + 1); s.b[i] != ']'; {
		end := 0
		if s.b[i] == '{' {
			members = members[:0]
			end = s.object(i, 2, &members)
			kind := s.lookup(members, "type").of(s.b)
			if name := text(kind); len(kind) > 0 && name != "function" && name != "custom" {
				return true
			}
		} else {
			end = s.value(i, 2)
		}
		if i = s.space(end); s.b[i] == ',' {
			i = s.space(i + 1)
		}
	}
	return false
}

func none(v []byte) bool {
	switch string(v) {
	case "null", "false", "[]":
		return true
	}
	return false
}

// InvalidLine is a line that is not run.
type InvalidLine struct {
	Index int // its entry
	Problem
	Op       string // its ID if it can be read and no other line has it, else line:<number>:<12 hex digits of its sum>
	CustomID []byte // its ID as it came, nil if it cannot be read
	Raw      []byte // the line; the beginning of one that is too long
}

// Invalid reads the invalid lines again, in the order of the file, and says what is wrong with each. It stops after an error.
func (f *File) Invalid(ix *Index, s *Settings) iter.Seq2[InvalidLine, error] {
	return func(yield func(InvalidLine, error) bool) {
		x := examiner{set: s, max: s.maxLine()}
		for i := range ix.n {
			if !ix.at(i).Invalid() {
				continue
			}
			l, err := f.invalid(ix, i, s, &x)
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

func (f *File) invalid(ix *Index, i int, s *Settings, x *examiner) (InvalidLine, error) {
	e := ix.at(i)
	raw, err := f.Raw(ix, i)
	if err != nil {
		return InvalidLine{}, err
	}
	l := InvalidLine{Index: i, Raw: raw, Op: lineOp(e), Problem: Problem{Line: int(e.Line)}}
	if e.flags&flagLong != 0 {
		l.Msg = fmt.Sprintf("the line is longer than --max-line-bytes %d", x.max)
		return l, nil
	}
	fault := x.p.parse(raw, s)
	if x.p.id.some() {
		l.CustomID = x.p.id.of(raw)
	}
	if e.flags&flagDuplicate != 0 {
		l.Msg, err = f.duplicateMsg(ix, i, s, &x.p)
		return l, err
	}
	if fault == nil {
		return InvalidLine{}, fmt.Errorf("line %d: %w", e.Line, ErrChanged)
	}
	l.Column, l.Msg = column(raw, fault.pos), fault.msg
	if x.p.id.some() && ix.first(ix.group(e.Hash)) == i {
		l.Op = text(quoteID(x.p.id.of(raw)))
	}
	return l, nil
}
