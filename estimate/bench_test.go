package estimate

import (
	"go/parser"
	"strings"
	"testing"
)

var _ = parser.ParseFile
var _ = strings.Repeat

func corpusText(t testing.TB, name string) []string {
	var s []string
	for _, l := range readLines[corpusLine](t, sharedData(t, "corpora", name)) {
		s = append(s, l.Prompt)
	}
	return s
}

func BenchmarkText(b *testing.B) {
	for _, name := range []string{"gsm8k_test", "arena_hard_v0.1_question", "HumanEval", "gaokao_political_mcq", "blns"} {
		texts := corpusText(b, name+".jsonl")
		n := 0
		for _, s := range texts {
			n += len(s)
		}
		for _, e := range []string{O200kBase, CL100kBase} {
			b.Run(name+"/"+e, func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					for _, s := range texts {
						counter.Text(e, s)
					}
				}
			})
		}
	}
}
func BenchmarkTiktoken(b *testing.B) {
	for _, name := range []string{"gsm8k_test", "HumanEval", "gaokao_political_mcq"} {
		texts := corpusText(b, name+".jsonl")
		n := 0
		for _, s := range texts {
			n += len(s)
		}
		for _, e := range []string{O200kBase, CL100kBase} {
			b.Run(name+"/"+e, func(b *testing.B) {
				b.SetBytes(int64(n))
				tk := oracle(b, e)
				for b.Loop() {
					for _, s := range texts {
						tk.EncodeOrdinary(s)
					}
				}
			})
		}
	}
}
