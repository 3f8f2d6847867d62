package estimate

import "encoding/binary"

// none is the rank of what is not a token. It is larger than every rank and
// leaves room for the six bits that merge packs below a rank.
const none = 1<<26 - 1

// shortSlot holds a token of up to 8 bytes, midSlot one of up to 16; bytes past
// the token's end are zero. A size of 0 marks a free slot.
type (
	shortSlot struct {
		key  uint64
		rank uint32
		size uint32
	}
	midSlot struct {
		lo, hi uint64
		rank   uint32
		size   uint32
	}
)

// rankTable finds the rank of a piece of text. It is read-only once built.
type rankTable struct {
	pairs      []uint32 // rank of each two-byte token, by its bytes, big-endian
	maybe      []uint64 // a bit for each hash that a token of 3 to 16 bytes has
	short      []shortSlot
	shortShift int
	mid        []midSlot
	midShift   int
	long       map[string]uint32

	chars, bounds []uint16 // see unit
}

// rank returns the rank of b[from:to], which is at least two bytes long, or
// none.
func (t *rankTable) rank(b []byte, from, to int) uint32 {
	n := to - from
	switch {
	case n <= 2:
		return t.pairs[int(b[from])<<8|int(b[from+1])]
	case n <= 8:
		key := load(b, from, n)
		h := shortHash(key, n)
		if t.maybe[maybeWord(h)]>>(h&63)&1 == 0 {
			return none
		}
		for i := h >> t.shortShift; ; i = (i + 1) & uint64(len(t.short)-1) {
			s := &t.short[i]
			if s.key == key && s.size == uint32(n) {
				return s.rank
			}
			if s.size == 0 {
				return none
			}
		}
	case n <= 16:
		lo, hi := binary.LittleEndian.Uint64(b[from:]), load(b, from+8, n-8)
		h := midHash(lo, hi, n)
		if t.maybe[maybeWord(h)]>>(h&63)&1 == 0 {
			return none
		}
		for i := h >> t.midShift; ; i = (i + 1) & uint64(len(t.mid)-1) {
			s := &t.mid[i]
			if s.lo == lo && s.hi == hi && s.size == uint32(n) {
				return s.rank
			}
			if s.size == 0 {
				return none
			}
		}
	case n <= maxToken:
		if r, ok := t.long[string(b[from:to])]; ok {
			return r
		}
	}
	return none
}

// maybeBits is the size of rankTable.maybe, as a power of two: 256 KiB, which
// stays in a core's own cache where the slots do not.
const maybeBits = 21

// maybeWord is the word of rankTable.maybe that has the bit of a hash.
func maybeWord(h uint64) uint64 { return h >> 6 & (1<<(maybeBits-6) - 1) }

// maxToken is the length of the longest token of any encoding, in bytes.
const maxToken = 128

// load returns the n <= 8 bytes of b at from, the first one lowest, the rest
// zero.
func load(b []byte, from, n int) uint64 {
	if from+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[from:]) & (1<<(8*uint(n)) - 1)
	}
	var v uint64
	for i := n - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[from+i])
	}
	return v
}

func shortHash(key uint64, n int) uint64 {
	h := (key ^ uint64(n)<<59) * 0x9E3779B97F4A7C15
	return h ^ h>>32
}

func midHash(lo, hi uint64, n int) uint64 {
	h := (lo ^ uint64(n)<<59) * 0x9E3779B97F4A7C15
	h = (h ^ h>>32 ^ hi) * 0xD6E8FEB86659FD93
	return h ^ h>>32
}
