package estimate

import "unicode/utf8"

// Merging starts from single bytes, so a Chinese character takes two merges
// before it is a token of its own. Most characters can be taken whole from the
// start without changing the result, which spares most of the work on text that
// is not Latin. Let worst(c) be the highest rank among the merges that make the
// character c of its bytes. c may be taken whole between its neighbours if
//
//  1. every token that holds c and more ranks above worst(c), and
//  2. so does every token that crosses the border of c to a neighbour with only
//     a part of c in it.
//
// By 2 no merge can tear c: while c is not whole, one of its own merges ranks
// lower and goes first. By 1 having c whole early offers no pair that could go
// before what was lowest without it. So the other merges happen in the same
// order, and the outcome is the same.
//
// For 2 it is enough to know the two bytes at the border: bounds holds, for each
// pair of them, the lowest rank of a token that has them with an incomplete
// character on the one side. chars holds worst(c), for characters of two and
// three bytes. Both are kept in steps of four ranks, which errs to the side of
// taking bytes.

// never marks a character that is never taken whole, and a border that no token
// crosses in such a way.
const never = 1<<16 - 1

// unit returns the size of the part to start with at b[i] in the piece
// b[from:to]: that of a character which may be taken whole, or 1.
func (t *rankTable) unit(b []byte, i, from, to int) int {
	c := b[i]
	if c < 0xC2 || c >= 0xF0 {
		return 1
	}
	size, worst := 2, uint16(0)
	if c < 0xE0 {
		worst = t.chars[uint(c&0x1F)<<6|uint(b[i+1]&0x3F)]
	} else {
		size = 3
		worst = t.chars[uint(c&0x0F)<<12|uint(b[i+1]&0x3F)<<6|uint(b[i+2]&0x3F)]
	}
	if worst == never ||
		i > from && worst >= t.bounds[uint(b[i-1])<<8|uint(c)] ||
		i+size < to && worst >= t.bounds[uint(b[i+size-1])<<8|uint(b[i+size])] {
		return 1
	}
	return size
}

// findUnits fills chars and bounds from the tokens of a rank file that are not
// ASCII.
func (t *rankTable) findUnits(data []byte, wide []ranked) {
	t.chars, t.bounds = make([]uint16, 1<<16), make([]uint16, 1<<16)
	for i := range t.chars {
		t.chars[i], t.bounds[i] = never, never
	}
	for _, w := range wide {
		if n := int(data[w.from]); n <= 3 {
			token := data[w.from+1:][:n]
			if r, size := utf8.DecodeRune(token); r != utf8.RuneError && size == n {
				t.chars[r] = t.worst(token)
			}
		}
	}
	for _, w := range wide {
		t.limitUnits(data[w.from+1:][:data[w.from]], uint16(w.rank/4))
	}
}

// worst returns the highest rank among the merges that make a character of its
// two or three bytes, in steps of four; never, if they do not.
func (t *rankTable) worst(c []byte) uint16 {
	rank := t.rank(c, 0, len(c))
	if len(c) == 3 {
		rank = max(rank, min(t.rank(c, 0, 2), t.rank(c, 1, 3)))
	}
	if rank == none {
		return never
	}
	return uint16(rank / 4)
}

// limitUnits notes what one token says against taking characters whole.
func (t *rankTable) limitUnits(token []byte, rank uint16) {
	head := 0 // the end of an incomplete character at the beginning
	for head < len(token) && !utf8.RuneStart(token[head]) {
		head++
	}
	if head > 0 && head < len(token) {
		t.limitBound(token[head-1], token[head], rank)
	}
	for i := head; i < len(token); {
		r, size := utf8.DecodeRune(token[i:])
		if r == utf8.RuneError && size == 1 { // incomplete, at the end
			if i > 0 {
				t.limitBound(token[i-1], token[i], rank)
			}
			return
		}
		if size < len(token) && size > 1 && r < 1<<16 && rank <= t.chars[r] {
			t.chars[r] = never
		}
		i += size
	}
}

func (t *rankTable) limitBound(before, after byte, rank uint16) {
	b := &t.bounds[int(before)<<8|int(after)]
	*b = min(*b, rank)
}
