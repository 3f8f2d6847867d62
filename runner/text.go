package runner

import (
	"strconv"
	"time"
)

// Count writes a number with its noun: 1 call, 2,000 calls.
func Count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Grouped(n) + " " + noun + "s"
}

// Grouped writes a number with commas between its thousands.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Clock writes a moment, with its date where it is half a day away or more.
func Clock(now, at time.Time) string {
	if at.Sub(now) < 12*time.Hour {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}
