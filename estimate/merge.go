package estimate

import "slices"

// scratch is what one call needs beside the text. It is taken from a pool, so
// that a call allocates nothing and calls run beside each other without a lock.
type scratch struct {
	cache pieceCache

	cells [64]uint32
	next  [64]uint8
	prev  [64]uint8

	long longMerge
}

// dead is the least value of a cell without a token: see mergeShort.
const dead = none << 6

// mergeShort counts the tokens that byte pair merging makes of b[from:to], 3 to
// 64 bytes: time and again the leftmost of the pairs of neighbours with the
// lowest rank becomes one part, until no pair is a token.
//
// cells[i] holds the rank of the pair that begins at byte i, and below it, in
// six bits, i itself: the least cell is the leftmost of the lowest.
func (t *rankTable) mergeShort(s *scratch, b []byte, from, to int) int {
	n := to - from
	p := b[from:to]
	cells, next, prev := &s.cells, &s.next, &s.prev
	for i := 0; i+1 < n; i++ {
		cells[i&63] = t.pairs[int(p[i])<<8|int(p[i+1])]<<6 | uint32(i)
		next[i&63] = uint8(i + 1)
		prev[(i+1)&63] = uint8(i)
	}
	next[n-1] = uint8(n)
	width := (n + 2) &^ 3 // the n-1 cells, filled up to a multiple of four
	for i := n - 1; i < width; i++ {
		cells[i&63] = dead
	}
	parts := n
	for {
		low := leastCell(cells[:width])
		if low >= dead {
			return parts
		}
		parts--
		i := int(low & 63)
		j := int(next[i])
		k := int(next[j&63]) // where the merged part ends
		cells[j&63] = dead
		next[i] = uint8(k)
		cells[i] = dead
		if k < n {
			prev[k&63] = uint8(i)
			cells[i] = t.rank(b, from+i, from+int(next[k&63]))<<6 | uint32(i)
		}
		if i > 0 {
			h := int(prev[i])
			cells[h&63] = t.rank(b, from+h, from+k)<<6 | uint32(h)
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
	p := b[from:to]
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
		if i+1 < n {
			m.cells[i] = t.pairs[int(p[i])<<8|int(p[i+1])]<<6 | uint32(i&63)
		}
	}
	for i := range m.size {
		m.size[i] = 1
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
	parts := n
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
