package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// decoder reads rows. It hands out one copy of each short name that repeats from row to row.
type decoder struct {
	names map[string]string
}

// maxNames bounds the memory that names take when a file holds many different ones.
const maxNames = 1024

func newDecoder() *decoder { return &decoder{names: make(map[string]string)} }

// name returns b as a string, shared with earlier equal ones.
func (d *decoder) name(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(d.names) < maxNames && len(s) <= 64 {
		d.names[s] = s
	}
	return s
}

// field is one decoded field: v for kindVarint, b for kindBytes.
type field struct {
	number uint64
	v      uint64
	b      []byte
}

func (f *field) int() int64 { return int64(f.v>>1) ^ -int64(f.v&1) }

func (f *field) time() time.Time { return time.Unix(0, f.int()) }

// count returns a number that fits an int, whatever was in the file.
func (f *field) count() int { return int(max(math.MinInt32, min(math.MaxInt, f.int()))) }

// next cuts one field off b.
func next(b []byte) (f field, rest []byte, ok bool) {
	tag, n := binary.Uvarint(b)
	if n <= 0 {
		return field{}, nil, false
	}
	b = b[n:]
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return field{}, nil, false
	}
	b = b[n:]
	f.number = tag >> 1
	if tag&1 == kindVarint {
		f.v = v
		return f, b, true
	}
	if v > uint64(len(b)) {
		return field{}, nil, false
	}
	f.b = b[:v:v]
	return f, b[v:], true
}

// row decodes a sealed row into op, replacing all of it. op shares no memory with b. It never panics, and what it
// allocates is bounded by a constant factor of len(b).
func (d *decoder) row(op *Operation, key [8]byte, b []byte) error {
	b, err := unseal(b, key)
	if err != nil {
		return err
	}
	if b[0] != rowVersion {
		return fmt.Errorf("%w: row %d has version %d", ErrVersion, seqOf(key), b[0])
	}
	*op = Operation{Seq: seqOf(key)}
	b = b[1:]
	for len(b) > 0 {
		f, rest, ok := next(b)
		if !ok {
			return damaged("row %d is malformed", op.Seq)
		}
		b = rest
		if f.number == fieldAttempt {
			a := Attempt{Provider: op.Provider, Model: op.Model, RequestID: op.RequestID} // unless it says otherwise
			if !d.attempt(&a, f.b) {
				return damaged("row %d has a malformed attempt", op.Seq)
			}
			op.Attempts = append(op.Attempts, a)
			continue
		}
		d.set(op, &f)
	}
	return nil
}

// set stores one field. It is a flat table.
func (d *decoder) set(op *Operation, f *field) {
	switch f.number {
	case fieldID:
		op.ID = string(f.b)
	case fieldStatus:
		op.Status = Status(f.int())
	case fieldDigest:
		copy(op.Digest[:], f.b)
	case fieldSum:
		op.Sum = f.v
	case fieldLine:
		op.Line = f.count()
	case fieldKey:
		op.Key = string(f.b)
	case fieldIncarnation:
		op.Incarnation = f.count()
	case fieldProvider:
		op.Provider = d.name(f.b)
	case fieldModel:
		op.Model = d.name(f.b)
	case fieldNotBefore:
		op.NotBefore = f.time()
	case fieldRequestID:
		op.RequestID = string(f.b)
	case fieldInput:
		op.Usage.Input = f.int()
	case fieldOutput:
		op.Usage.Output = f.int()
	case fieldCached:
		op.Usage.Cached = f.int()
	case fieldReasoning:
		op.Usage.Reasoning = f.int()
	case fieldUsageKnown:
		op.Usage.Known = f.v != 0
	case fieldClass:
		op.Class = d.name(f.b)
	case fieldFinish:
		op.Finish = d.name(f.b)
	case fieldOffset:
		op.Offset = f.int()
	case fieldLength:
		op.Length = f.int()
	case fieldCopyOf:
		op.CopyOf = string(f.b)
	case fieldCreated:
		op.Created = f.time()
	case fieldFinished:
		op.Finished = f.time()
	case fieldLatency:
		op.LatencyMS = f.int()
	case fieldFromCache:
		op.FromCache = f.v != 0
	case fieldDegraded:
		op.Degraded = append(op.Degraded, d.name(f.b))
	}
}

func (d *decoder) attempt(a *Attempt, b []byte) bool {
	for len(b) > 0 {
		f, rest, ok := next(b)
		if !ok {
			return false
		}
		b = rest
		switch f.number {
		case attemptAt:
			a.At = f.time()
		case attemptProvider:
			a.Provider = d.name(f.b)
		case attemptModel:
			a.Model = d.name(f.b)
		case attemptStatus:
			a.StatusCode = f.count()
		case attemptClass:
			a.Class = d.name(f.b)
		case attemptRequestID:
			a.RequestID = string(f.b)
		case attemptRequests:
			a.Charge.Requests = f.int()
		case attemptTokens:
			a.Charge.Tokens = f.int()
		case attemptOutput:
			a.Charge.Output = f.int()
		case attemptSent:
			a.Sent = f.v != 0
		case attemptAnswerID:
			a.AnswerID = string(f.b)
		case attemptLookedUp:
			a.LookedUp = f.v != 0
		case attemptStreamed:
			a.Streamed = f.v != 0
		}
	}
	return true
}
