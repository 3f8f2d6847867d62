package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// An entry is three parts: a line with the form's name and the SHA-256 of all
// that follows, a line of JSON (head), and the bytes of both bodies as they are.
const magic = "llmbatch-cache 1 "

// head is the second line.
type head struct {
	Key string `json:"key"` // hex; a file under another name is no entry
	*Entry
	BodyBytes   int `json:"body_bytes"`
	NativeBytes int `json:"native_bytes"`
}

func encode(k Key, e *Entry) []byte {
	line, err := json.Marshal(head{Key: hex.EncodeToString(k[:]), Entry: e, BodyBytes: len(e.Body), NativeBytes: len(e.Native)})
	if err != nil {
		line = nil // a time beyond the year 9999: no entry, as Get will find
	}
	sum := sha256.New()
	for _, part := range [][]byte{line, {'\n'}, e.Body, e.Native} {
		sum.Write(part)
	}
	b := make([]byte, 0, len(magic)+2*sha256.Size+2+len(line)+e.Size())
	b = append(b, magic...)
	b = hex.AppendEncode(b, sum.Sum(nil))
	b = append(b, '\n')
	b = append(b, line...)
	b = append(b, '\n')
	b = append(b, e.Body...)
	return append(b, e.Native...)
}

// decode reads an entry; its bodies are parts of b. It never panics.
func decode(k Key, b []byte) (*Entry, error) {
	b, ok := bytes.CutPrefix(b, []byte(magic))
	sum, rest, whole := bytes.Cut(b, []byte{'\n'})
	if !ok || !whole {
		return nil, fmt.Errorf("%w: it does not begin as one", ErrDamaged)
	}
	if got := sha256.Sum256(rest); hex.EncodeToString(got[:]) != string(sum) {
		return nil, fmt.Errorf("%w: its checksum differs", ErrDamaged)
	}
	line, bodies, _ := bytes.Cut(rest, []byte{'\n'})
	h := head{Entry: &Entry{}}
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if h.Key != hex.EncodeToString(k[:]) {
		return nil, fmt.Errorf("%w: it is another request's", ErrDamaged)
	}
	n := h.BodyBytes
	if n < 0 || n > len(bodies) || h.NativeBytes != len(bodies)-n {
		return nil, fmt.Errorf("%w: its lengths differ", ErrDamaged)
	}
	h.Body = bodies[:n:n]
	if n < len(bodies) {
		h.Native = bodies[n:]
	}
	return h.Entry, nil
}
