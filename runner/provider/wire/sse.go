package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// maxEvent bounds one event: the last one of the Responses API repeats the
// whole answer.
const maxEvent = 64 << 20

// Event is one event of a stream.
type Event struct {
	Data []byte // its data lines, joined; valid until the next event

	// Bare marks a JSON value that stands in the stream outside any event:
	// Gemini's and Ollama's way to say that something failed.
	Bare bool
}

// Events reads a stream of server-sent events (WHATWG HTML, 9.2). Lines end
// in LF or CRLF; comments and fields other than data are skipped.
type Events struct {
	in    *bufio.Reader
	line  []byte
	data  []byte
	fresh bool // nothing has been read yet
	alien bool // the first line that is no comment is no field: a text, not a stream
	known bool // that line has been seen
}

// NewEvents returns a reader of the events in r.
func NewEvents(r io.Reader) *Events {
	return &Events{in: bufio.NewReaderSize(r, 16<<10), fresh: true}
}

// Whole reports that what comes is no stream but one document, and returns
// it: a server may answer so although a stream was asked for. A document that
// is cut comes with the error.
func (e *Events) Whole() ([]byte, bool, error) {
	for {
		b, err := e.in.Peek(1)
		if err != nil {
			return nil, false, nil // the first event has the error
		}
		switch b[0] {
		case ' ', '\t', '\r', '\n', 0xef, 0xbb, 0xbf:
			_, _ = e.in.Discard(1)
		case '{', '[', '<':
			doc, err := io.ReadAll(e.in)
			return doc, true, err
		default:
			return nil, false, nil
		}
	}
}

// Next returns the next event that has data; io.EOF at the stream's end. An
// event that the end cuts short counts if its data is whole.
func (e *Events) Next() (Event, error) {
	e.data = e.data[:0]
	some := false
	for {
		line, err := e.readLine()
		if err != nil {
			if errors.Is(err, io.EOF) && some && (json.Valid(e.data) || string(e.data) == done) {
				return Event{Data: e.data}, nil
			}
			return Event{}, err
		}
		if len(line) == 0 {
			if some {
				return Event{Data: e.data}, nil
			}
			continue
		}
		switch line[0] {
		case ':':
			continue
		case '{', '[':
			return e.bare(line)
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if some {
				e.data = append(e.data, '\n')
			}
			if len(e.data)+len(value) > maxEvent {
				return Event{}, errEventSize()
			}
			e.data = append(e.data, value...)
			some = true
		case "event", "id", "retry":
		default:
			e.alien = e.alien || !e.known
		}
		e.known = true
	}
}

// bare reads the JSON value that begins with line. It is the last thing read.
func (e *Events) bare(line []byte) (Event, error) {
	dec := json.NewDecoder(io.MultiReader(bytes.NewReader(append(bytes.Clone(line), '\n')), io.LimitReader(e.in, maxEvent)))
	var v json.RawMessage
	if err := dec.Decode(&v); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			err = errNoJSON()
		}
		return Event{}, err
	}
	return Event{Data: v, Bare: true}, nil
}

// readLine returns the next line without its end; at the end of the stream
// what is left of one. The bytes are valid until the next call.
func (e *Events) readLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		part, err := e.in.ReadSlice('\n')
		if err == nil && len(e.line) == 0 {
			return e.trim(part), nil
		}
		if len(e.line)+len(part) > maxEvent {
			return nil, errEventSize()
		}
		e.line = append(e.line, part...)
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(e.line) > 0:
			return e.trim(e.line), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func (e *Events) trim(line []byte) []byte {
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	if e.fresh {
		e.fresh = false
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line
}

func errEventSize() error {
	return &provider.Error{Kind: provider.KindResponseTooLarge, Message: "an event of the stream passes 64 MiB"}
}

func errNoJSON() error {
	return &provider.Error{Kind: provider.KindBadContentType, Message: "the stream holds an event that is no JSON"}
}
