package estimate

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the rank files from tiktoken-go-loader's ranks")

// The rank files hold the ranks of tiktoken-go-loader, each and no others; with
// -update they are written from them.
func TestRankFiles(t *testing.T) {
	t.Parallel()
	for e, embedded := range map[string]string{O200kBase: o200kRanks, CL100kBase: cl100kRanks, P50kBase: p50kRanks} {
		want := rankFile(t, loaderRanks(t, e))
		if *update {
			if err := os.WriteFile(filepath.Join("ranks", e+".ranks"), want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if string(want) != embedded {
			t.Errorf("ranks of %s differ from those of tiktoken-go-loader; go generate writes them anew", e)
		}
	}
}

// rankFile puts ranks into the form of a rank file.
func rankFile(t *testing.T, ranks map[string]int) []byte {
	t.Helper()
	last := 0
	for _, rank := range ranks {
		last = max(last, rank)
	}
	tokens := make([]string, last+1)
	for token, rank := range ranks {
		tokens[rank] = token
	}
	var file []byte
	for _, token := range tokens {
		if len(token) > maxToken {
			t.Fatalf("a token of %d bytes: longer than maxToken", len(token))
		}
		file = append(append(file, byte(len(token))), token...)
	}
	return file
}

// r50k_base is the beginning of p50k_base.
func TestR50kRanks(t *testing.T) {
	t.Parallel()
	want := rankFile(t, loaderRanks(t, R50kBase))
	if !strings.HasPrefix(p50kRanks, string(want)) {
		t.Errorf("%s is not the beginning of %s", R50kBase, P50kBase)
	}
}

func TestDamagedRanks(t *testing.T) {
	t.Parallel()
	_, err := loadRanks(O200kBase, o200kRanks[:len(o200kRanks)-1]+"!", o200kSum, none)
	if err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("got %v, want an error about the checksum", err)
	}
}

// The first count is to come within 60 ms of the start on a quiet machine; the
// bound here is for one that is not.
func TestFirstCount(t *testing.T) {
	start := time.Now()
	NewCounter().Text(O200kBase, "hello world")
	if took := time.Since(start); took > time.Second {
		t.Errorf("the first count took %v", took)
	}
}

// Without the pool, which the race detector makes lose things at random.
func TestAllocations(t *testing.T) {
	text := []byte(strings.Repeat("The quick brown fox, 12 345 of them; прыгает через 懒狗。\n", 40) + strings.Repeat("x", 5000))
	for _, name := range encodings {
		e, s := counter.encoding(name), new(scratch)
		count := func() {
			for i := 0; i < len(text); {
				end := e.split(e.classes, text, i)
				e.piece(s, text, i, end)
				i = end
			}
		}
		count()
		if n := testing.AllocsPerRun(50, count); n > 0 {
			t.Errorf("%s: %v allocations a call, want 0", name, n)
		}
	}
}

func TestParallelCounts(t *testing.T) {
	t.Parallel()
	c := NewCounter()
	counts := make(chan int)
	for i := range 8 {
		go func() {
			n := 0
			for k := range 50 {
				n += c.Text(O200kBase, strings.Repeat("Größe 的 x", 1+(k*(i+1))%7*40))
				n -= counter.Text(O200kBase, strings.Repeat("Größe 的 x", 1+(k*(i+1))%7*40))
			}
			counts <- n
		}()
	}
	for range 8 {
		if n := <-counts; n != 0 {
			t.Errorf("counts beside each other are off by %d", n)
		}
	}
}

func BenchmarkFirstCount(b *testing.B) {
	for _, e := range encodings {
		b.Run(e, func(b *testing.B) {
			for b.Loop() {
				NewCounter().Text(e, "hello world")
			}
		})
	}
}
