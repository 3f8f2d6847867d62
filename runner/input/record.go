package input

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// Raw reads the bytes of an entry's line, without blanks around it, and checks that they are those of the pre-flight: ErrChanged if not.
// Of a line longer than MaxLineBytes it gives the beginning.
func (f *File) Raw(ix *Index, i int) ([]byte, error) {
	raw := make([]byte, ix.at(i).Length)
	return raw, f.read(raw, ix.at(i))
}

func (f *File) read(raw []byte, e *Entry) error {
	if n, err := f.f.ReadAt(raw, e.Offset); n < len(raw) && err != io.EOF {
		return fmt.Errorf("read line %d of %s: %w", e.Line, f.path, err)
	} else if n < len(raw) || xxhash.Sum64(raw) != e.Sum {
		return fmt.Errorf("line %d of %s: %w", e.Line, f.path, ErrChanged)
	}
	return nil
}

// Record reads an operation's line again and makes its request. s is the one of
// Preflight, or one that differs in what makes no line valid or invalid. Safe for concurrent use.
func (f *File) Record(ix *Index, i int, s *Settings) (r Record, err error) {
	x := f.examiner()
	defer func() {
		if p := recover(); p != nil {
			r.Op, err = ix.opAfter(i, x, &r), &Defect{p} // x is not used again
			r.Line = int(ix.at(i).Line)
			return
		}
		f.idle.Put(x)
	}()
	raw, err := f.Raw(ix, i)
	if err != nil {
		return Record{}, err
	}
	if err := x.record(ix, i, s, raw, &r); err != nil {
		return Record{}, err
	}
	r.Op = ix.opOf(i, x, r.Task)
	r.Digest = x.canon.digest(r.API, r.Model, r.Body)
	return r, nil
}

// Defect says that a line brought out a defect of the program: what it panicked with.
type Defect struct{ Panic any }

func (d *Defect) Error() string { return fmt.Sprintf("internal defect: %v", d.Panic) }

// opAfter is the operation ID of an entry over which Record panicked: its own if it was read that far, else one made of its line.
func (ix *Index) opAfter(i int, x *examiner, r *Record) (op string) {
	defer func() {
		if recover() != nil {
			op = lineOp(ix.at(i))
		}
	}()
	if r.Line == 0 {
		return lineOp(ix.at(i))
	}
	return ix.opOf(i, x, r.Task)
}

// Peek is Record for those who only look: fn gets the record without Op and Digest, in memory that is used again once fn returns.
func (f *File) Peek(ix *Index, i int, s *Settings, fn func(*Record)) error {
	x := f.examiner()
	defer f.idle.Put(x)
	e := ix.at(i)
	if cap(x.raw) < int(e.Length) || cap(x.raw) > maxKept {
		x.raw = make([]byte, e.Length)
	}
	raw := x.raw[:e.Length]
	if err := f.read(raw, e); err != nil {
		return err
	}
	if err := x.record(ix, i, s, raw, &x.seen); err != nil {
		return err
	}
	fn(&x.seen)
	return nil
}

// maxKept bounds the memory that is kept between two lines, in bytes.
const maxKept = 1 << 20

// examiner gives one that is idle, or a new one.
func (f *File) examiner() *examiner {
	if x, ok := f.idle.Get().(*examiner); ok {
		return x
	}
	return &examiner{}
}

// record makes the request of an entry whose bytes are raw. What names the line is in r before its request is.
func (x *examiner) record(ix *Index, i int, s *Settings, raw []byte, r *Record) error {
	if s.ready == nil {
		own := *s
		ready, err := s.prepare()
		if err != nil {
			return err
		}
		own.ready, s = ready, &own
	}
	e := ix.at(i)
	if e.flags&flagLong != 0 {
		return fmt.Errorf("line %d is longer than %d bytes", e.Line, s.maxLine())
	}
	p := &x.p
	if fault := p.parse(raw, s); fault != nil {
		return fmt.Errorf("line %d: %w", e.Line, fault)
	}
	*r = Record{
		Line: int(e.Line), Shape: p.shape, API: p.api, Model: p.model, Sum: e.Sum, Priority: p.priority,
		Task: text(p.given(fTask)), Tenant: text(p.given(fTenant)),
	}
	if p.id.some() {
		r.CustomID = bytes.Clone(p.id.of(raw)) // the line's own bytes must not outlive the body
	}
	r.Body, r.Never = p.request()
	r.Capped = p.capped
	r.Metadata = p.metadata()
	return nil
}

// request is the line's request, and whether it must not be sent twice.
func (p *parser) request() (body []byte, never bool) {
	switch p.shape {
	case Batch:
		body, never = p.withModel(p.at[fBody]), p.hosted(p.body)
	case AnthropicBatch:
		body, never = p.withModel(p.at[fParams]), p.hosted(p.params)
	case Raw:
		body, never = p.rawBody(), p.hosted(p.top)
	default:
		body, never = p.plainBody(), p.set.ready.hosted || p.hostedTool(p.at[fTools])
	}
	return body, never || p.given(fRetry) != nil
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

// metadata is what the result echoes.
func (p *parser) metadata() []byte {
	if p.has(fMetadata) {
		return bytes.Clone(p.raw(fMetadata))
	}
	if p.shape != Plain || p.made {
		return nil
	}
	var out []byte
	for _, m := range p.top {
		name := m.name(p.b)
		switch fieldOf(name) {
		case fields, fID, fCustomID, fMethod, fURL, fBody, fParams:
		default:
			continue
		}
		if p.id.some() && string(name) == p.idKey {
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
