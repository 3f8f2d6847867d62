package cmd

import "testing"

// TestRoomOfTheHeap: what the heap may grow by between two collections is more where little else is held.
func TestRoomOfTheHeap(t *testing.T) {
	for _, test := range []struct{ calls, lines, least, most int }{ // MB
		{0, 10_000, 55, 70},
		{1024, 100_000, 50, 65},
		{0, 1_000_000, 25, 30}, // else a million lines take more than 200 MB
		{0, 10_000_000, 20, 30},
		{10_000, 60_000, 40, 55},
	} {
		live := restOfHeap + callInAir*max(0, test.calls-manyCalls) + indexedLine*test.lines
		room := live / 100 * gcPercent(test.calls, test.lines) >> 20
		if room < test.least || room > test.most {
			t.Errorf("%d calls, %d lines: got %d MB, want %d to %d", test.calls, test.lines, room, test.least, test.most)
		}
	}
}
