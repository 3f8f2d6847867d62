package estimate

import (
	"bytes"
	"encoding/binary"
)

// pieceCache remembers the counts of pieces met before. Words come back, so it
// answers for nine pieces of ten in most texts. Each slot holds the last piece
// that fell to it, whole: a count is never that of another piece with the same
// hash.
type pieceCache struct {
	short [1 << shortCacheBits]cachedShort
	long  [1 << longCacheBits]cachedLong
}

const (
	shortCacheBits = 15
	longCacheBits  = 13
	longCacheMax   = 124 // longest piece that is remembered, in bytes
)

// cachedShort is a piece of up to 16 bytes, padded with zeros.
type cachedShort struct {
	lo, hi uint64
	size   uint8 // 0 marks a free slot
	tokens uint8
}

// cachedLong is a piece of 17 to longCacheMax bytes.
type cachedLong struct {
	size   uint8
	tokens uint8
	text   [longCacheMax]byte
}

// shortSlot returns the slot of a piece of up to 16 bytes; found says that it
// holds this very piece, else the slot is the caller's to fill in tokens.
func (c *pieceCache) shortSlot(b []byte, from, n int) (s *cachedShort, found bool) {
	var lo, hi uint64
	if n <= 8 {
		lo = load(b, from, n)
	} else {
		lo, hi = binary.LittleEndian.Uint64(b[from:]), load(b, from+8, n-8)
	}
	s = &c.short[midHash(lo, hi, n)>>(64-shortCacheBits)]
	if s.lo == lo && s.hi == hi && s.size == uint8(n) {
		return s, true
	}
	s.lo, s.hi, s.size = lo, hi, uint8(n)
	return s, false
}

// longSlot does the same for a piece of 17 to longCacheMax bytes.
func (c *pieceCache) longSlot(b []byte, from, n int) (s *cachedLong, found bool) {
	p := b[from : from+n]
	h := uint64(n)
	for i := 0; i+8 <= n; i += 8 {
		h = (h ^ binary.LittleEndian.Uint64(p[i:])) * 0x9E3779B97F4A7C15
		h ^= h >> 32
	}
	h = (h ^ binary.LittleEndian.Uint64(p[n-8:])) * 0xD6E8FEB86659FD93
	s = &c.long[h>>(64-longCacheBits)]
	if s.size == uint8(n) && bytes.Equal(s.text[:n], p) {
		return s, true
	}
	s.size = uint8(n)
	copy(s.text[:], p)
	return s, false
}
