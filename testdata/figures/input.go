package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
)

// words fill prompts; about a token each.
var words = strings.Fields(`the parcel was sent on monday but it never came and nobody at the shop can say where
it is now please tell me what to do next because my daughter needs the book for school this week`)

// prompt is n words long and begins with a number of its own, padded so that
// prompts of one length are charged the same.
func prompt(i, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Case %07d:", i)
	for k := range n {
		b.WriteByte(' ')
		b.WriteString(words[k%len(words)])
	}
	return b.String()
}

// write writes x.jsonl with a plain line for each length (in words) and returns
// the ids.
func write(dir string, lengths []int, maxTokens int) ([]string, error) {
	file, err := os.Create(dir + "/x.jsonl")
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(file, 1<<20)
	ids := make([]string, len(lengths))
	for i, n := range lengths {
		ids[i] = fmt.Sprintf("op-%07d", i)
		limit := ""
		if maxTokens > 0 {
			limit = fmt.Sprintf(`,"max_tokens":%d`, maxTokens)
		}
		fmt.Fprintf(w, `{"id":%q,"prompt":%q,"model":"gpt-4o-mini"%s}`+"\n", ids[i], prompt(i, n), limit)
	}
	return ids, errors.Join(w.Flush(), file.Close())
}

// same gives n prompts of one length.
func same(n, length int) []int {
	lengths := make([]int, n)
	for i := range lengths {
		lengths[i] = length
	}
	return lengths
}

// spread gives lognormal lengths with a heavy tail, the same ones each time.
func spread(n int) []int {
	random := rand.New(rand.NewPCG(7, 11))
	lengths := make([]int, n)
	for i := range lengths {
		lengths[i] = min(1200, 5+int(60*math.Exp(random.NormFloat64())))
	}
	return lengths
}

// heavyFirst sorts by length, the longest first.
func heavyFirst(lengths []int) []int {
	slices.SortFunc(lengths, func(a, b int) int { return b - a })
	return lengths
}
