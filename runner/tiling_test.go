package runner

import "testing"

func TestTiling(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lines [][2]int64 // where they begin, and their bytes without the line end
		size  int64
		want  bool
	}{
		"nothing":                 {nil, 0, true},
		"a file without rows":     {nil, 10, false},
		"rows without a file":     {[][2]int64{{0, 9}}, 0, false},
		"one":                     {[][2]int64{{0, 9}}, 10, true},
		"in order":                {[][2]int64{{0, 9}, {10, 4}, {15, 0}}, 16, true},
		"in any order":            {[][2]int64{{15, 0}, {0, 9}, {10, 4}}, 16, true},
		"a line more in the file": {[][2]int64{{0, 9}, {10, 4}}, 16, false},
		"a gap":                   {[][2]int64{{0, 9}, {15, 0}}, 16, false},
		"none at the start":       {[][2]int64{{10, 4}, {15, 0}}, 16, false},
		"one twice":               {[][2]int64{{0, 9}, {10, 4}, {10, 4}, {15, 0}}, 16, false},
		"the whole file twice":    {[][2]int64{{0, 9}, {10, 4}, {15, 0}, {0, 15}}, 16, false},
		"two that overlap":        {[][2]int64{{0, 9}, {9, 5}, {15, 0}}, 16, false},
		"as long, and elsewhere":  {[][2]int64{{1, 9}, {11, 4}}, 15, false},
	} {
		var lines tiling
		for _, l := range tt.lines {
			lines.add(l[0], l[1])
		}
		if got := lines.covers(tt.size); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
	}
}
