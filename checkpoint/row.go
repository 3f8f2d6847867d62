package checkpoint

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"
)

// A row is a version byte, fields, and a CRC-32C of all of that followed by the key. A field is a tag, number<<1|kind,
// and either a varint (kind 0) or a length and bytes (kind 1). Zero fields are left out and unknown ones are skipped,
// so that an older version reads what a newer one of the same row version wrote.
const (
	rowVersion  = 1
	checksumLen = 4

	kindVarint = 0
	kindBytes  = 1
)

// Field numbers of a row. Never reuse one.
const (
	fieldID = iota + 1
	fieldStatus
	fieldDigest
	fieldSum
	fieldLine
	fieldKey
	fieldIncarnation
	fieldProvider
	fieldModel
	fieldAttempt
	fieldNotBefore
	fieldRequestID
	fieldInput
	fieldOutput
	fieldCached
	fieldReasoning
	fieldUsageKnown
	fieldClass
	fieldFinish
	fieldOffset
	fieldLength
	fieldCopyOf
	fieldCreated
	fieldFinished
	fieldLatency
	fieldFromCache
	fieldDegraded
)

// Field numbers of an attempt inside a row. Never reuse one.
const (
	attemptAt = iota + 1
	attemptProvider
	attemptModel
	attemptStatus
	attemptClass
	attemptRequestID
	attemptRequests
	attemptTokens
	attemptOutput
	attemptSent
	attemptAnswerID
	attemptLookedUp
	attemptStreamed
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // made once, then shared

// appendRow appends op without its checksum, which needs the key: see seal.
func appendRow(b []byte, op *Operation) []byte {
	b = append(b, rowVersion)
	b = appendString(b, fieldID, op.ID)
	b = appendInt(b, fieldStatus, int64(op.Status))
	if op.Digest != [32]byte{} {
		b = appendString(b, fieldDigest, string(op.Digest[:]))
	}
	b = appendUint(b, fieldSum, op.Sum)
	b = appendInt(b, fieldLine, int64(op.Line))
	b = appendString(b, fieldKey, op.Key)
	b = appendInt(b, fieldIncarnation, int64(op.Incarnation))
	b = appendString(b, fieldProvider, op.Provider)
	b = appendString(b, fieldModel, op.Model)
	b = appendString(b, fieldRequestID, op.RequestID)
	attempt := make([]byte, 0, 192) // on the stack: one of most attempts fits
	for i := range op.Attempts {
		attempt = appendAttempt(attempt[:0], &op.Attempts[i], op)
		b = binary.AppendUvarint(b, fieldAttempt<<1|kindBytes)
		b = binary.AppendUvarint(b, uint64(len(attempt)))
		b = append(b, attempt...)
	}
	b = appendTime(b, fieldNotBefore, op.NotBefore)
	b = appendInt(b, fieldInput, op.Usage.Input)
	b = appendInt(b, fieldOutput, op.Usage.Output)
	b = appendInt(b, fieldCached, op.Usage.Cached)
	b = appendInt(b, fieldReasoning, op.Usage.Reasoning)
	b = appendBool(b, fieldUsageKnown, op.Usage.Known)
	b = appendString(b, fieldClass, op.Class)
	b = appendString(b, fieldFinish, op.Finish)
	b = appendInt(b, fieldOffset, op.Offset)
	b = appendInt(b, fieldLength, op.Length)
	b = appendString(b, fieldCopyOf, op.CopyOf)
	b = appendTime(b, fieldCreated, op.Created)
	b = appendTime(b, fieldFinished, op.Finished)
	b = appendInt(b, fieldLatency, op.LatencyMS)
	b = appendBool(b, fieldFromCache, op.FromCache)
	for _, what := range op.Degraded {
		b = appendString(b, fieldDegraded, what)
	}
	return b
}

// appendAttempt leaves out what is as in op, of which the fields that it compares stand before the attempts: most
// operations have one attempt.
func appendAttempt(b []byte, a *Attempt, op *Operation) []byte {
	b = appendTime(b, attemptAt, a.At)
	b = appendOther(b, attemptProvider, a.Provider, op.Provider)
	b = appendOther(b, attemptModel, a.Model, op.Model)
	b = appendInt(b, attemptStatus, int64(a.StatusCode))
	b = appendString(b, attemptClass, a.Class)
	b = appendOther(b, attemptRequestID, a.RequestID, op.RequestID)
	b = appendInt(b, attemptRequests, a.Charge.Requests)
	b = appendInt(b, attemptTokens, a.Charge.Tokens)
	b = appendInt(b, attemptOutput, a.Charge.Output)
	b = appendBool(b, attemptSent, a.Sent)
	b = appendString(b, attemptAnswerID, a.AnswerID)
	b = appendBool(b, attemptLookedUp, a.LookedUp)
	return appendBool(b, attemptStreamed, a.Streamed)
}

// seal appends the checksum.
func seal(row []byte, key [8]byte) []byte {
	return binary.LittleEndian.AppendUint32(row, checksum(row, key))
}

// checksum is that of a row. The key is part of it, so that a row under another row's key is seen.
func checksum(row []byte, key [8]byte) uint32 {
	return crc32.Update(crc32.Checksum(row, castagnoli()), castagnoli(), key[:])
}

// unseal returns the row without its checksum.
func unseal(row []byte, key [8]byte) ([]byte, error) {
	if len(row) < 1+checksumLen {
		return nil, damaged("row %d is cut", seqOf(key))
	}
	body, tail := row[:len(row)-checksumLen], row[len(row)-checksumLen:]
	if checksum(body, key) != binary.LittleEndian.Uint32(tail) {
		return nil, damaged("row %d fails its checksum", seqOf(key))
	}
	return body, nil
}

func keyOf(seq uint64) (key [8]byte) {
	binary.BigEndian.PutUint64(key[:], seq)
	return key
}

func seqOf(key [8]byte) uint64 { return binary.BigEndian.Uint64(key[:]) }

func appendUint(b []byte, field int, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(field)<<1|kindVarint)
	return binary.AppendUvarint(b, v)
}

// appendInt writes a signed number in zigzag form.
func appendInt(b []byte, field int, v int64) []byte {
	return appendUint(b, field, uint64(v)<<1^uint64(v>>63))
}

func appendBool(b []byte, field int, v bool) []byte {
	if !v {
		return b
	}
	return appendUint(b, field, 1)
}

func appendString(b []byte, field int, s string) []byte { return appendOther(b, field, s, "") }

// appendOther writes a string, also an empty one, unless it is usual.
func appendOther(b []byte, field int, s, usual string) []byte {
	if s == usual {
		return b
	}
	b = binary.AppendUvarint(b, uint64(field)<<1|kindBytes)
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// appendTime writes nanoseconds since 1970. Moments outside of what 64 bits hold (1677 to 2262) are clamped.
func appendTime(b []byte, field int, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	ns := t.UnixNano()
	switch year := t.Year(); {
	case year > 2261:
		ns = math.MaxInt64
	case year < 1678:
		ns = math.MinInt64
	}
	if ns == 0 {
		ns = 1 // 1970 to the nanosecond is not "none"
	}
	return appendInt(b, field, ns)
}
