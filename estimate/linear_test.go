package estimate

import (
	"container/heap"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	tiktoken_loader "github.com/pkoukk/tiktoken-go-loader"
)

// loaderRanks returns the ranks of an encoding as tiktoken-go-loader has them.
func loaderRanks(t testing.TB, encoding string) map[string]int {
	t.Helper()
	ranks, err := tiktoken_loader.NewOfflineLoader().LoadTiktokenBpe(encoding + ".tiktoken")
	if err != nil {
		t.Fatal(err)
	}
	return ranks
}

// pairHeap is the plain way to merge without searching all parts each time: a
// heap of pairs, in which those that are out of date stay until they come up.
type pairHeap []pairAt

type pairAt struct{ rank, from, to int }

func (h pairHeap) Len() int { return len(h) }
func (h pairHeap) Less(i, j int) bool {
	return h[i].rank < h[j].rank || h[i].rank == h[j].rank && h[i].from < h[j].from
}
func (h pairHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *pairHeap) Push(x any)   { *h = append(*h, x.(pairAt)) }
func (h *pairHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// plainMerge counts the tokens of one piece, byte by byte, over a map of ranks:
// slow, but nearly linear, and with nothing in common with the merges of this
// package.
func plainMerge(ranks map[string]int, piece string) int {
	if _, ok := ranks[piece]; ok {
		return 1
	}
	next, prev := make([]int, len(piece)+1), make([]int, len(piece)+1)
	for i := range next {
		next[i], prev[i] = i+1, i-1
	}
	var h pairHeap
	push := func(from int) {
		if from >= 0 && next[from] < len(piece) {
			to := next[next[from]]
			if rank, ok := ranks[piece[from:to]]; ok {
				heap.Push(&h, pairAt{rank, from, to})
			}
		}
	}
	for i := range len(piece) {
		push(i)
	}
	parts, gone := len(piece), make([]bool, len(piece)+1)
	for len(h) > 0 {
		p := heap.Pop(&h).(pairAt)
		if gone[p.from] || next[p.from] >= len(piece) || next[next[p.from]] != p.to {
			continue
		}
		parts--
		gone[next[p.from]] = true
		next[p.from], prev[p.to] = p.to, p.from
		push(p.from)
		push(prev[p.from])
	}
	return parts
}

// runs are texts without a break, one piece each, with the counts of a megabyte
// in o200k_base and cl100k_base. The counts are plainMerge's, which takes too
// long at that size to be asked each time.
var runs = map[string]struct {
	text          func(n int) string
	o200k, cl100k int
}{
	"letter":     {repeat("a"), 131072, 131072},
	"underscore": {repeat("_"), 16384, 16384},
	"spaces":     {repeat(" "), 8192, 8192},
	"caret":      {repeat("^"), 131072, 262144},
	"newlines":   {repeat("\n"), 65536, 32768},
	"de":         {repeat("的"), 349525, 349525},
	"emoji":      {repeat("🙂"), 262144, 524288},
	"letters":    {randomLetters, 543597, 566399},
	"han":        {randomHan, 630430, 743225},
}

func repeat(s string) func(n int) string {
	return func(n int) string { return strings.Repeat(s, n/len(s)) }
}

func randomLetters(n int) string {
	r, b := rand.New(rand.NewPCG(3, 3)), make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(r.IntN(26))
	}
	return string(b)
}

func randomHan(n int) string {
	r, b := rand.New(rand.NewPCG(4, 4)), strings.Builder{}
	for range n / 3 {
		b.WriteRune(0x4E00 + rune(r.IntN(3000)))
	}
	return b.String()
}

func TestRuns(t *testing.T) {
	t.Parallel()
	for _, e := range []string{O200kBase, CL100kBase} {
		ranks := loaderRanks(t, e)
		for name, run := range runs {
			for _, n := range []int{3, 60, 64, 65, 127, 128, 129, 130, 191, 193, 700} {
				s := run.text(n)
				want := len(oracle(t, e).EncodeOrdinary(s))
				if got := counter.Text(e, s); got != want {
					t.Errorf("%s of %d bytes of %s: got %d tokens, want %d", e, n, name, got, want)
				}
				if got := plainMerge(ranks, s); got != want {
					t.Errorf("%s of %d bytes of %s: the test's own merge gives %d tokens, want %d", e, n, name, got, want)
				}
			}
			s := run.text(1 << 15)
			if got, want := counter.Text(e, s), plainMerge(ranks, s); got != want {
				t.Errorf("%s of %d bytes of %s: got %d tokens, want %d", e, len(s), name, got, want)
			}
		}
	}
}

func TestMegabytes(t *testing.T) {
	t.Parallel()
	for name, run := range runs {
		s := run.text(1 << 20)
		for e, want := range map[string]int{O200kBase: run.o200k, CL100kBase: run.cl100k} {
			start := time.Now()
			got := counter.Text(e, s)
			took := time.Since(start)
			if got != want {
				t.Errorf("%s of a megabyte of %s: got %d tokens, want %d", e, name, got, want)
			}
			// A tenth of a second on a quiet machine, seconds on a busy one under the
			// race detector, and 20 minutes where the time is quadratic.
			if took > 2*time.Minute {
				t.Errorf("%s of a megabyte of %s took %v", e, name, took)
			}
		}
	}
}

// Base64 has breaks, so tiktoken-go manages it.
func TestBase64(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 5))
	b := make([]byte, 48<<10)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	s := base64.StdEncoding.EncodeToString(b)
	for _, e := range encodings {
		sameAsOracle(t, e, s)
	}
}
