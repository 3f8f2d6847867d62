package estimate

// A splitter returns the end of the piece that begins at b[i], i < len(b). b is
// valid UTF-8. Each one gives exactly what its encoding's regular expression
// matches there; the expressions are those of tiktoken, as tiktoken-go states
// them, and every alternative below names its own.
type splitter func(t *classTable, b []byte, i int) int

// splitO200k is the splitter of o200k_base:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func splitO200k(t *classTable, b []byte, i int) int {
	c, n := t.at(b, i)
	if c&(letter|number|newline) == 0 {
		if end := wordO200k(t, b, i+n); end >= 0 {
			return end + contraction(b, end)
		}
	}
	if c&(head|tail) != 0 {
		// Without the optional character in front. A mark that stands before
		// capitals gets here too, and is a word alone: it is in both classes.
		if end := wordO200k(t, b, i); end >= 0 {
			return end + contraction(b, end)
		}
	}
	return splitRest(t, b, i, c, n, true)
}

// wordO200k is the end of [head]*[tail]+ at i, else that of [head]+[tail]*,
// else -1. Letters without case and marks are of both classes, so a run of
// heads without a tail after it gives back as much as it takes to end in one of
// those.
func wordO200k(t *classTable, b []byte, i int) int {
	start, both := i, -1 // both: end of the last character of both classes
	for i < len(b) {
		c, n := t.at(b, i)
		if c&head == 0 {
			if c&tail == 0 {
				break
			}
			return runEnd(t, b, i+n, tail)
		}
		i += n
		if c&tail != 0 {
			both = i
		}
	}
	switch {
	case both >= 0:
		return both
	case i > start:
		return i
	}
	return -1
}

// splitCL100k is the splitter of cl100k_base:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)
//	[^\r\n\p{L}\p{N}]?\p{L}+
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func splitCL100k(t *classTable, b []byte, i int) int {
	if k := contraction(b, i); k > 0 {
		return i + k
	}
	c, n := t.at(b, i)
	if c&(number|newline) == 0 {
		if end := runEnd(t, b, i+n, letter); end > i+n || c&letter != 0 {
			return end
		}
	}
	return splitRest(t, b, i, c, n, false)
}

// splitRest is what o200k_base and cl100k_base have in common after words:
// numbers, symbols and blanks. c and n are the class and the size of the
// character at i. In o200k_base a run of symbols takes slashes behind its line
// ends too.
func splitRest(t *classTable, b []byte, i int, c class, n int, slash bool) int {
	if c&number != 0 {
		for k := 1; k < 3; k++ {
			if i += n; i == len(b) {
				return i
			}
			if c, n = t.at(b, i); c&number == 0 {
				return i
			}
		}
		return i + n
	}
	j, d, m := i, c, n
	if b[i] == ' ' && i+1 < len(b) {
		j = i + 1
		d, m = t.at(b, j)
	}
	if d&(blank|letter|number) == 0 {
		for j += m; j < len(b); j += m {
			if d, m = t.at(b, j); d&(blank|letter|number) != 0 {
				break
			}
		}
		for j < len(b) && (b[j] == '\r' || b[j] == '\n' || slash && b[j] == '/') {
			j++
		}
		return j
	}
	return splitBlanks(t, b, i, true)
}

// splitP50k is the splitter of p50k_base and r50k_base:
//
//	's|'t|'re|'ve|'m|'ll|'d
//	 ?\p{L}+
//	 ?\p{N}+
//	 ?[^\s\p{L}\p{N}]+
//	\s+(?!\S)
//	\s+
func splitP50k(t *classTable, b []byte, i int) int {
	if k := contraction(b, i); k > 0 && isLower(b[i+1:i+k]) {
		return i + k
	}
	j := i
	if b[i] == ' ' && i+1 < len(b) {
		j++
	}
	c, n := t.at(b, j)
	switch {
	case c&letter != 0:
		return runEnd(t, b, j+n, letter)
	case c&number != 0:
		return runEnd(t, b, j+n, number)
	case c&blank == 0:
		for j += n; j < len(b); j += n {
			if c, n = t.at(b, j); c&(blank|letter|number) != 0 {
				break
			}
		}
		return j
	}
	return splitBlanks(t, b, i, false)
}

// splitBlanks is the end of the piece of blanks at i: where lines is set, up to
// the last line end among them (\s*[\r\n]+); else all of them at the end of the
// text, or all but the last, which goes with what follows (\s+(?!\S)); else the
// only one (\s+).
func splitBlanks(t *classTable, b []byte, i int, lines bool) int {
	last, line, j := i, -1, i // last: start of the last blank; line: end of the last line end
	for j < len(b) {
		c, n := t.at(b, j)
		if c&blank == 0 {
			break
		}
		last = j
		j += n
		if c&newline != 0 {
			line = j
		}
	}
	switch {
	case lines && line >= 0:
		return line
	case j == len(b) || last == i:
		return j
	}
	return last
}

// runEnd is the end of the run of characters of class want at i.
func runEnd(t *classTable, b []byte, i int, want class) int {
	for i < len(b) {
		c, n := t.at(b, i)
		if c&want == 0 {
			break
		}
		i += n
	}
	return i
}

// contraction is the length of (?i:'s|'t|'re|'ve|'m|'ll|'d) at b[i], or 0. As
// in the Rust reference, s without case is also U+017F, the long s (tiktoken-go
// differs there).
func contraction(b []byte, i int) int {
	if i+1 >= len(b) || b[i] != '\'' {
		return 0
	}
	switch b[i+1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if i+2 < len(b) && b[i+2]|0x20 == 'e' {
			return 3
		}
	case 'l':
		if i+2 < len(b) && b[i+2]|0x20 == 'l' {
			return 3
		}
	case 0xC5 | 0x20:
		if i+2 < len(b) && b[i+1] == 0xC5 && b[i+2] == 0xBF {
			return 3
		}
	}
	return 0
}

func isLower(b []byte) bool {
	for _, c := range b {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}
