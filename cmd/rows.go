package cmd

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/llmbatch/llmbatch/runner/result"
)

// rowWriter prints result lines in one of the formats.
type rowWriter struct {
	format   string
	fields   []column
	terminal bool // out is one: what would drive it is escaped
	out      *bufio.Writer
	table    *csv.Writer
	record   []string
	buf      bytes.Buffer
	json     *json.Encoder // into buf
}

func newRowWriter(w io.Writer, terminal bool, format string, fields []column) (*rowWriter, error) {
	t := &rowWriter{format: format, fields: fields, terminal: terminal, out: bufio.NewWriterSize(w, 256<<10)}
	t.json = json.NewEncoder(&t.buf)
	t.json.SetEscapeHTML(false)
	if format != "csv" {
		return t, nil
	}
	t.table = csv.NewWriter(t.out)
	for _, c := range fields {
		t.record = append(t.record, t.safe(c.name))
	}
	return t, t.table.Write(t.record)
}

// write prints one line; raw is the line as it is stored, attempts nil unless
// they are to be added.
func (t *rowWriter) write(raw []byte, attempts []attempt) error {
	if t.format == "openai" && attempts == nil {
		return t.line(raw)
	}
	l, err := result.Decode(raw)
	if err != nil {
		return err
	}
	r := &row{Line: l, attempts: attempts}
	switch t.format {
	case "openai":
		return t.withAttempts(r)
	case "text":
		return t.line([]byte(oneLine(l)))
	case "csv":
		return t.csv(r)
	default:
		return t.object(r)
	}
}

func (t *rowWriter) safe(s string) string {
	if t.terminal {
		return clean(s)
	}
	return s
}

func (t *rowWriter) line(b []byte) error {
	if t.terminal {
		b = []byte(clean(string(b)))
	}
	if _, err := t.out.Write(b); err != nil {
		return err
	}
	return t.out.WriteByte('\n')
}

// withAttempts prints a whole line with the attempts as the last member of its
// llmbatch object, which Encode puts last.
func (t *rowWriter) withAttempts(r *row) error {
	t.buf.Reset()
	if err := t.json.Encode(r.attempts); err != nil {
		return err
	}
	b := bytes.TrimSuffix(r.Encode(), []byte("}}"))
	b = append(b, `,"`+attemptList+`":`...)
	b = append(b, bytes.TrimSpace(t.buf.Bytes())...)
	return t.line(append(b, "}}"...))
}

// object prints the fields as one flat JSON object, in their order.
func (t *rowWriter) object(r *row) error {
	t.buf.Reset()
	for i, c := range t.fields {
		t.buf.WriteByte("{,"[min(i, 1)])
		for _, part := range []struct {
			v   any
			end string
		}{{c.name, ":"}, {c.value(r), ""}} {
			if err := t.json.Encode(part.v); err != nil {
				return err
			}
			t.buf.Truncate(t.buf.Len() - 1) // the newline that Encode adds
			t.buf.WriteString(part.end)
		}
	}
	t.buf.WriteByte('}')
	return t.line(t.buf.Bytes())
}

func (t *rowWriter) csv(r *row) error {
	t.record = t.record[:0]
	for _, c := range t.fields {
		cell, err := t.cell(c.value(r))
		if err != nil {
			return err
		}
		t.record = append(t.record, t.safe(cell))
	}
	if len(t.record) == 1 && t.record[0] == "" {
		// An empty line is no record to those who read csv.
		t.table.Flush()
		return t.line([]byte(`""`))
	}
	return t.table.Write(t.record)
}

// cell writes a value as spreadsheets want it: strings bare, other JSON as it
// stands, nothing for what is not there.
func (t *rowWriter) cell(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case json.RawMessage:
		var s *string
		if json.Unmarshal(v, &s) != nil {
			return string(v), nil
		}
		if s == nil { // null
			return "", nil
		}
		return *s, nil
	default:
		t.buf.Reset()
		err := t.json.Encode(v)
		return strings.TrimSpace(t.buf.String()), err
	}
}

func (t *rowWriter) flush() error {
	if t.table != nil {
		if t.table.Flush(); t.table.Error() != nil {
			return t.table.Error()
		}
	}
	return t.out.Flush()
}

// oneLine takes the answer's text out of a line, on one line; of a failure its
// message.
func oneLine(l *result.Line) string {
	text := ""
	switch {
	case l.Error != nil:
		text = "error: " + l.Error.Code + ": " + l.Error.Message
	case l.Response != nil:
		text = answerText(l.Response.Body)
	}
	return strings.NewReplacer("\\", `\\`, "\n", `\n`, "\r", `\r`).Replace(text)
}

// answerText finds the text in an answer of any of the APIs; an answer
// without one (an embedding) is given as its JSON.
func answerText(body json.RawMessage) string {
	var a struct {
		Choices []struct {
			Text    string
			Message struct{ Content, Refusal *string }
		}
		Output []struct {
			Content []struct{ Text, Refusal string }
		}
	}
	if json.Unmarshal(body, &a) != nil {
		return string(body)
	}
	var text []string
	for _, c := range a.Choices {
		switch {
		case c.Message.Content != nil:
			text = append(text, *c.Message.Content)
		case c.Message.Refusal != nil:
			text = append(text, *c.Message.Refusal)
		case c.Text != "":
			text = append(text, c.Text)
		}
	}
	for _, o := range a.Output {
		for _, c := range o.Content {
			text = append(text, c.Text+c.Refusal)
		}
	}
	if text == nil {
		return string(body)
	}
	return strings.Join(text, "\n")
}
