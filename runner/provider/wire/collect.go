package wire

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/llmbatch/llmbatch/runner/provider"
)

// done is the last event's data in OpenAI's streams.
const done = "[DONE]"

// Assembler puts the events of one answer together.
type Assembler interface {
	// Add takes the data of the next event, valid JSON, which it must not
	// keep, and reports whether the answer is over.
	Add(data json.RawMessage) (over bool)
	// Answer returns the answer in the API's shape without streams; ok is
	// false as long as the provider's own terminator has not come.
	Answer() (body []byte, ok bool)
}

// Collect reads a stream until its answer is over. Complete is what the
// assembler says is so: the end of the stream proves nothing by itself, and
// takes nothing from an answer whose terminator has come. A stream's bare JSON
// value, and a document in place of a stream, are returned as they stand, for
// the one who reads answers to judge.
func Collect(r io.Reader, a Assembler) ([]byte, error) {
	events := NewEvents(r)
	if doc, whole, err := events.Whole(); whole {
		return doc, err
	}
	for {
		ev, err := events.Next()
		switch {
		case err != nil:
			if body, ok := a.Answer(); ok {
				return body, nil
			}
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
				if events.alien {
					err = &provider.Error{Kind: provider.KindBadContentType, Message: "the answer is neither a stream nor JSON"}
				}
			}
			return nil, err
		case ev.Bare:
			return ev.Data, nil
		case string(ev.Data) == done:
			body, ok := a.Answer()
			if !ok {
				return nil, io.ErrUnexpectedEOF
			}
			return body, nil
		case !json.Valid(ev.Data):
			return nil, errNoJSON()
		}
		if a.Add(ev.Data) {
			body, ok := a.Answer()
			if !ok {
				return nil, io.ErrUnexpectedEOF
			}
			return body, nil
		}
	}
}
