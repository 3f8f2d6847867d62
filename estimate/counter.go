package estimate

import (
	"sync"
	"unicode/utf8"
	"unsafe"
)

// encoding counts the tokens of text in one of tiktoken's encodings. It is safe
// for concurrent use.
type encoding struct {
	ranks   *rankTable
	classes *classTable
	split   splitter
	pool    sync.Pool // of *scratch
}

// count returns the number of tokens of b, which is valid UTF-8.
func (e *encoding) count(b []byte) int {
	s := e.pool.Get().(*scratch)
	total := 0
	for i := 0; i < len(b); {
		end := e.split(e.classes, b, i)
		total += e.piece(s, b, i, end)
		i = end
	}
	e.pool.Put(s)
	return total
}

// piece returns the number of tokens of the piece b[from:to].
func (e *encoding) piece(s *scratch, b []byte, from, to int) int {
	switch n := to - from; {
	case n == 1:
		return 1
	case n == 2:
		if e.ranks.rank(b, from, to) != none {
			return 1
		}
		return 2
	case n <= 16:
		slot, found := s.cache.shortSlot(b, from, n)
		if !found {
			slot.tokens = uint8(e.merge(s, b, from, to))
		}
		return int(slot.tokens)
	case n <= longCacheMax:
		slot, found := s.cache.longSlot(b, from, n)
		if !found {
			slot.tokens = uint8(e.merge(s, b, from, to))
		}
		return int(slot.tokens)
	}
	return e.merge(s, b, from, to)
}

// merge counts the tokens of a piece of three bytes or more. As in tiktoken, a
// piece that is a token as a whole is one, whatever the merges would say.
func (e *encoding) merge(s *scratch, b []byte, from, to int) int {
	if e.ranks.rank(b, from, to) != none {
		return 1
	}
	if tokens, ok := e.ranks.mergeShort(&s.parts, b, from, to); ok {
		return tokens
	}
	return e.ranks.mergeLong(&s.long, b, from, to)
}

// Counter counts tokens. Make one with NewCounter; it is safe for concurrent
// use, and a call that counts text allocates nothing. An encoding's tables
// (about 10 MB for o200k_base) are built when it is first needed, once.
type Counter struct {
	o200k, cl100k, p50k, r50k func() *encoding
}

// NewCounter returns a Counter. It costs nothing until the first count.
func NewCounter() *Counter {
	return &Counter{
		o200k:  lazy(O200kBase, o200kRanks, o200kSum, none, splitO200k),
		cl100k: lazy(CL100kBase, cl100kRanks, cl100kSum, none, splitCL100k),
		p50k:   lazy(P50kBase, p50kRanks, p50kSum, none, splitP50k),
		r50k:   lazy(R50kBase, p50kRanks, p50kSum, 50256, splitP50k),
	}
}

// lazy returns a function that builds an encoding at its first call. Ranks that
// fail their checksum are a damaged program file, which nothing can mend: it
// panics then.
func lazy(name, data, sum string, limit uint32, split splitter) func() *encoding {
	return sync.OnceValue(func() *encoding {
		ranks, err := loadRanks(name, data, sum, limit)
		if err != nil {
			panic("estimate: " + err.Error())
		}
		return &encoding{
			ranks:   ranks,
			classes: classes(),
			split:   split,
			pool:    sync.Pool{New: func() any { return new(scratch) }},
		}
	})
}

// encoding returns the named encoding; an unknown name is o200k_base.
func (c *Counter) encoding(name string) *encoding {
	switch name {
	case CL100kBase:
		return c.cl100k()
	case P50kBase:
		return c.p50k()
	case R50kBase:
		return c.r50k()
	}
	return c.o200k()
}

// Text returns the number of tokens of text in the named encoding, exactly as
// tiktoken counts them, the text of special tokens being ordinary text. Each
// byte that is not UTF-8 counts as U+FFFD, the character that a JSON encoder
// would send in its place. An unknown encoding is taken for o200k_base.
func (c *Counter) Text(encoding, text string) int {
	e := c.encoding(encoding)
	if !utf8.ValidString(text) {
		return e.count([]byte(string([]rune(text))))
	}
	return e.count(bytesOf(text))
}

// bytesOf returns the bytes of s without copying them; they must not be
// written.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
