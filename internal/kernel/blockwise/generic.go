package blockwise

import (
	"encoding/binary"
	"math"

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
	float := func(at int) float32 {
		return math.Float32frombits(binary.LittleEndian.Uint32(packed[at+4*output:]))
	}
	*x = weights{scales: [2]int32{1, 1}}
	switch t {
	case blocks.Q8_0:
		x.d = float(0)
	case blocks.Q4_0, blocks.IQ4_NL:
		x.d = f32.FromF16(half(0))
	case blocks.MXFP4:
		x.d = f32.FromBF16(half(0))
	case blocks.Q4_K, blocks.Q5_K:
		x.d, x.dmin = f32.FromF16(half(0)), f32.FromF16(half(panel*2))
		at := packed[blocks.ScalesAt+2*panel*block+output:]
		x.scales, x.min = [2]int32{int32(at[0]), int32(at[0])}, int32(at[panel])
	case blocks.Q6_K:
		x.d = float(0)
		at := packed[blocks.ScalesAt+2*panel*block+output:]
		x.scales = [2]int32{int32(int8(at[0])), int32(int8(at[panel]))}
	}
	for i := range x.n {
		x.n[i] = unpackWeight(t, packed, block, output, i)
	}
}

// unpackWeight is the integer of input i of 32 of an output.
func unpackWeight(t blocks.Type, packed []byte, block, output, i int) int8 {
	group, in := i/4, 4*output+i%4
	at := func(words, group int) byte { return packed[words+4*panel*group+in] }
	nibble := func(x byte, upper bool) int8 {
		if upper {
			return int8(x >> 4)
		}
		return int8(x & 15)
	}
	switch t {
	case blocks.Q8_0:
		return int8(at(4*panel, group))
	case blocks.Q4_0:
		return nibble(at(2*panel, group%4), group >= 4) - 8
	case blocks.IQ4_NL:
		return levelsIQ4[nibble(at(2*panel, group%4), group >= 4)]
	case blocks.MXFP4:
		return levelsMXFP[nibble(at(2*panel, group%4), group >= 4)]
	case blocks.Q4_K:
		return nibble(at(blocks.WordsAt, block/2*8+group), block%2 == 1)
	case blocks.Q5_K:
		upper := at(blocks.WordsAt, group) >> block & 1
		return nibble(at(blocks.WordsAt+4*panel*8, block/2*8+group), block%2 == 1) | int8(upper<<4)
	}
	upper := at(blocks.WordsAt+4*panel*32, block/4*8+group) >> (block % 4 * 2) & 3
	return nibble(at(blocks.WordsAt, block/4*16+block%2*8+group), block%4 >= 2) | int8(upper<<4) - 32
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
		b.below = 0
		for k, e := range b.integers {
			sums[2*k/blocks.Inputs] += int32(e)
			b.below -= min(int32(e), 0)
		}
		b.scale, b.sum = scales[i], sums[0]+sums[1]
		b.start, b.halves = -128*b.sum, [2]int32{-128 * sums[0], -128 * sums[1]}
		b.eighths = [2]int16{int16(-8 * sums[0]), int16(-8 * sums[1])}
	}
}
