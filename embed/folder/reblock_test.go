package folder

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/gguf"
	"github.com/seed-1415985d/attn/internal/gguftest"
)

// Types that are packed as others mean exactly the same numbers there: those of an independent
// encoder, and of bytes at random.
func TestReblock(t *testing.T) {
	for kind := range reblockings {
		t.Run(kind.String(), func(t *testing.T) {
			e := encodingOfGGUF(kind)
			source := rand.New(rand.NewPCG(1, uint64(kind)))
			x := make([]float32, 64*e.elements)
			for i := range x {
				x[i] = float32(source.NormFloat64()) + 0.3
			}
			data, exact := gguftest.Encode(kind.String(), x)
			sameReblocked(t, e, data, exact)
			for i := range data {
				data[i] = byte(source.IntN(256))
			}
			for at := range len(data) / e.bytes {
				for _, half := range halvesOf(kind) {
					data[at*e.bytes+half] &^= 0x40 // no infinity, no NaN
				}
			}
			sameReblocked(t, e, data, nil)
		})
	}
}

// halvesOf are the upper bytes of a block's halves.
func halvesOf(kind gguf.Type) []int {
	return map[gguf.Type][]int{gguf.Q5_0: {1}, gguf.Q4_1: {1, 3}, gguf.Q5_1: {1, 3},
		gguf.Q3_K: {109}}[kind]
}

// sameReblocked compares what blocks and those in their place mean.
func sameReblocked(t *testing.T, e *encoding, data []byte, exact []float64) {
	t.Helper()
	blocks, minima := e.as.reblock(data)
	n := len(data) / e.bytes * e.elements
	direct, other := make([]float32, n), make([]float32, n)
	if err := errors.Join(e.decode(direct, data), e.as.to.Decode(other, blocks)); err != nil {
		t.Fatal(err)
	}
	for i, x := range other { // which is exact: a half times an integer of 16 bits at most
		sum := float64(x)
		if minima != nil {
			sum += float64(half(minima[i/MinimaInputs*2:]))
		}
		if exact != nil && sum != exact[i] || float32(sum) != direct[i] || math.IsNaN(sum) {
			t.Fatalf("number %d is %v in other blocks and %v decoded, want %v", i, sum, direct[i], exact)
		}
	}
}
