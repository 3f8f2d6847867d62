package estimate

import "testing"

func BenchmarkFirstCount(b *testing.B) {
	for _, e := range encodings {
		b.Run(e, func(b *testing.B) {
			for b.Loop() {
				NewCounter().Text(e, "hello world")
			}
		})
	}
}
