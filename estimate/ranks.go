package estimate

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
)

// The rank files hold the tokens of an encoding in order of rank, each as one
// byte of length and its bytes; a length of 0 is a rank that is not in use.
// They are tiktoken-go-loader's ranks without the base64: 2.7 MB in place of
// 7.0 MB, and nothing to decode at the start. r50k_base is the beginning of
// p50k_base, whose last 24 ranks are runs of spaces.
//
//go:generate go test -run TestRankFiles -update
var (
	//go:embed ranks/o200k_base.ranks
	o200kRanks string
	//go:embed ranks/cl100k_base.ranks
	cl100kRanks string
	//go:embed ranks/p50k_base.ranks
	p50kRanks string
)

// Checksums of the rank files, verified each time one is loaded.
const (
	o200kSum  = "bac143fe7fe950090c6e4ed9a2f80de5412a92495758b52becbbe5a7eea25ecb"
	cl100kSum = "6bfd43f7b31b50b645b3228413547e662af1ae4801e9b192b9791680a71d650c"
	p50kSum   = "454dd285ca79936cc589d453cc0e373e9cdfd971d6cee74a0b8f349c518a60fc"
)

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

// loadRanks builds the table of the tokens ranked below limit. Its error is a
// damaged program: the ranks are part of the binary.
func loadRanks(name, data, sum string, limit uint32) (*rankTable, error) {
	if got := sha256.Sum256(bytesOf(data)); hex.EncodeToString(got[:]) != sum {
		return nil, fmt.Errorf("ranks of %s: checksum differs: the program file is damaged", name)
	}
	var short, mid, long int
	for i := 0; i < len(data); i += 1 + int(data[i]) {
		switch n := data[i]; {
		case n > 16:
			long++
		case n > 8:
			mid++
		case n > 2:
			short++
		}
	}
	t := &rankTable{
		pairs: make([]uint32, 1<<16),
		maybe: make([]uint64, 1<<(maybeBits-6)),
		long:  make(map[string]uint32, long),
	}
	for i := range t.pairs {
		t.pairs[i] = none
	}
	shortBits, midBits := bits.Len(uint(short+short/4)), bits.Len(uint(mid+mid/4))
	t.short, t.shortShift = make([]shortSlot, 1<<shortBits), 64-shortBits
	t.mid, t.midShift = make([]midSlot, 1<<midBits), 64-midBits
	var wide []ranked
	for i, rank := 0, uint32(0); i < len(data) && rank < limit; rank++ {
		n := int(data[i])
		token := data[i+1 : i+1+n]
		i += 1 + n
		if t.add(token, rank) && n > 1 {
			wide = append(wide, ranked{token, rank})
		}
	}
	t.findUnits(wide)
	return t, nil
}

// ranked is a token with its rank.
type ranked struct {
	token string
	rank  uint32
}

// add enters a token and reports whether it may have bytes that are not ASCII.
func (t *rankTable) add(token string, rank uint32) (wide bool) {
	n := len(token)
	var buf [16]byte
	copy(buf[:], token)
	lo, hi := binary.LittleEndian.Uint64(buf[:]), binary.LittleEndian.Uint64(buf[8:])
	switch {
	case n < 2: // every single byte is a token; its rank is never asked for
	case n == 2:
		t.pairs[int(buf[0])<<8|int(buf[1])] = rank
	case n <= 8:
		h := shortHash(lo, n)
		t.maybe[h>>6&(1<<(maybeBits-6)-1)] |= 1 << (h & 63)
		i := h >> t.shortShift
		for t.short[i].size != 0 {
			i = (i + 1) & uint64(len(t.short)-1)
		}
		t.short[i] = shortSlot{lo, rank, uint32(n)}
	case n <= 16:
		h := midHash(lo, hi, n)
		t.maybe[h>>6&(1<<(maybeBits-6)-1)] |= 1 << (h & 63)
		i := h >> t.midShift
		for t.mid[i].size != 0 {
			i = (i + 1) & uint64(len(t.mid)-1)
		}
		t.mid[i] = midSlot{lo, hi, rank, uint32(n)}
	default:
		t.long[token] = rank
	}
	return n > 16 || (lo|hi)&0x8080808080808080 != 0
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
		if t.maybe[h>>6&(1<<(maybeBits-6)-1)]>>(h&63)&1 == 0 {
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
		if t.maybe[h>>6&(1<<(maybeBits-6)-1)]>>(h&63)&1 == 0 {
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
