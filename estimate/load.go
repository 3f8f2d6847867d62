package estimate

import (
	"crypto/sha256"
	_ "embed"
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
// are sorted by the upper byte of their hashes before they are entered: their
// slots are then filled in the order of memory, which halves the time of the
// whole start.
type loader struct {
	*rankTable
	data   []byte
	sorted []shortSlot
	next   [257]int // where the next token with an upper byte goes in sorted
	wide   []ranked // tokens that may have bytes that are not ASCII
}

// ranked is a token with its rank.
type ranked struct {
	from uint32 // offset of its length in the rank file
	rank uint32
}

// loadRanks builds the table of the tokens ranked below limit. Its error is a
// damaged program: the ranks are part of the binary.
func loadRanks(name, data, sum string, limit uint32) (*rankTable, error) {
	if got := sha256.Sum256(bytesOf(data)); hex.EncodeToString(got[:]) != sum {
		return nil, fmt.Errorf("ranks of %s: checksum differs: the program file is damaged", name)
	}
	l := loader{rankTable: &rankTable{}, data: bytesOf(data)}
	l.measure()
	for i, rank := 0, uint32(0); i < len(data) && rank < limit; rank++ {
		l.add(i, rank)
		i += 1 + int(data[i])
	}
	for _, s := range l.sorted {
		if s.size > 0 { // free where limit left tokens out
			l.addShort(s)
		}
	}
	l.findUnits(l.data, l.wide)
	return l.rankTable, nil
}

// measure makes the tables in the sizes that the tokens need.
func (l *loader) measure() {
	var short, mid, long int
	for i := 0; i < len(l.data); i += 1 + int(l.data[i]) {
		switch n := int(l.data[i]); {
		case n > 16:
			long++
		case n > 8:
			mid++
		case n > 2:
			short++
			l.next[shortHash(load(l.data, i+1, n), n)>>56+1]++
		}
	}
	for i := range 256 {
		l.next[i+1] += l.next[i]
	}
	l.sorted = make([]shortSlot, short)
	l.wide = make([]ranked, 0, short)
	shortBits, midBits := bits.Len(uint(short+short/4)), bits.Len(uint(mid+mid/4))
	l.short, l.shortShift = make([]shortSlot, 1<<shortBits), 64-shortBits
	l.mid, l.midShift = make([]midSlot, 1<<midBits), 64-midBits
	l.long = make(map[string]uint32, long)
	l.maybe = make([]uint64, 1<<(maybeBits-6))
	l.pairs = make([]uint32, 1<<16)
	for i := range l.pairs {
		l.pairs[i] = none
	}
}

// add enters the token whose length stands at data[i], or puts it into sorted.
func (l *loader) add(i int, rank uint32) {
	n, from := int(l.data[i]), i+1
	if n < 2 { // every single byte is a token, whose rank is never asked for
		return
	}
	lo, hi := load(l.data, from, min(n, 8)), uint64(0)
	if n > 8 {
		hi = load(l.data, from+8, min(n-8, 8))
	}
	if n > 16 || (lo|hi)&0x8080808080808080 != 0 {
		l.wide = append(l.wide, ranked{uint32(i), rank})
	}
	switch {
	case n == 2:
		l.pairs[int(l.data[from])<<8|int(l.data[from+1])] = rank
	case n <= 8:
		k := &l.next[shortHash(lo, n)>>56]
		l.sorted[*k] = shortSlot{lo, rank, uint32(n)}
		*k++
	case n <= 16:
		h := midHash(lo, hi, n)
		l.maybe[maybeWord(h)] |= 1 << (h & 63)
		k := h >> l.midShift
		for l.mid[k].size != 0 {
			k = (k + 1) & uint64(len(l.mid)-1)
		}
		l.mid[k] = midSlot{lo, hi, rank, uint32(n)}
	default:
		l.long[string(l.data[from:from+n])] = rank
	}
}

func (l *loader) addShort(s shortSlot) {
	h := shortHash(s.key, int(s.size))
	l.maybe[maybeWord(h)] |= 1 << (h & 63)
	k := h >> l.shortShift
	for l.short[k].size != 0 {
		k = (k + 1) & uint64(len(l.short)-1)
	}
	l.short[k] = s
}
