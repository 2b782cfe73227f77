package blocks_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/seed-1415985d/attn/internal/blocks"
)

// splitMix returns the next number of a generator, which is short enough to repeat in C.
func splitMix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// decodedHash is the FNV-1a hash, word by word, of the weights of n blocks of random bits.
func decodedHash(typ blocks.Type, n int) uint64 {
	of, state, h := typ.Traits(), uint64(1), uint64(0xcbf29ce484222325)
	block := make([]byte, (of.Bytes+7)/8*8)
	weights := make([]float32, of.Inputs)
	for range n {
		for i := 0; i < len(block); i += 8 {
			binary.LittleEndian.PutUint64(block[i:], splitMix(&state))
		}
		blocks.Decode(typ, weights, block[:of.Bytes])
		for _, w := range weights {
			x := math.Float32bits(w)
			if w != w {
				x = 0x7fc00000
			}
			h = (h ^ uint64(x)) * 0x100000001b3
		}
	}
	return h
}

// Weights are those of ggml's dequantize_row functions: hashes are of its C code, compiled apart,
// which was compared on a million blocks of each type.
func TestDecodeIsGGML(t *testing.T) {
	for typ, want := range map[blocks.Type]uint64{
		blocks.Q1_0:    0xefcb4ef4797e6325,
		blocks.Q2_0:    0x26ddf3d2e31c8325,
		blocks.IQ2_XXS: 0x84d6923951c257d1,
		blocks.IQ2_XS:  0xba8180901a986e19,
		blocks.IQ2_S:   0x6dbdfa2f3e7bc6f9,
		blocks.IQ3_XXS: 0xa2a85c7591d7acbd,
		blocks.IQ3_S:   0x12fe025537cfda25,
		blocks.IQ1_S:   0xfca484737fe07385,
		blocks.IQ1_M:   0x6eb8b7dd88c7bd65,
	} {
		if got := decodedHash(typ, 20_000); got != want {
			t.Errorf("%v: the hash is %#x, want %#x", typ, got, want)
		}
	}
}
