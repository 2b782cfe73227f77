package folder

import (
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/gguf"
)

// ggufEncodings are the types of GGUF files that are read. Blocks are as ggml's headers describe
// them; a weight is rounded once, to float32.
var ggufEncodings = map[gguf.Type]*encoding{
	gguf.F32: &floats, gguf.F16: &halves, gguf.BF16: &brains,
	gguf.Q8_0:   q8,
	gguf.Q4_0:   blocks(gguf.Q4_0, attn.Q4_0, decodeQ4),
	gguf.IQ4_NL: blocks(gguf.IQ4_NL, attn.IQ4_NL, decodeIQ4),
	gguf.MXFP4:  blocks(gguf.MXFP4, attn.MXFP4, decodeMXFP4),
	gguf.Q4_K:   blocks(gguf.Q4_K, attn.Q4_K, decodeQ4K),
	gguf.Q5_K:   blocks(gguf.Q5_K, attn.Q5_K, decodeQ5K),
	gguf.Q6_K:   q6K,
	gguf.Q5_0: others(gguf.Q5_0, decodeIntegers(integersQ50, 16, false),
		reblocked{q8, toQ8(integersQ50, 16), nil}),
	gguf.Q4_1: others(gguf.Q4_1, decodeIntegers(integersQ41, 0, true),
		reblocked{q8, toQ8(integersQ41, 0), second}),
	gguf.Q5_1: others(gguf.Q5_1, decodeIntegers(integersQ51, 0, true),
		reblocked{q8, toQ8(integersQ51, 0), second}),
	gguf.Q3_K: others(gguf.Q3_K, decodeQ3K, reblocked{q6K, toQ6K, nil}),
}

// The types that others become.
var (
	q8  = blocks(gguf.Q8_0, attn.Q8_0, decodeQ8)
	q6K = blocks(gguf.Q6_K, attn.Q6_K, decodeQ6K)
)

// others is a type that is packed as another.
func others(t gguf.Type, decode func([]float32, []byte), as reblocked) *encoding {
	e := blocks(t, as.to.block, decode)
	e.as = &as
	return e
}

func blocks(t gguf.Type, b attn.BlockType, decode func([]float32, []byte)) *encoding {
	elements, bytes := t.Block()
	return &encoding{name: t.String(), elements: elements, bytes: bytes, format: -1, block: b,
		quantized: true, decode: decode}
}

// decodeQ8: a scale and 32 integers of 8 bits.
func decodeQ8(to []float32, b []byte) {
	d := halfAt(b)
	for i, x := range b[2:] {
		to[i] = d * float32(int8(x))
	}
}

// decodeQ4: a scale and 32 integers of 4 bits less 8, those of the first half below the others.
func decodeQ4(to []float32, b []byte) {
	d := halfAt(b)
	for i, x := range b[2:] {
		to[i], to[i+16] = d*(float32(x&15)-8), d*(float32(x>>4)-8)
	}
}

// levelsIQ4 are what the 16 values of 4 bits stand for.
var levelsIQ4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89,
	113}

func decodeIQ4(to []float32, b []byte) {
	d := halfAt(b)
	for i, x := range b[2:] {
		to[i], to[i+16] = d*levelsIQ4[x&15], d*levelsIQ4[x>>4]
	}
}

// levelsMXFP4 are numbers with one bit for the sign, two for the exponent and one for the fraction.
var levelsMXFP4 = [16]float32{0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6}

// decodeMXFP4: the exponent of a scale, and 32 numbers of 4 bits.
func decodeMXFP4(to []float32, b []byte) {
	d := float32(math.Ldexp(1, int(b[0])-127))
	for i, x := range b[1:] {
		to[i], to[i+16] = d*levelsMXFP4[x&15], d*levelsMXFP4[x>>4]
	}
}

// decodeQ4K: scales of the scales and of the minima, 8 of both in 6 bits, and 256 integers of 4.
func decodeQ4K(to []float32, b []byte) {
	for i := range 8 {
		d, least := subScale(b, i)
		for j, x := range b[16+i/2*32:][:32] {
			to[32*i+j] = float32(d*float64(x>>(i%2*4)&15) - least)
		}
	}
}

// decodeQ5K is the same with a fifth bit of each integer before the others.
func decodeQ5K(to []float32, b []byte) {
	for i := range 8 {
		d, least := subScale(b, i)
		for j, x := range b[48+i/2*32:][:32] {
			n := x>>(i%2*4)&15 | b[16+j]>>i&1<<4
			to[32*i+j] = float32(d*float64(n) - least)
		}
	}
}

// subScale is scale and minimum of 32 integers. float64 holds products of them exactly.
func subScale(b []byte, i int) (d, least float64) {
	s := b[4:16]
	scale, low := s[i&3]&63, s[i&3+4]&63
	if i >= 4 {
		scale, low = s[i+4]&15|s[i-4]>>6<<4, s[i+4]>>4|s[i]>>6<<4
	}
	return float64(halfAt(b)) * float64(scale), float64(halfAt(b[2:])) * float64(low)
}

// decodeQ6K: 256 integers of 6 bits less 32, 4 of them before the other 2, a scale of 8 bits for
// each 16, and one of those.
func decodeQ6K(to []float32, b []byte) {
	low, high, scales, d := b[:128], b[128:192], b[192:208], halfAt(b[208:])
	for i := range to {
		half, quarter, j := i/128, i/32%4, i%32
		n := low[64*half+quarter%2*32+j]>>(quarter/2*4)&15 | high[32*half+j]>>(2*quarter)&3<<4
		to[i] = d * float32(int8(scales[i/16])) * float32(int(n)-32)
	}
}
