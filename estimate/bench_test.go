package estimate

import (
	"encoding/json"
	"go/build"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const (
	corpusBytes = 1 << 20 // of a corpus, at most
	promptBytes = 1000    // of a prompt: where text is cut
)

// Words of the made corpora; every eighth word is put together from syllables,
// so that not all of them come from a cache.
var (
	englishWords = strings.Fields(`the quick brown fox jumps over lazy dog while many people ask how long a batch of
		requests takes and what it costs before anything is sent because answers are paid for once`)
	russianWords = strings.Fields(`пакет запросов отправляется так быстро как позволяют ограничения учётной записи и никогда не
		превышает их даже если сервер отвечает медленно или процесс был остановлен посреди работы мы считаем токены заранее
		чтобы знать сколько времени займёт обработка миллиона строк какой предел сработает первым и во что это обойдётся
		После перезапуска программа продолжает с того места где остановилась, ничего не теряя и не оплачивая дважды.`)
	russianParts = strings.Fields(`пере на вы про от за под лов вод стро дел каз ход нос пис тель ность ение ание ский ного ому ыми`)
	otherWords   = strings.Fields(`バッチ 処理は 制限の中で できるだけ 速く 進みます。 요청을 다시 보내지 않고 이어서 실행합니다 결과는 한 번만 저장됩니다
		تُرسل الطلبات بأسرع ما يمكن دون تجاوز الحدود ولا تُدفع مرتين οι απαντήσεις γράφονται στον δίσκο πριν θεωρηθούν
		τελειωμένες यह कार्यक्रम रुकने के बाद वहीं से आगे बढ़ता है และไม่ส่งซ้ำ`)
	otherParts = strings.Fields(`カ ラム 取り 込み 가 습니 에서 했다 ال مست ون ات προ λογ ικός ους प्र का यों ना กา ร์ ไม่`)
)

// corpora returns the corpora of the benchmarks, cut into prompts: real texts
// where there are any, from Go's own tree and from the shared data, else made
// ones.
func corpora(b *testing.B) map[string][]string {
	b.Helper()
	src := filepath.Join(build.Default.GOROOT, "src")
	c := map[string][]string{
		"english": prompts(readFiles(b, filepath.Join(src, "testdata", "Isaac.Newton-Opticks.txt"))),
		"code":    prompts(readFiles(b, filepath.Join(src, "net", "http", "*.go"))),
		"json":    prompts(madeJSON()),
		"russian": prompts(madeText(russianWords, russianParts)),
		"other":   prompts(madeText(otherWords, otherParts)),
	}
	if path := filepath.Join("..", "..", "shared", "data", "corpora", "gaokao_political_mcq.jsonl"); fileExists(path) {
		for _, l := range readLines[corpusLine](b, path) {
			c["chinese"] = append(c["chinese"], l.Prompt)
		}
	}
	return c
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func readFiles(b *testing.B, pattern string) string {
	b.Helper()
	var text strings.Builder
	paths, err := filepath.Glob(pattern)
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		text.Write(data)
	}
	return text.String()
}

func madeText(words, parts []string) string {
	r, b := rand.New(rand.NewPCG(7, 7)), strings.Builder{}
	for i := 1; b.Len() < corpusBytes; i++ {
		if i%8 != 0 {
			b.WriteString(words[r.IntN(len(words))])
		} else {
			for range 2 + r.IntN(3) {
				b.WriteString(parts[r.IntN(len(parts))])
			}
		}
		b.WriteString([]string{" ", " ", " ", " ", ", ", "\n"}[r.IntN(6)])
	}
	return b.String()
}

func madeJSON() string {
	r, b := rand.New(rand.NewPCG(8, 8)), strings.Builder{}
	for b.Len() < corpusBytes {
		words := make([]string, 1+r.IntN(9))
		for i := range words {
			words[i] = englishWords[r.IntN(len(englishWords))]
		}
		line, err := json.Marshal(map[string]any{
			"id": r.Uint32(), "customer_name": strings.Join(words, " "), "amount": r.Float64() * 1000, "tags": words,
			"created_at": time.Unix(int64(r.Uint32()), 0).UTC(), "address": map[string]any{"zip_code": r.IntN(99999), "verified": r.IntN(2) == 0},
		})
		if err != nil {
			panic(err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

func prompts(text string) []string {
	text = text[:min(len(text), corpusBytes)]
	var p []string
	for len(text) > 0 {
		n := min(promptBytes, len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		p = append(p, strings.ToValidUTF8(text[:n], ""))
		text = text[n:]
	}
	return p
}

// BenchmarkText counts each corpus, and by turns a sample of it with
// tiktoken-go: "ratio" is how many times faster the first is. Of each the best
// round counts, since on a busy machine other programs come between.
func BenchmarkText(b *testing.B) {
	for name, texts := range corpora(b) {
		for _, e := range []string{O200kBase, CL100kBase} {
			b.Run("corpus="+name+"/encoding="+e, func(b *testing.B) {
				tk := oracle(b, e)
				round, fast, slow := 0, 0.0, 0.0
				for b.Loop() {
					fast = max(fast, speed(texts, 0, 1, func(s string) { counter.Text(e, s) }))
					slow = max(slow, speed(texts, round%16, 16, func(s string) { tk.EncodeOrdinary(s) }))
					round++
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(fast, "MB/s")
				b.ReportMetric(slow, "tiktoken-go-MB/s")
				b.ReportMetric(fast/slow, "ratio")
			})
		}
	}
}

// speed is that of count over every step-th text, in MB/s.
func speed(texts []string, from, step int, count func(string)) float64 {
	size, start := 0, time.Now()
	for i := from; i < len(texts); i += step {
		count(texts[i])
		size += len(texts[i])
	}
	return float64(size) / 1e6 / time.Since(start).Seconds()
}

// BenchmarkMegabyte counts texts without a break, and base64.
func BenchmarkMegabyte(b *testing.B) {
	texts := map[string]string{"base64": base64Of([]byte(randomLetters(3 << 18)))}
	for name, run := range runs {
		texts[name] = run.text(1 << 20)
	}
	for name, text := range texts {
		b.Run("run="+name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				counter.Text(O200kBase, text)
			}
		})
	}
}
