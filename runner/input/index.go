package input

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Entry is what the index keeps of a line that is not blank: 48 bytes. With the order by hash that makes 53 bytes a line.
type Entry struct {
	Offset   int64    // of the line's first byte that is no blank
	Sum      uint64   // xxhash of the Length bytes from there
	Hash     [16]byte // of the operation ID; of its part before :k for a line without an ID
	Length   uint32   // bytes without blanks and line end; at most MaxLineBytes
	Line     uint32   // physical line, from 1
	Priority Priority
	flags    uint8
	Lot      uint16 // below Lots: the same for all lines of one task that ask for one model, and as a rule another for others
}

// Lots is how many lots there are.
const Lots = 1 << 12

const (
	flagInvalid      = 1 << iota // is not run
	flagDuplicate                // invalid because its ID was used before
	flagDerived                  // has no ID: the operation ID is made of the line's content
	flagHashed                   // Hash is set
	flagLooksDerived             // the ID that it gives itself has the form of a derived one
	flagLong                     // longer than MaxLineBytes: Length and Sum are those of its beginning
	flagTwin                     // its hash is another line's too
)

// Invalid tells whether the line has a fault; it is no operation then.
func (e Entry) Invalid() bool { return e.flags&flagInvalid != 0 }

const (
	chunkBits = 14 // entries of a chunk: 786 KB, so that growing copies nothing and wastes little
	chunkSize = 1 << chunkBits
)

// Index finds lines by their place and by their operation ID. It is not changed after Preflight: safe for concurrent use.
type Index struct {
	chunks [][]Entry
	n      int
	perm   []uint32 // entries with a hash, by bucket, then hash, then place
	starts []uint32 // of the buckets in perm
	shift  uint     // from a hash's first 64 bits to its bucket
	looks  bool     // some line has flagLooksDerived
}

// Len is the number of entries: lines that are not blank, invalid ones included, in the order of the file.
func (ix *Index) Len() int { return ix.n }

// Entry is the ith entry. It panics outside [0, Len).
func (ix *Index) Entry(i int) Entry { return *ix.at(i) }

func (ix *Index) at(i int) *Entry { return &ix.chunks[i>>chunkBits][i&(chunkSize-1)] }

func (ix *Index) add(e Entry) {
	if ix.n&(chunkSize-1) == 0 {
		ix.chunks = append(ix.chunks, make([]Entry, 0, chunkSize))
	}
	last := &ix.chunks[len(ix.chunks)-1]
	*last = append(*last, e)
	ix.looks = ix.looks || e.flags&flagLooksDerived != 0
	ix.n++
}

// Forget gives back memory of the entries before n. They must not be asked for again, and nothing be looked up by ID.
func (ix *Index) Forget(n int) {
	ix.perm, ix.starts = nil, nil
	for c := n>>chunkBits - 1; c >= 0 && ix.chunks[c] != nil; c-- {
		ix.chunks[c] = nil
	}
}

// Operations are the entries that are not invalid, in the order of the file.
func (ix *Index) Operations() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range ix.n {
			if !ix.at(i).Invalid() && !yield(i) {
				return
			}
		}
	}
}

// Find gives the entry of an operation ID, which may be that of an invalid line.
func (ix *Index) Find(op string) (i int, ok bool) {
	group := ix.group(idHash(op))
	if len(group) > 0 {
		i = ix.first(group)
		if !ix.at(i).Invalid() {
			return i, true
		}
	}
	// A line without an ID goes ahead of one that is invalid because it took what that one is called by.
	if j, ok := ix.findDerived(op); ok {
		return j, true
	}
	if len(group) > 0 {
		return i, true
	}
	return ix.findLine(op)
}

// Cursor finds what Find does, and sooner where operation IDs come about in the order of the file: a search in an index of
// hundreds of megabytes waits for memory several times. It is not safe for concurrent use.
type Cursor struct {
	ix   *Index
	next int // the entry after the one that was found last
}

// Cursor returns one that stands at the first entry.
func (ix *Index) Cursor() *Cursor { return &Cursor{ix: ix} }

// reach is how many entries a cursor looks at ahead of a search.
const reach = 8

// Find is Index.Find.
func (c *Cursor) Find(op string) (i int, ok bool) {
	hash, k, derived := derivedForm(op)
	kind := uint8(flagHashed | flagDerived)
	if !derived {
		hash, kind = idHash(op), flagHashed
	}
	if k == 0 && !(derived && c.ix.looks) {
		for i := c.next; i < min(c.next+reach, c.ix.n); i++ {
			if e := c.ix.at(i); e.Hash == hash && e.flags&(flagHashed|flagDerived|flagTwin) == kind {
				c.next = i + 1
				return i, true
			}
		}
	}
	if i, ok = c.ix.Find(op); ok {
		c.next = i + 1
	}
	return i, ok
}

// derivedForm takes task:<64 hex digits>:<k> apart.
func derivedForm(op string) (hash [16]byte, k int, ok bool) {
	end := strings.LastIndexByte(op, ':')
	if end < 66 || op[end-65] != ':' {
		return hash, 0, false
	}
	sum, err := hex.DecodeString(op[end-64 : end])
	k, notK := strconv.Atoi(op[end+1:])
	if err != nil || notK != nil || strconv.Itoa(k) != op[end+1:] || k < 0 {
		return hash, 0, false
	}
	return [16]byte(sum[:16]), k, true
}

func (ix *Index) findDerived(op string) (int, bool) {
	hash, k, ok := derivedForm(op)
	if !ok {
		return 0, false
	}
	if group := ix.group(hash); k < len(group) {
		return int(group[k]), true
	}
	return 0, false
}

// findLine finds a line by the ID that lineOp gives it, whether or not it is invalid now.
func (ix *Index) findLine(op string) (int, bool) {
	line, _, _ := strings.Cut(strings.TrimPrefix(op, "line:"), ":")
	n, err := strconv.ParseUint(line, 10, 32)
	if err != nil {
		return 0, false
	}
	lo, hi := 0, ix.n
	for lo < hi {
		if mid := (lo + hi) / 2; uint64(ix.at(mid).Line) < n {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < ix.n && lineOp(ix.at(lo)) == op {
		return lo, true
	}
	return 0, false
}

// lineOp is the operation ID of an invalid line that has none of its own.
func lineOp(e *Entry) string { return fmt.Sprintf("line:%d:%012x", e.Line, e.Sum>>16) }

// Outgrown says that an operation ID is one that its entry had as an invalid line, and that the line is valid now: it goes by an ID
// of its own, or its content's.
func (ix *Index) Outgrown(i int, op string) bool {
	return strings.HasPrefix(op, "line:") && !ix.at(i).Invalid() && op == lineOp(ix.at(i))
}

// first is the entry that an ID used in several lines belongs to: the one that runs, else the first.
func (ix *Index) first(group []uint32) int {
	for _, i := range group {
		if !ix.at(int(i)).Invalid() {
			return int(i)
		}
	}
	return int(group[0])
}

// idHash is the hash of an operation ID that a line gives itself. 128 bits of sha256 are taken for equality: nobody can make two IDs
// that share them. A line without an ID has the first 128 bits of its canonical form's sum, which its operation ID shows; that form
// begins with {, so that no ID hashes to it.
func idHash(op string) [16]byte {
	var buf [160]byte
	sum := sha256.Sum256(append(append(buf[:0], "id "...), op...))
	return [16]byte(sum[:16])
}

func high64(h *[16]byte) uint64 {
	return uint64(h[0])<<56 | uint64(h[1])<<48 | uint64(h[2])<<40 | uint64(h[3])<<32 | uint64(h[4])<<24 | uint64(h[5])<<16 | uint64(h[6])<<8 | uint64(h[7])
}

// sort makes perm: entries are dealt to about n/4 buckets by their hash's first bits, and each bucket is sorted.
func (ix *Index) sort() {
	width := max(bits.Len(uint(ix.n))-3, 1)
	ix.shift = uint(64 - width)
	ix.starts = make([]uint32, 1<<width+1)
	total := uint32(0)
	for i := range ix.n {
		if e := ix.at(i); e.flags&flagHashed != 0 {
			ix.starts[high64(&e.Hash)>>ix.shift+1]++
			total++
		}
	}
	for b := 1; b < len(ix.starts); b++ {
		ix.starts[b] += ix.starts[b-1]
	}
	ix.perm = make([]uint32, total)
	for i := range ix.n {
		if e := ix.at(i); e.flags&flagHashed != 0 {
			next := &ix.starts[high64(&e.Hash)>>ix.shift]
			ix.perm[*next] = uint32(i)
			*next++
		}
	}
	copy(ix.starts[1:], ix.starts) // each is at its bucket's end now, which is where the next one starts
	ix.starts[0] = 0
	for b := range len(ix.starts) - 1 {
		bucket := ix.perm[ix.starts[b]:ix.starts[b+1]]
		if len(bucket) > 1 {
			slices.SortFunc(bucket, ix.compare)
		}
	}
}

func (ix *Index) compare(x, y uint32) int {
	if c := bytes.Compare(ix.at(int(x)).Hash[:], ix.at(int(y)).Hash[:]); c != 0 {
		return c
	}
	return cmp.Compare(x, y)
}

// group gives the entries of one hash, in the order of the file.
func (ix *Index) group(h [16]byte) []uint32 {
	if len(ix.perm) == 0 {
		return nil
	}
	b := high64(&h) >> ix.shift
	bucket := ix.perm[ix.starts[b]:ix.starts[b+1]]
	from, found := slices.BinarySearchFunc(bucket, h, func(i uint32, h [16]byte) int { return bytes.Compare(ix.at(int(i)).Hash[:], h[:]) })
	if !found {
		return nil
	}
	size, _ := slices.BinarySearchFunc(bucket[from:], h, func(i uint32, h [16]byte) int {
		if ix.at(int(i)).Hash == h {
			return -1
		}
		return 1
	})
	return bucket[from : from+size]
}

// markDuplicates flags all but the first valid line of each ID and gives them in the order of the file.
func (ix *Index) markDuplicates() []uint32 {
	var dups []uint32
	for from := 0; from < len(ix.perm); {
		head := ix.at(int(ix.perm[from]))
		to := from + 1
		for to < len(ix.perm) && ix.at(int(ix.perm[to])).Hash == head.Hash {
			to++
		}
		seen := false
		for _, i := range ix.perm[from:to] {
			if to > from+1 {
				ix.at(int(i)).flags |= flagTwin
			}
			switch e := ix.at(int(i)); {
			case e.flags&(flagDerived|flagInvalid) != 0:
			case seen:
				e.flags |= flagInvalid | flagDuplicate
				dups = append(dups, i)
			default:
				seen = true
			}
		}
		from = to
	}
	slices.Sort(dups)
	return dups
}
