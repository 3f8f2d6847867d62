package route

import (
	"fmt"
	"strings"
)

// suggest ends a message about an unknown name with the nearest known one, or
// with nothing where none is near.
func suggest(name string, known []string) string {
	near := Nearest(name, known)
	if near == "" && len(name) > 2 {
		for _, k := range known {
			if strings.HasPrefix(k, name) || strings.HasPrefix(name, k) {
				near = k
				break
			}
		}
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// Nearest returns the known name that a slip of the pen may have meant: at most
// one edit in four letters away, or two neighbours that changed places. Empty if
// none is.
func Nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, found := len(name)/4+1, ""
	for _, k := range known {
		if swapped(name, k) {
			return k
		}
		if d := edits(name, k); d < best {
			best, found = d, k
		}
	}
	return found
}

// swapped says that two names differ by two neighbours that changed places.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

// edits counts the bytes to insert, delete or replace to turn a into b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
