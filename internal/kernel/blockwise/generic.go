package blockwise

import (
	"encoding/binary"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/f32"
)

// Products by matrices of blocks: plain loops, which kernels equal. Offsets are those that
// package blocks describes.

// weights is 32 inputs of an output: d·(scales·n) − dmin·min.
type weights struct {
	n       [blocks.Inputs]int8
	scales  [2]int32 // of each half
	min     int32
	d, dmin float32
}

// Levels of four bits; those of MXFP4 are doubled.
var (
	levelsQ4   = [16]int8{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}
	levelsIQ4  = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	levelsMXFP = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

// unpackBlockGeneric makes x the weights of an output in the panel of a number, of the inputs with
// that number from x on, a packed block of type t.
func unpackBlockGeneric(t blocks.Type, x *weights, packed []byte, block, output int) {
	half := func(at int) uint16 { return binary.LittleEndian.Uint16(packed[at+2*output:]) }
	part := packed[t.Header()+block*t.Part():]
	*x = weights{d: f32.FromF16(half(0)), scales: [2]int32{1, 1}}
	switch t {
	case blocks.MXFP4:
		x.d = f32.FromBF16(half(0))
	case blocks.Q4_K, blocks.Q5_K:
		x.dmin = f32.FromF16(half(2 * panel))
		x.scales = [2]int32{int32(part[output]), int32(part[output])}
		x.min, part = int32(part[panel+output]), part[blocks.PartScales:]
	case blocks.Q6_K:
		x.scales = [2]int32{int32(int8(part[output])), int32(int8(part[panel+output]))}
		part = part[blocks.PartScales:]
	}
	for i := range x.n {
		x.n[i] = unpackWeight(t, part, output, i)
	}
}

// unpackWeight is the integer of one of blocks.Inputs of an output, whose words are given.
func unpackWeight(t blocks.Type, words []byte, output, i int) int8 {
	group, in := i/4, 4*output+i%4
	if t == blocks.Q8_0 {
		return int8(words[4*panel*group+in])
	}
	nibble := int8(words[4*panel*(group%4)+in] >> (group / 4 * 4) & 15)
	switch t {
	case blocks.Q4_0:
		return nibble - 8
	case blocks.IQ4_NL:
		return levelsIQ4[nibble]
	case blocks.MXFP4:
		return levelsMXFP[nibble]
	case blocks.Q5_K:
		return nibble | int8(words[blocks.BitsAt+in]>>group&1)<<4
	case blocks.Q6_K:
		upper := words[blocks.BitsAt+4*panel*(group/4)+in] >> (group % 4 * 2) & 3
		return nibble | int8(upper<<4) - 32
	}
	return nibble
}

// decodeBlocksGeneric makes dst the weights of the first 32·n inputs of a panel of outputs: that
// of input k and output c is at k·panel + c. Products are exact; this order is that of ggml's
// dequantize_row functions, with which zeros have the same signs.
func decodeBlocksGeneric(t blocks.Type, dst []float32, packed []byte, n int) {
	var x weights
	per, size := t.Traits().Inputs/blocks.Inputs, t.Traits().Packed
	for c := range panel {
		for k := range n {
			unpackBlockGeneric(t, &x, packed[k/per*size:], k%per, c)
			less := float32(x.dmin * float32(x.min))
			for i, e := range x.n {
				scale := float32(x.d * float32(x.scales[2*i/blocks.Inputs]))
				dst[(k*blocks.Inputs+i)*panel+c] = float32(scale*float32(e)) - less
			}
		}
	}
}

// multiplyBlocksGeneric is o_rc = a·b of rows of 32·n inputs, in integers with scales.
func multiplyBlocksGeneric(t blocks.Type, o []float32, a []Row, packed []byte, rows, n, oStride,
	aStride int) {
	var x weights
	per, size := t.Traits().Inputs/blocks.Inputs, t.Traits().Packed
	for r := range rows {
		clear(o[r*oStride:][:panel])
	}
	for c := range panel {
		for k := range n {
			unpackBlockGeneric(t, &x, packed[k/per*size:], k%per, c)
			for r := range rows {
				row, sum, total := &a[r*aStride+k], &o[r*oStride+c], int32(0)
				var sums [2]int32
				for i, e := range x.n {
					sums[2*i/blocks.Inputs] += int32(e) * int32(row.integers[i])
					total += int32(row.integers[i])
				}
				products := x.scales[0]*sums[0] + x.scales[1]*sums[1]
				*sum = f32.FMA(float32(products), float32(row.scale*x.d), *sum)
				if t == blocks.Q4_K || t == blocks.Q5_K {
					*sum = f32.FMA(float32(x.min*total), -float32(row.scale*x.dmin), *sum)
				}
			}
		}
	}
}

func sumBlocksGeneric(dst []Row, scales []float32) {
	for i := range dst {
		b := &dst[i]
		var sums [2]int32
		for k, e := range b.integers {
			sums[2*k/blocks.Inputs] += int32(e)
		}
		b.scale, b.sum = scales[i], sums[0]+sums[1]
		b.start, b.halves = -128*b.sum, [2]int32{-32 * sums[0], -32 * sums[1]}
		b.eighths = [2]int16{int16(-8 * sums[0]), int16(-8 * sums[1])}
	}
}
