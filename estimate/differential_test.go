package estimate

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// alphabets hold what texts of the differential test are put together from, a
// kind of trouble each.
var alphabets = map[string][]string{
	"contractions": {"'", "s", "S", "t", "re", "VE", "m", "ll", "L", "d", "'s", "'RE", "don", " I", "A", " ", "’", "1", "ß"},
	"case":         {"a", "b", "A", "B", "é", "É", "ǅ", "ʰ", "ª", "中", "ا", "́", "़", "!", " ", "\u00a0", "'s", "1", "ß", "ᾈ"},
	"blanks":       {" ", "  ", "\n", "\r\n", "\r", "\t", "\u00a0", "\u0085", "\u2003", "\u3000", "\v", "a", "A", "1", "!", "/", "\u200b"},
	"symbols":      {"!", "/", "//", "\\", "<|endoftext|>", "<|im_start|>", "\n", "\r", " ", "=", "🙂", "👩‍👧", "€", "́", "a", "Z", "9", "\x00", "\x7f", "\ufffd"},
	"numbers":      {"1", "23", "4567", "²", "Ⅷ", "٣", "½", "一", " ", ",", ".", "a", "\n"},
	"chinese":      {"的", "一", "是", "不", "了", "人", "我", "在", "有", "他", "这", "中", "大", "来", "上", "国", "年", "发", "展", "，", "。", "龘", "𠀀", "々", "〇", " "},
	"others":       {"при", "вет", "о", "п", " п", "ст", "П", "가", "는", "이", " 하", "の", "カ", "ー", "を", "क", "ि", "् ", "م", "ال", "و", " ", "ש", "α", "ς", "ა", "ո", "—", "“"},
	"runs":         {"aaaaaaaa", "________", "        ", "\n\n\n\n", "========", "的的的的", "........", "🙂🙂🙂", "AAAA", "0000", "-----", "ааааа"},
}

// sameAsOracle compares a count with tiktoken-go's. tiktoken-go does not fold
// the long s as the reference does, so texts with it are left out.
func sameAsOracle(t *testing.T, encoding, text string) {
	t.Helper()
	if strings.Contains(text, "'\u017f") {
		return
	}
	got, want := counter.Text(encoding, text), len(oracle(t, encoding).EncodeOrdinary(text))
	if got != want {
		t.Errorf("%s of %+q: got %d tokens, want %d", encoding, text, got, want)
	}
}

func TestAlphabets(t *testing.T) {
	t.Parallel()
	for name, parts := range alphabets {
		for _, e := range encodings {
			t.Run(name+"/"+e, func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(1, uint64(len(name))))
				for range 1000 {
					var b strings.Builder
					for range 1 + r.IntN(24) {
						b.WriteString(parts[r.IntN(len(parts))])
					}
					sameAsOracle(t, e, b.String())
				}
			})
		}
	}
}

// Every character beside neighbours of each kind. The characters that Go's
// tables do not know yet are left out: tiktoken-go uses those tables.
func TestCharacters(t *testing.T) {
	t.Parallel()
	around := []string{"%", "!%a", "A%B", " %%\n", "1%'s"}
	for _, e := range []string{O200kBase, CL100kBase} {
		var b strings.Builder
		for r := rune(0); r <= utf8.MaxRune; r += 1 + r>>9 {
			if !utf8.ValidRune(r) || isNewer(r) {
				continue
			}
			for _, a := range around {
				b.WriteString(strings.ReplaceAll(a, "%", string(r)))
			}
			if b.Len() > 200 {
				sameAsOracle(t, e, b.String())
				b.Reset()
			}
		}
	}
}

func isNewer(r rune) bool {
	for _, n := range newer {
		if r >= n.lo && r <= n.hi {
			return true
		}
	}
	return false
}

// Tokens that begin or end inside a character are those that could tear one
// that is taken whole: each is put into characters that it fits, with
// neighbours on both sides.
func TestTornCharacters(t *testing.T) {
	t.Parallel()
	for e, data := range map[string]string{O200kBase: o200kRanks, CL100kBase: cl100kRanks, P50kBase: p50kRanks} {
		var chars, torn []string
		for i := 0; i < len(data); i += 1 + int(data[i]) {
			token := data[i+1 : i+1+int(data[i])]
			switch r, size := utf8.DecodeRuneInString(token); {
			case size == len(token) && size > 1 && r != utf8.RuneError:
				chars = append(chars, token)
			case !utf8.ValidString(token) && len(token) > 1:
				torn = append(torn, token)
			}
		}
		r := rand.New(rand.NewPCG(2, 2))
		tried := 0
		for _, token := range torn {
			for range 3 {
				text, ok := complete(r, token, chars)
				if !ok {
					continue
				}
				tried++
				sameAsOracle(t, e, text)
				sameAsOracle(t, e, "a"+chars[r.IntN(len(chars))]+text+chars[r.IntN(len(chars))])
			}
		}
		t.Logf("%s: %d tokens with a torn character, %d texts", e, len(torn), tried)
	}
}

// complete puts random characters of chars around token where it begins or
// ends inside one.
func complete(r *rand.Rand, token string, chars []string) (string, bool) {
	from := r.IntN(len(chars))
	for i := range chars {
		c := chars[(from+i)%len(chars)]
		for k := 1; k < len(c); k++ {
			if strings.HasPrefix(token, c[k:]) && !utf8.RuneStart(token[0]) {
				if text := c[:k] + token; utf8.ValidString(text) {
					return text, true
				} else if full, ok := completeTail(r, text, chars); ok {
					return full, true
				}
			}
		}
	}
	return completeTail(r, token, chars)
}

func completeTail(r *rand.Rand, text string, chars []string) (string, bool) {
	from := r.IntN(len(chars))
	for i := range chars {
		c := chars[(from+i)%len(chars)]
		for k := 1; k < len(c); k++ {
			if strings.HasSuffix(text, c[:k]) && utf8.ValidString(text+c[k:]) {
				return text + c[k:], true
			}
		}
	}
	return "", false
}

func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"\xff", "a\xffb", "\xe4\xbd", "ab\xe4\xbd\xff\xff!", "\xed\xa0\x80", "的\x80的"} {
		for _, e := range encodings {
			sameAsOracle(t, e, s)
			if got, want := counter.Text(e, s), counter.Text(e, string([]rune(s))); got != want {
				t.Errorf("%s of %q: got %d tokens, want the %d of its replacement", e, s, got, want)
			}
		}
	}
}

// The reference folds the long s in contractions; tiktoken-go does not. The
// counts are OpenAI's tiktoken's.
func TestLongS(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		encoding, text string
		want           int
	}{
		{O200kBase, "it'\u017f", 3},
		{O200kBase, "it'\u017fa", 4},
		{O200kBase, "A'\u017fx'\u017f", 6},
		{O200kBase, "'\u017fx", 3},
		{O200kBase, "x'\u212a", 4},
		{CL100kBase, "it'\u017f", 4},
		{CL100kBase, "it'\u017fa", 5},
		{CL100kBase, "A'\u017fx'\u017f", 8},
		{CL100kBase, "'\u017fx", 4},
		{CL100kBase, "x'\u212a", 4},
		{P50kBase, "it'\u017f", 4},
		{P50kBase, "it'\u017fa", 5},
		{P50kBase, "A'\u017fx'\u017f", 8},
		{P50kBase, "'\u017fx", 4},
		{P50kBase, "x'\u212a", 5},
	} {
		if got := counter.Text(c.encoding, c.text); got != c.want {
			t.Errorf("%s of %+q: got %d tokens, want %d", c.encoding, c.text, got, c.want)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, parts := range alphabets {
		f.Add(strings.Join(parts, ""))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 512 { // tiktoken-go takes quadratic time
			text = text[:512]
		}
		for _, r := range text {
			if isNewer(r) {
				return
			}
		}
		for _, e := range encodings {
			sameAsOracle(t, e, text)
		}
	})
}
