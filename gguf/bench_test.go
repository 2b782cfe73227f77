package gguf

import (
	"maps"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

// BenchmarkDecode decodes rows, and says how many bytes of numbers a second.
func BenchmarkDecode(b *testing.B) {
	x := make([]float32, 1<<14)
	for i := range x {
		x[i] = float32(i*7919%1000) / 500
	}
	for _, name := range slices.Sorted(maps.Keys(gguftest.Types)) {
		b.Run(name, func(b *testing.B) {
			data, _ := gguftest.Encode(name, x)
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				if err := Type(gguftest.Types[name]).Decode(x, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
