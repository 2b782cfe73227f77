// Package blockstest has weights in blocks for tests, and what they are by an independent decoder.
package blockstest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/f32"
)

// Types are those in blocks, all but the two of one number each.
var Types = []blocks.Type{blocks.Q8_0, blocks.Q4_0, blocks.IQ4_NL, blocks.Q4_K, blocks.Q5_K,
	blocks.Q6_K, blocks.MXFP4}

// Weight is a weight of a block as an independent decoder reads it: d·scale·n − dmin·min.
type Weight struct {
	D, Dmin       float64
	Scale, N, Min int64
}

// Value is the weight.
func (w Weight) Value() float64 {
	return w.D*float64(w.Scale)*float64(w.N) - w.Dmin*float64(w.Min) // with the sign of a zero
}

func halfAt(x []byte) float64 {
	return float64(f32.FromF16(uint16(x[0]) | uint16(x[1])<<8))
}

// weightsOf decodes a block as ggml's dequantize_row functions do, in their order.
func weightsOf(t blocks.Type, x []byte) (y []Weight) {
	nibbles := func(d float64, qs []byte, level func(n byte) int64) {
		y = make([]Weight, 32)
		for j, q := range qs {
			y[j] = Weight{D: d, Scale: 1, N: level(q & 0xf)}
			y[j+16] = Weight{D: d, Scale: 1, N: level(q >> 4)}
		}
	}
	switch t {
	case blocks.Q8_0:
		for _, q := range x[2:] {
			y = append(y, Weight{D: halfAt(x), Scale: 1, N: int64(int8(q))})
		}
	case blocks.Q4_0:
		nibbles(halfAt(x), x[2:], func(n byte) int64 { return int64(n) - 8 })
	case blocks.IQ4_NL:
		levels := []int64{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
		nibbles(halfAt(x), x[2:], func(n byte) int64 { return levels[n] })
	case blocks.MXFP4:
		levels := []int64{0, 1, 2, 3, 4, 6, 8, 12}
		nibbles(math.Ldexp(1, int(x[0])-128), x[1:], func(n byte) int64 {
			if n >= 8 {
				return -levels[n-8]
			}
			return levels[n]
		})
	case blocks.Q4_K, blocks.Q5_K:
		return ofK(t, x)
	case blocks.Q6_K:
		return ofSixBits(x)
	}
	return y
}

// ofK decodes Q4_K or Q5_K.
func ofK(t blocks.Type, x []byte) (y []Weight) {
	d, dmin, scales := halfAt(x), halfAt(x[2:]), x[4:16]
	var qh, ql []byte = nil, x[16:]
	if t == blocks.Q5_K {
		qh, ql = x[16:48], x[48:]
	}
	scaleMin := func(j int) (sc, m int64) {
		if j < 4 {
			return int64(scales[j] & 63), int64(scales[j+4] & 63)
		}
		return int64(scales[j+4]&0xf | scales[j-4]>>6<<4), int64(scales[j+4]>>4 | scales[j]>>6<<4)
	}
	for j := range 8 {
		sc, m := scaleMin(j)
		for l := range 32 {
			n := int64(ql[j/2*32+l] >> (4 * (j % 2)) & 0xf)
			if qh != nil && qh[l]&(1<<j) != 0 {
				n += 16
			}
			y = append(y, Weight{D: d, Dmin: dmin, Scale: sc, N: n, Min: m})
		}
	}
	return y
}

// ofSixBits decodes Q6_K.
func ofSixBits(x []byte) []Weight {
	y := make([]Weight, 256)
	ql, qh, sc, d := x[:128], x[128:192], x[192:208], halfAt(x[208:])
	for n := 0; n < 256; n += 128 {
		for l := range 32 {
			is := l / 16
			for i, q := range [4]byte{ql[l]&0xf | qh[l]&3<<4, ql[l+32]&0xf | qh[l]>>2&3<<4,
				ql[l]>>4 | qh[l]>>4&3<<4, ql[l+32]>>4 | qh[l]>>6&3<<4} {
				y[n+l+32*i] = Weight{D: d, Scale: int64(int8(sc[is+2*i])), N: int64(q) - 32}
			}
		}
		ql, qh, sc = ql[64:], qh[32:], sc[8:]
	}
	return y
}

// ScaleBytes are where the scales in F16 of a block are.
func ScaleBytes(t blocks.Type) []int {
	switch t {
	case blocks.Q4_K, blocks.Q5_K:
		return []int{0, 2}
	case blocks.Q6_K:
		return []int{208}
	case blocks.MXFP4:
		return nil
	}
	return []int{0}
}

// File is the bytes of a file with any bits, of which scales are finite, and not too large
// for sums.
func File(r *rand.Rand, t blocks.Type, outputs, inputs int) []byte {
	of := t.Traits()
	data := make([]byte, outputs*inputs/of.Inputs*of.Bytes)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	for at := 0; at < len(data); at += of.Bytes {
		for _, s := range ScaleBytes(t) {
			d := f32.ToF16(float32(r.NormFloat64() / 100))
			if r.IntN(50) == 0 {
				d = []uint16{0, 0x8000, 1, 0x7bff}[r.IntN(4)]
			}
			binary.LittleEndian.PutUint16(data[at+s:], d)
		}
		if t == blocks.MXFP4 {
			data[at] = byte(110 + r.IntN(20))
			if r.IntN(50) == 0 {
				data[at] = []byte{0, 1, 2, 3, 220}[r.IntN(5)]
			}
		}
	}
	return data
}

// WeightsOf decodes all weights of a file, an output after the other.
func WeightsOf(t blocks.Type, data []byte) (y []Weight) {
	for size := t.Traits().Bytes; len(data) > 0; data = data[size:] {
		y = append(y, weightsOf(t, data[:size])...)
	}
	return y
}

// AnyBlocks goes through blocks of any bits, some of each type drawn and some of one byte, with an
// output in whose place they may be packed.
func AnyBlocks(r *rand.Rand, n int, yield func(t blocks.Type, block []byte, output int)) {
	for _, t := range Types {
		block := make([]byte, t.Traits().Bytes)
		for range n {
			for i := range block {
				block[i] = byte(r.Uint32())
			}
			yield(t, block, r.IntN(blocks.Outputs))
		}
		for e := range 256 {
			for i := range block {
				block[i] = byte(e)
			}
			yield(t, block, 0)
		}
	}
}
