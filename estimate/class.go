package estimate

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class says to which sets of the splitters' expressions a character belongs.
type class uint8

const (
	head    class = 1 << iota // \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}: may begin a word of o200k_base
	tail                      // \p{Ll}\p{Lm}\p{Lo}\p{M}: may end one
	letter                    // \p{L}
	number                    // \p{N}
	blank                     // \s
	newline                   // \r and \n, which are blanks too
	wide                      // of a byte that begins a longer character, in classTable.ascii
)

// What the general categories are in those sets.
const (
	upper    = head | letter        // Lu, Lt
	lower    = tail | letter        // Ll
	caseless = head | tail | letter // Lm, Lo
	mark     = head | tail          // M
)

// classTable holds the class of every character, in pages of 256 that are
// shared where they are equal.
type classTable struct {
	ascii [256]class     // of a byte that is a character of its own; none for the rest
	index [0x1100]uint16 // page of a character, by its code point >> 8
	pages [][256]class
}

// at returns the class of the character at b[i] and its size in bytes. b is
// valid UTF-8.
func (t *classTable) at(b []byte, i int) (c class, size int) {
	c, size = t.ascii[b[i]], 1
	if c == wide {
		c, size = t.wide(b, i)
	}
	return
}

func (t *classTable) wide(b []byte, i int) (class, int) {
	c := b[i]
	switch {
	case c < 0xE0:
		r := uint(c&0x1F)<<6 | uint(b[i+1]&0x3F)
		return t.pages[t.index[r>>8]][r&0xFF], 2
	case c < 0xF0:
		// The page comes from the first two bytes and two bits of the third.
		r := uint(c&0x0F)<<12 | uint(b[i+1]&0x3F)<<6 | uint(b[i+2]&0x3F)
		return t.pages[t.index[r>>8]][r&0xFF], 3
	}
	r := uint(c&0x07)<<18 | uint(b[i+1]&0x3F)<<12 | uint(b[i+2]&0x3F)<<6 | uint(b[i+3]&0x3F)
	return t.pages[t.index[r>>8]][r&0xFF], 4
}

// classes builds the table once for all encodings.
var classes = sync.OnceValue(func() *classTable {
	flat := make([]class, unicode.MaxRune+1)
	for _, s := range []struct {
		set *unicode.RangeTable
		c   class
	}{
		{unicode.Lu, upper},
		{unicode.Lt, upper},
		{unicode.Ll, lower},
		{unicode.Lm, caseless},
		{unicode.Lo, caseless},
		{unicode.M, mark},
		{unicode.N, number},
		{unicode.White_Space, blank},
	} {
		for _, r := range s.set.R16 {
			setRange(flat, rune(r.Lo), rune(r.Hi), rune(r.Stride), s.c)
		}
		for _, r := range s.set.R32 {
			setRange(flat, rune(r.Lo), rune(r.Hi), rune(r.Stride), s.c)
		}
	}
	for _, r := range newer {
		setRange(flat, r.lo, r.hi, 1, r.c)
	}
	flat['\r'], flat['\n'] = blank|newline, blank|newline

	t := &classTable{}
	copy(t.ascii[:utf8.RuneSelf], flat)
	for i := utf8.RuneSelf; i < len(t.ascii); i++ {
		t.ascii[i] = wide
	}
	seen := make(map[[256]class]uint16)
	for i := range t.index {
		page := [256]class(flat[i<<8:])
		n, ok := seen[page]
		if !ok {
			n = uint16(len(t.pages))
			seen[page] = n
			t.pages = append(t.pages, page)
		}
		t.index[i] = n
	}
	return t
})

func setRange(flat []class, lo, hi, stride rune, c class) {
	for r := lo; r <= hi; r += stride {
		flat[r] = c
	}
}
