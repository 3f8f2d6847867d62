package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"unicode/utf8"
)

// bbolt trusts its pages: a damaged one makes it panic, read outside of the file's memory, or, if the list of free
// pages is damaged, overwrite pages in use later. verify therefore reads the whole file once before bbolt does, and
// checks all that bbolt relies on. It also brings the file into the page cache, which bbolt's random reads of a cold
// file do far more slowly. The layout is that of bbolt's internal/common package (page.go, meta.go, bucket.go).
const (
	pageHeader    = 16 // id u64, flags u16, count u16, overflow u32
	bucketHeader  = 16 // root page u64, sequence u64
	elementSize   = 16 // leaf: flags, pos, ksize, vsize u32; branch: pos, ksize u32, page u64
	metaLen       = 64
	metaSumOffset = 56

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10
	leafBucket   = 0x01

	metaMagic   = 0xED0CDAED
	metaVersion = 2

	maxDepth = 64 // of a tree: 2^64 keys at two a page
)

// metaPage is the part of bbolt's meta page that verify needs.
type metaPage struct {
	pageSize uint32
	root     uint64
	freelist uint64
	pages    uint64 // high water mark
	txid     uint64
}

// keyRange says which keys a bucket holds.
type keyRange struct {
	count       int
	first, last []byte
}

// contents is what verify found.
type contents struct {
	badMeta bool // one of the two meta pages is damaged: the last commit may be lost
	buckets map[string]keyRange
}

type verifier struct {
	r       io.ReaderAt
	meta    metaPage
	seen    []uint64 // one bit a page that the trees or the list of free pages use
	scratch []byte   // page buffer that is not in use
}

// verify checks a file of the given size. Its error is ErrDamaged, or one of reading.
func verify(r io.ReaderAt, size int64) (contents, error) {
	meta, bad, err := readMeta(r, size)
	if err != nil {
		return contents{}, err
	}
	if meta.pages > uint64(size)/uint64(meta.pageSize) {
		return contents{}, damaged("the file is cut: %d bytes of %d", size, meta.pages*uint64(meta.pageSize))
	}
	v := &verifier{r: r, meta: meta, seen: make([]uint64, meta.pages/64+1)}
	if err := v.freelist(); err != nil {
		return contents{}, err
	}
	c := contents{badMeta: bad, buckets: make(map[string]keyRange)}
	_, err = v.tree(meta.root, maxDepth, nil, func(name, value []byte) error {
		keys, err := v.bucket(value)
		c.buckets[string(name)] = keys
		return err
	})
	return c, err
}

// readMeta returns the newer of the two meta pages that are whole, as bbolt chooses it. The second is looked for at
// each page size because the size stands in the first.
func readMeta(r io.ReaderAt, size int64) (meta metaPage, bad bool, err error) {
	if size == 0 {
		return metaPage{}, false, damaged("the file is empty")
	}
	var buf [pageHeader + metaLen]byte
	read := func(offset int64) (metaPage, bool, error) {
		if _, err := r.ReadAt(buf[:], offset); err == io.EOF {
			return metaPage{}, false, nil
		} else if err != nil {
			return metaPage{}, false, err
		}
		m, ok := parseMeta(buf[pageHeader:])
		return m, ok, nil
	}
	first, ok0, err := read(0)
	if err != nil {
		return metaPage{}, false, err
	}
	var second metaPage
	ok1 := false
	for page := int64(1024); page <= 1024<<14 && !ok1; page <<= 1 {
		if ok0 && page != int64(first.pageSize) {
			continue
		}
		if second, ok1, err = read(page); err != nil {
			return metaPage{}, false, err
		}
		ok1 = ok1 && int64(second.pageSize) == page
	}
	switch {
	case !ok0 && !ok1 && isText(r):
		return metaPage{}, false, fmt.Errorf("%w: a text", ErrNotFile)
	case !ok0 && !ok1:
		return metaPage{}, false, damaged("it has no whole meta page")
	case ok1 && (!ok0 || second.txid > first.txid):
		return second, !ok0, nil
	default:
		return first, !ok1, nil
	}
}

// isText reports that a file begins with printable text, as no page does: somebody named the wrong file.
func isText(r io.ReaderAt) bool {
	buf := make([]byte, 64)
	n, _ := r.ReadAt(buf, 0)
	for _, c := range buf[:n] {
		if c < ' ' && c != '\t' && c != '\r' && c != '\n' || c == 0x7f {
			return false
		}
	}
	return n > 0 && utf8.Valid(bytes.TrimRightFunc(buf[:n], func(r rune) bool { return r == utf8.RuneError }))
}

func parseMeta(b []byte) (metaPage, bool) {
	ne := binary.NativeEndian
	sum := fnv.New64a()
	sum.Write(b[:metaSumOffset])
	if ne.Uint32(b) != metaMagic || ne.Uint32(b[4:]) != metaVersion || ne.Uint64(b[metaSumOffset:]) != sum.Sum64() {
		return metaPage{}, false
	}
	m := metaPage{
		pageSize: ne.Uint32(b[8:]), root: ne.Uint64(b[16:]), freelist: ne.Uint64(b[32:]),
		pages: ne.Uint64(b[40:]), txid: ne.Uint64(b[48:]),
	}
	return m, m.pageSize >= 1024 && m.pageSize <= 1024<<14
}

// page reads a page with its overflow pages into buf, grown as needed, and marks them as used.
func (v *verifier) page(id uint64, buf []byte) ([]byte, error) {
	if id < 2 || id >= v.meta.pages {
		return nil, damaged("a reference to page %d of %d", id, v.meta.pages)
	}
	size := int(v.meta.pageSize)
	buf = grow(buf, size)
	if err := v.read(buf, id); err != nil {
		return nil, err
	}
	if got := binary.NativeEndian.Uint64(buf); got != id {
		return nil, damaged("page %d says it is page %d", id, got)
	}
	overflow := uint64(binary.NativeEndian.Uint32(buf[12:]))
	if overflow >= v.meta.pages-id {
		return nil, damaged("page %d runs past the end", id)
	}
	for p := id; p <= id+overflow; p++ {
		if !v.mark(p) {
			return nil, damaged("page %d is used twice", p)
		}
	}
	if overflow > 0 {
		buf = grow(buf, size*int(overflow+1))
		if err := v.read(buf, id); err != nil {
			return nil, err
		}
	}
	return buf, nil
}

func (v *verifier) read(buf []byte, id uint64) error {
	_, err := v.r.ReadAt(buf, int64(id)*int64(v.meta.pageSize))
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func grow(buf []byte, n int) []byte {
	if cap(buf) < n {
		return make([]byte, n)
	}
	return buf[:n]
}

// mark reports whether page id was free until now.
func (v *verifier) mark(id uint64) bool {
	word, bit := &v.seen[id/64], uint64(1)<<(id%64)
	fresh := *word&bit == 0
	*word |= bit
	return fresh
}

// freelist marks the free pages, so that a tree that uses one is seen.
func (v *verifier) freelist() error {
	b, err := v.page(v.meta.freelist, nil)
	if err != nil {
		return err
	}
	ne := binary.NativeEndian
	if flags := ne.Uint16(b[8:]); flags != flagFreelist {
		return damaged("page %d is no list of free pages", v.meta.freelist)
	}
	count, ids := uint64(ne.Uint16(b[10:])), b[pageHeader:]
	if count == 0xFFFF { // more than fit 16 bits: the number is the first entry
		count, ids = ne.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return damaged("the list of free pages is cut")
	}
	for i := range count {
		id := ne.Uint64(ids[i*8:])
		if id < 2 || id >= v.meta.pages || !v.mark(id) {
			return damaged("the list of free pages names page %d wrongly", id)
		}
	}
	return nil
}

// tree walks the pages below id in key order and calls onBucket for each nested bucket.
func (v *verifier) tree(id uint64, depth int, after []byte, onBucket func(name, value []byte) error) (all keyRange, err error) {
	if depth == 0 {
		return keyRange{}, damaged("page %d is nested too deeply", id)
	}
	b, err := v.page(id, v.scratch)
	if err != nil {
		return keyRange{}, err
	}
	v.scratch = nil // b is in use until the page's children are done
	if binary.NativeEndian.Uint16(b[8:]) == flagBranch {
		all, err = v.branch(b, id, depth, after, onBucket)
	} else {
		all, err = v.leaf(b, id, after, onBucket)
	}
	v.scratch = b
	return all, err
}

func (v *verifier) branch(b []byte, id uint64, depth int, after []byte, onBucket func(name, value []byte) error) (all keyRange, err error) {
	ne := binary.NativeEndian
	count := int(ne.Uint16(b[10:]))
	if count == 0 || pageHeader+count*elementSize > len(b) {
		return all, damaged("page %d has %d children", id, count)
	}
	all.last = after
	for i := range count {
		at := pageHeader + i*elementSize
		key, ok := cut(b, at, ne.Uint32(b[at:]), ne.Uint32(b[at+4:]), 0)
		if !ok {
			return all, damaged("page %d has a key outside of it", id)
		}
		keys, err := v.tree(ne.Uint64(b[at+8:]), depth-1, all.last, onBucket)
		if err != nil {
			return all, err
		}
		if !bytes.Equal(key, keys.first) {
			return all, damaged("page %d: child %d does not start at its key", id, i)
		}
		if all.count == 0 {
			all.first = keys.first
		}
		all.count += keys.count
		all.last = keys.last
	}
	return all, nil
}

// leaf checks that the keys lie inside the page and rise. The root of an empty bucket is an empty leaf.
func (v *verifier) leaf(b []byte, id uint64, after []byte, onBucket func(name, value []byte) error) (all keyRange, err error) {
	ne := binary.NativeEndian
	count := int(ne.Uint16(b[10:]))
	if ne.Uint16(b[8:]) != flagLeaf || pageHeader+count*elementSize > len(b) {
		return all, damaged("page %d is no page of keys", id)
	}
	all.count, all.last = count, after
	last := after
	for i := range count {
		at := pageHeader + i*elementSize
		flags, ksize, vsize := ne.Uint32(b[at:]), ne.Uint32(b[at+8:]), ne.Uint32(b[at+12:])
		item, ok := cut(b, at, ne.Uint32(b[at+4:]), ksize, vsize)
		if !ok || ksize == 0 || flags&^leafBucket != 0 {
			return all, damaged("page %d has a key or value outside of it", id)
		}
		key, value := item[:ksize], item[ksize:]
		if last != nil && bytes.Compare(last, key) >= 0 {
			return all, damaged("page %d has keys out of order", id)
		}
		last = key
		if i == 0 {
			all.first = bytes.Clone(key)
		}
		if (flags == leafBucket) != (onBucket != nil) {
			return all, damaged("page %d mixes keys and buckets", id)
		}
		if onBucket != nil {
			if err := onBucket(bytes.Clone(key), bytes.Clone(value)); err != nil {
				return all, err
			}
		}
	}
	if count > 0 {
		all.last = bytes.Clone(last)
	}
	return all, nil
}

// cut returns the ksize+vsize bytes at pos, counted from the element at.
func cut(b []byte, at int, pos, ksize, vsize uint32) ([]byte, bool) {
	from := uint64(at) + uint64(pos)
	to := from + uint64(ksize) + uint64(vsize)
	if to > uint64(len(b)) {
		return nil, false
	}
	return b[from:to], true
}

// bucket walks a nested bucket, which is a page number or, if it is small, a page inside the value.
func (v *verifier) bucket(value []byte) (keyRange, error) {
	if len(value) < bucketHeader {
		return keyRange{}, damaged("a bucket is cut")
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return v.tree(root, maxDepth, nil, nil)
	}
	inline := value[bucketHeader:]
	if len(inline) < pageHeader || binary.NativeEndian.Uint64(inline) != 0 {
		return keyRange{}, damaged("an inline bucket is cut")
	}
	return v.leaf(inline, 0, nil, nil)
}
