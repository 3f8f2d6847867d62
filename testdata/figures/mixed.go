package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// mixed writes x.jsonl with n OpenAI batch lines of about 1,060 bytes: 70 %
// English, the rest Russian, Chinese and code, half of the former two escaped
// as \u. The texts are cut from the corpora beside the module where they are,
// else from the module's own sources.
func mixed(dir string, n int) (size int64, err error) {
	pools, err := pools()
	if err != nil {
		return 0, err
	}
	file, err := os.Create(filepath.Join(dir, "x.jsonl"))
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriterSize(file, 1<<20)
	random := rand.New(rand.NewPCG(3, 5))
	for i := range n {
		pool := pools[0]
		if k := random.IntN(10); k >= 7 {
			pool = pools[1+k-7]
		}
		texts := pool[random.IntN(len(pool))]
		fmt.Fprintf(w, `{"custom_id":"ticket-%07d","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o-mini","max_tokens":300,"messages":[{"role":"user","content":"%07d `, i, i)
		for left := 770; left > 0; {
			t := texts[random.IntN(len(texts))]
			w.Write(t)
			left -= len(t)
		}
		w.WriteString("\"}]}}\n")
	}
	if err := errors.Join(w.Flush(), file.Close()); err != nil {
		return 0, err
	}
	info, err := os.Stat(file.Name())
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// pools are English, Russian, Chinese and code; each has one or two forms
// (plain, escaped), and each form pieces of JSON text.
func pools() ([][][][]byte, error) {
	var english, chinese, code strings.Builder
	for _, c := range []struct {
		to   *strings.Builder
		glob string
	}{
		{&english, "../shared/data/corpora/gsm8k_test.jsonl"},
		{&english, "../shared/data/corpora/ifeval_input_data.jsonl"},
		{&chinese, "../shared/data/corpora/gaokao_political_mcq.jsonl"},
		{&code, "../shared/data/corpora/HumanEval.jsonl"},
		{&code, "runner/*.go"},
	} {
		if err := gather(c.to, c.glob); err != nil {
			return nil, err
		}
	}
	if english.Len() == 0 {
		if err := gather(&english, "*.md"); err != nil {
			return nil, err
		}
	}
	if chinese.Len() == 0 {
		chinese.WriteString(strings.Repeat("我们在昨天收到了你的信，请告诉我下一步应该怎么做。", 100))
	}
	var all [][][][]byte
	for i, text := range []string{english.String(), russian(), chinese.String(), code.String()} {
		forms := [][][]byte{cut(text, false)}
		if i == 1 || i == 2 {
			forms = append(forms, cut(text, true))
		}
		all = append(all, forms)
	}
	return all, nil
}

// gather appends the prompts of a corpus, or whole sources.
func gather(to *strings.Builder, glob string) error {
	paths, err := filepath.Glob(glob)
	if err != nil {
		return err
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.Ext(path) != ".jsonl" {
			to.Write(raw)
			continue
		}
		for d := json.NewDecoder(bytes.NewReader(raw)); ; {
			var line struct{ Prompt string }
			if err := d.Decode(&line); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			to.WriteString(line.Prompt + "\n")
		}
	}
	return nil
}

// russian is made of common words and of rarer ones put together from parts.
func russian() string {
	words := strings.Fields(`и в не на я быть он с что а по это она этот к но они мы весь который из у который то за свой что весь год от так о для ты же все тот
мочь вы человек такой его сказать только или ещё бы себя один как уже до время если сам когда другой вот говорить наш мой знать стать при чтобы дело жизнь кто
первый очень два день её новый рука даже во со раз где там под можно ну какой после их работа без самый потом надо хотеть ли слово идти большой должен место иметь`)
	parts := strings.Fields("пере рас под вы за работ ключ став ход вод ова ива ени ани тель ность ский ного ться ешь ами ах")
	random := rand.New(rand.NewPCG(7, 7))
	var b strings.Builder
	for i := 1; b.Len() < 200_000; i++ {
		if i%6 != 0 {
			b.WriteString(words[random.IntN(len(words))])
		} else {
			for range 2 + random.IntN(3) {
				b.WriteString(parts[random.IntN(len(parts))])
			}
		}
		b.WriteString([]string{" ", " ", " ", " ", ", ", ". "}[random.IntN(6)])
	}
	return b.String()
}

// cut cuts a text into pieces of 100 to 300 bytes, written as in JSON.
func cut(text string, escaped bool) (pieces [][]byte) {
	random := rand.New(rand.NewPCG(9, 9))
	for len(text) > 0 {
		n := min(100+random.IntN(200), len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		raw, err := json.Marshal(text[:n])
		if err != nil {
			panic(err) // strings can be written
		}
		piece := raw[1 : len(raw)-1]
		if escaped {
			piece = nil
			for _, r := range string(raw[1 : len(raw)-1]) {
				if r < 0x80 {
					piece = append(piece, byte(r))
				} else {
					piece = fmt.Appendf(piece, "\\u%04x", r)
				}
			}
		}
		pieces, text = append(pieces, piece), text[n:]
	}
	return pieces
}
