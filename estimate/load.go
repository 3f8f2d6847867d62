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

// loader fills a rankTable. Tokens of up to eight bytes, three quarters of all,
// are collected first, so that their slots can be filled in the order of memory.
type loader struct {
	*rankTable
	tokens []shortSlot
	wide   []ranked
}

// ranked is a token with its rank.
type ranked struct {
	token string
	rank  uint32
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
	shortBits, midBits := bits.Len(uint(short+short/4)), bits.Len(uint(mid+mid/4))
	l := loader{
		rankTable: &rankTable{
			pairs:      make([]uint32, 1<<16),
			maybe:      make([]uint64, 1<<(maybeBits-6)),
			short:      make([]shortSlot, 1<<shortBits),
			shortShift: 64 - shortBits,
			mid:        make([]midSlot, 1<<midBits),
			midShift:   64 - midBits,
			long:       make(map[string]uint32, long),
		},
		tokens: make([]shortSlot, 0, short),
		wide:   make([]ranked, 0, short),
	}
	for i := range l.pairs {
		l.pairs[i] = none
	}
	for i, rank := 0, uint32(0); i < len(data) && rank < limit; rank++ {
		n := int(data[i])
		l.add(data[i+1:i+1+n], rank)
		i += 1 + n
	}
	l.addShort()
	l.findUnits(l.wide)
	return l.rankTable, nil
}

// add enters a token, or notes it for addShort.
func (l *loader) add(token string, rank uint32) {
	n := len(token)
	if n < 2 { // every single byte is a token, whose rank is never asked for
		return
	}
	var buf [16]byte
	copy(buf[:], token)
	lo, hi := binary.LittleEndian.Uint64(buf[:]), binary.LittleEndian.Uint64(buf[8:])
	if n > 16 || (lo|hi)&0x8080808080808080 != 0 {
		l.wide = append(l.wide, ranked{token, rank})
	}
	switch {
	case n == 2:
		l.pairs[int(buf[0])<<8|int(buf[1])] = rank
	case n <= 8:
		l.tokens = append(l.tokens, shortSlot{lo, rank, uint32(n)})
	case n <= 16:
		h := midHash(lo, hi, n)
		l.maybe[maybeWord(h)] |= 1 << (h & 63)
		i := h >> l.midShift
		for l.mid[i].size != 0 {
			i = (i + 1) & uint64(len(l.mid)-1)
		}
		l.mid[i] = midSlot{lo, hi, rank, uint32(n)}
	default:
		l.long[token] = rank
	}
}

// addShort enters the tokens of up to eight bytes. It sorts them by the upper
// bits of their hashes first, which halves the time of the whole start: entered
// as they come, each of them waits for memory.
func (l *loader) addShort() {
	var next [257]int
	for _, s := range l.tokens {
		next[shortHash(s.key, int(s.size))>>56+1]++
	}
	for i := range 256 {
		next[i+1] += next[i]
	}
	sorted := make([]shortSlot, len(l.tokens))
	for _, s := range l.tokens {
		n := &next[shortHash(s.key, int(s.size))>>56]
		sorted[*n] = s
		*n++
	}
	for _, s := range sorted {
		h := shortHash(s.key, int(s.size))
		l.maybe[maybeWord(h)] |= 1 << (h & 63)
		i := h >> l.shortShift
		for l.short[i].size != 0 {
			i = (i + 1) & uint64(len(l.short)-1)
		}
		l.short[i] = s
	}
}
