package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

// capNames are the members that cap the output of a request.
var capNames = [...]string{"max_tokens", "max_completion_tokens", "max_output_tokens"}

// LowerCap gives a request body whose output cap is at most most, with all other bytes as they are. A cap under any of its names is
// lowered where it stands; where there is none, one is put last under name. lowered is false, and the body the same, if its cap is as
// low already, or if it is no number, which is the server's to judge.
func LowerCap(body []byte, name string, most int64) (out []byte, lowered bool, err error) {
	members, object, err := membersOf(body)
	if err != nil {
		return nil, false, err
	}
	limit := strconv.AppendInt(nil, most, 10)
	capped := false
	for i := len(members) - 1; i >= 0; i-- { // from the back, so that places stay
		m := members[i]
		if !isCap(string(m.name(body))) {
			continue
		}
		value := m.val.of(body)
		n, numeric := number(value)
		null := string(value) == "null"
		capped = capped || !null
		if null && string(m.name(body)) == name || numeric && n > float64(most) {
			out = replace(pick(out, body), m.val, limit)
			capped, lowered = true, true
		}
	}
	if capped {
		return pick(out, body), lowered, nil
	}
	member := append(append(appendQuoted(nil, name), ':'), limit...)
	if len(members) > 0 {
		member = append([]byte{','}, member...)
	}
	end := object.end - 1
	return replace(pick(out, body), span{end, end}, member), true, nil
}

// NameCap gives a request body with its first output cap under another name and all other bytes as they are; a body without one stays
// as it is. Routes use it where Record.Capped, as providers call the cap by different names.
func NameCap(body []byte, name string) ([]byte, error) {
	members, _, err := membersOf(body)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		switch is := string(m.name(body)); {
		case !isCap(is):
		case is == name:
			return body, nil
		default:
			return replace(body, m.key, appendQuoted(nil, name)[1:len(name)+1]), nil
		}
	}
	return body, nil
}

func pick(edited, body []byte) []byte {
	if edited != nil {
		return edited
	}
	return body
}

// replace gives b with a part of it replaced; b stays as it is.
func replace(b []byte, part span, by []byte) []byte {
	out := make([]byte, 0, len(b)+len(by))
	out = append(out, b[:part.start]...)
	out = append(out, by...)
	return append(out, b[part.end:]...)
}

func isCap(name string) bool {
	for _, c := range capNames {
		if name == c {
			return true
		}
	}
	return false
}

func number(value []byte) (n float64, ok bool) {
	if len(value) == 0 || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(value), 64)
	return n, err == nil
}

// membersOf lists the members of a body and says where the object is.
func membersOf(body []byte) (members []member, object span, err error) {
	s := scanner{b: body}
	i := s.space(0)
	if i >= len(body) || body[i] != '{' {
		return nil, span{}, errors.New("the body is no JSON object")
	}
	end := s.object(i, 1, &members)
	if end < 0 {
		return nil, span{}, s.fault
	}
	return members, span{int32(i), int32(end)}, nil
}

// KeepsCap says that a body's output cap is bound to something else in it: Anthropic refuses a thinking budget that is not below the cap.
func KeepsCap(body []byte) bool {
	if !bytes.Contains(body, []byte("budget_tokens")) {
		return false
	}
	var b struct {
		Thinking struct {
			Budget json.Number `json:"budget_tokens"`
		} `json:"thinking"`
	}
	return json.Unmarshal(body, &b) == nil && b.Thinking.Budget != ""
}

// Cut shortens a field of plain lines.
type Cut struct {
	Field string
	Chars int64 // how many characters stay
}

// cutMark ends a text that was cut, so that neither model nor reader takes it for whole.
const cutMark = " [...]"

// Shortened is Record of a plain line some of whose fields are cut first: strings at the top of the line, such as one that the template
// puts into the prompt. Only the body differs from the line's own; cut names the fields that were longer, none if nothing was.
func (f *File) Shortened(ix *Index, i int, s *Settings, cuts []Cut) (body []byte, cut []Cut, err error) {
	raw, err := f.Raw(ix, i)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range cuts {
		if short, done := shorten(raw, c); done {
			raw, cut = short, append(cut, c)
		}
	}
	if cut == nil {
		return nil, nil, nil
	}
	x := f.examiner()
	defer f.idle.Put(x)
	var r Record
	err = x.record(ix, i, s, raw, &r)
	return r.Body, cut, err
}

// shorten cuts a string at the top of a line between two characters; an escape counts as the character that it stands for.
func shorten(line []byte, c Cut) (out []byte, done bool) {
	members, _, err := membersOf(line)
	if err != nil {
		return line, false
	}
	for _, m := range members {
		if string(m.name(line)) != c.Field || line[m.val.start] != '"' {
			continue
		}
		at, end := m.val.start+1, m.val.end-1
		for n := c.Chars; n > 0 && at < end; n-- {
			at += int32(charLen(line[at:end]))
		}
		if at >= end {
			return line, false
		}
		return replace(line, span{at, end}, []byte(cutMark)), true
	}
	return line, false
}

// charLen is how many bytes the first character of a JSON string takes.
func charLen(b []byte) int {
	if b[0] != '\\' {
		_, n := utf8.DecodeRune(b)
		return n
	}
	if len(b) < 2 || b[1] != 'u' || len(b) < 6 {
		return min(2, len(b))
	}
	// A pair of escapes is one character beyond the basic plane.
	if high, err := strconv.ParseUint(string(b[2:6]), 16, 16); err == nil && high >= 0xd800 && high < 0xdc00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if low, err := strconv.ParseUint(string(b[8:12]), 16, 16); err == nil && low >= 0xdc00 && low < 0xe000 {
			return 12
		}
	}
	return 6
}
