package runner

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStampOfTimeSetBack: other bytes, but size and time of modification as before.
func TestStampOfTimeSetBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	at := time.Unix(1_700_000_000, 0)
	put := func(text string) string {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return stamp(path)
	}
	before := put("one")
	for end := time.Now().Add(2 * time.Second); put("two") == before; { // the kernel's clock goes by ticks
		if time.Now().After(end) {
			t.Fatalf("still %s", before)
		}
	}
}
