package estimate

import "slices"

// scratch is what one call needs beside the text. It is taken from a pool, so
// that a call allocates nothing and calls run beside each other without a lock.
type scratch struct {
	cache pieceCache

	parts shortMerge
	long  longMerge
}

// shortMerge is the working space for a piece of up to 64 parts.
type shortMerge struct {
	cells [64]uint32
	start [64]uint32 // of a part, in the text
	next  [64]uint8  // the part that follows; the number of parts at the end
	prev  [64]uint8
}

// dead is the least value of a cell without a token: see mergeShort.
const dead = none << 6

// mergeShort counts the tokens that byte pair merging makes of b[from:to]: time
// and again the leftmost of the pairs of neighbours with the lowest rank
// becomes one part, until no pair is a token. ok is false for a piece of more
// than 64 parts.
//
// cells[i] holds the rank of the pair that begins with part i, and below it, in
// six bits, i itself: the least cell is the leftmost of the lowest.
func (t *rankTable) mergeShort(m *shortMerge, b []byte, from, to int) (tokens int, ok bool) {
	n := 0
	for i := from; i < to; n++ {
		if n == len(m.start) {
			return 0, false
		}
		m.start[n] = uint32(i)
		m.next[n] = uint8(n + 1)
		m.prev[n] = uint8(n - 1)
		i += t.unit(b, i, from, to)
	}
	end := func(part int) int { // where a part ends
		if next := int(m.next[part&63]); next < n {
			return int(m.start[next&63])
		}
		return to
	}
	width := (n + 2) &^ 3 // the n-1 cells, filled up to a multiple of four
	for i := range m.cells[:width] {
		m.cells[i] = dead
		if i+1 < n {
			m.cells[i] = t.rank(b, int(m.start[i]), end(i+1))<<6 | uint32(i)
		}
	}
	for tokens = n; ; tokens-- {
		low := leastCell(m.cells[:width])
		if low >= dead {
			return tokens, true
		}
		i := int(low & 63)
		j := int(m.next[i])
		k := int(m.next[j&63])
		m.next[i] = uint8(k)
		m.cells[j&63] = dead
		m.cells[i] = dead
		stop := to
		if k < n {
			m.prev[k&63] = uint8(i)
			stop = int(m.start[k&63])
			m.cells[i] = t.rank(b, int(m.start[i]), end(k))<<6 | uint32(i)
		}
		if i > 0 {
			h := int(m.prev[i]) & 63
			m.cells[h] = t.rank(b, int(m.start[h]), stop)<<6 | uint32(h)
		}
	}
}

// leastCell returns the least of cells, whose number is a multiple of four and
// not zero.
func leastCell(cells []uint32) uint32 {
	w, x, y, z := cells[0], cells[1], cells[2], cells[3]
	for len(cells) >= 8 {
		cells = cells[4:]
		w, x, y, z = min(w, cells[0]), min(x, cells[1]), min(y, cells[2]), min(z, cells[3])
	}
	return min(w, x, y, z)
}

// longMerge does what mergeShort does, for pieces of any length in a time near
// to linear: the cells lie in blocks of 64, and a tree over the blocks knows
// the least of them. It takes about six bytes for each byte of the piece.
type longMerge struct {
	cells []uint32
	size  []uint8  // of a part, at its first and at its last byte
	tree  []uint64 // tree[1] is the root; rank<<38 | offset of the least cell below
}

// keepLong is the longest piece whose working space is kept for later calls.
const keepLong = 1 << 20

func (t *rankTable) mergeLong(m *longMerge, b []byte, from, to int) int {
	n := to - from
	blocks := (n + 63) / 64
	leaves := 1
	for leaves < blocks {
		leaves *= 2
	}
	m.cells = slices.Grow(m.cells[:0], blocks*64)[:blocks*64]
	m.size = slices.Grow(m.size[:0], n)[:n]
	m.tree = slices.Grow(m.tree[:0], 2*leaves)[:2*leaves]
	for i := range m.cells {
		m.cells[i] = dead | uint32(i&63)
	}
	parts, last := 0, -1
	for i := 0; i < n; parts++ {
		k := t.unit(b, from+i, from, to)
		m.size[i], m.size[i+k-1] = uint8(k), uint8(k)
		if last >= 0 {
			m.cells[last] = t.rank(b, from+last, from+i+k)<<6 | uint32(last&63)
		}
		last = i
		i += k
	}
	for i := range m.tree {
		m.tree[i] = none << 38
	}
	for i := range blocks {
		m.tree[leaves+i] = m.least(i)
	}
	for i := leaves - 1; i > 0; i-- {
		m.tree[i] = min(m.tree[2*i], m.tree[2*i+1])
	}
	for m.tree[1] < none<<38 {
		parts--
		i := int(m.tree[1] & (1<<38 - 1))
		j := i + int(m.size[i])
		k := j + int(m.size[j])
		m.size[i], m.size[k-1] = uint8(k-i), uint8(k-i)
		m.cells[j] = dead | uint32(j&63)
		m.cells[i] = dead | uint32(i&63)
		if k < n {
			m.cells[i] = t.rank(b, from+i, from+k+int(m.size[k]))<<6 | uint32(i&63)
		}
		h := i
		if i > 0 {
			h = i - int(m.size[i-1])
			m.cells[h] = t.rank(b, from+h, from+k)<<6 | uint32(h&63)
		}
		m.update(h/64, leaves)
		if i/64 != h/64 {
			m.update(i/64, leaves)
		}
		if j/64 != i/64 {
			m.update(j/64, leaves)
		}
	}
	if n > keepLong {
		*m = longMerge{}
	}
	return parts
}

// least returns the least cell of a block in the form of the tree.
func (m *longMerge) least(block int) uint64 {
	low := leastCell(m.cells[block*64 : block*64+64])
	return uint64(low>>6)<<38 | uint64(block)<<6 | uint64(low&63)
}

// update brings the tree up to date after a change in a block.
func (m *longMerge) update(block, leaves int) {
	i, v := leaves+block, m.least(block)
	for m.tree[i] != v {
		m.tree[i] = v
		if i == 1 {
			return
		}
		v = min(v, m.tree[i^1])
		i /= 2
	}
}
