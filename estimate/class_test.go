package estimate

import "testing"

// The sizes of the classes are those of Unicode 16.0. Where this fails after a
// new Go release, its tables have moved on: newer is to be thought over then,
// for counts must not change with the toolchain.
func TestClassSizes(t *testing.T) {
	t.Parallel()
	sizes := make(map[string]int)
	table := classes()
	for _, n := range table.index {
		for _, c := range table.pages[n] {
			for name, bit := range map[string]class{"letter": letter, "number": number, "blank": blank, "head": head, "tail": tail} {
				if c&bit != 0 {
					sizes[name]++
				}
			}
			if c&(head|tail) != 0 && c&letter == 0 {
				sizes["mark"]++
			}
		}
	}
	for name, want := range map[string]int{"letter": 141028, "mark": 2501, "number": 1911, "blank": 25, "head": 141271, "tail": 141640} {
		if sizes[name] != want {
			t.Errorf("%d characters of class %s, want %d", sizes[name], name, want)
		}
	}
}
