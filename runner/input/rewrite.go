package input

import (
	"bytes"
	"errors"
	"slices"
)

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
		return nil, errors.New("the body is no JSON object")
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
