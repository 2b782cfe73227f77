// Package blockstest has weights in blocks for tests, and an independent decoder.
package blockstest

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/f32"
)

// Types are all types but the two with one number a block.
var Types = blocks.Integers()

// Weight is a weight of a block as the independent decoder reads it: d·scale·n − dmin·min. For Q4_1
// and Q5_1 dmin is −m.
type Weight struct {
	D, Dmin       float64
	Scale, N, Min int64
}

// Value returns the weight.
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
	if t.Traits().Codes == blocks.Indices {
		return ofIndices(t, x)
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
	case blocks.Q4_1:
		nibbles(halfAt(x), x[4:], func(n byte) int64 { return int64(n) })
		return plus(halfAt(x[2:]), y)
	case blocks.Q5_0:
		y = ofFiveBits(halfAt(x), x[2:6], x[6:])
		for i := range y {
			y[i].N -= 16
		}
	case blocks.Q5_1:
		return plus(halfAt(x[2:]), ofFiveBits(halfAt(x), x[4:8], x[8:]))
	case blocks.IQ4_XS:
		return ofXS(x)
	case blocks.Q2_K:
		return ofTwoBits(x)
	case blocks.Q3_K:
		return ofThreeBits(x)
	case blocks.NVFP4:
		return ofNVFP4(x)
	case blocks.TQ1_0:
		return ofTrits(x)
	case blocks.Q1_0:
		for j := range 128 {
			n := int64(x[2+j/8]>>(j%8)&1)*2 - 1
			y = append(y, Weight{D: halfAt(x), Scale: 1, N: n})
		}
	case blocks.Q2_0:
		for j := range 64 {
			n := int64(x[2+j/4]>>(j%4*2)&3) - 1
			y = append(y, Weight{D: halfAt(x), Scale: 1, N: n})
		}
	case blocks.TQ2_0:
		for j := 0; j < 64; j += 32 {
			for l := range 4 {
				for m := range 32 {
					n := int64(x[j+m]>>(2*l)&3) - 1
					y = append(y, Weight{D: halfAt(x[64:]), Scale: 1, N: n})
				}
			}
		}
	}
	return y
}

// ofIndices decodes types of indices by Decode, with a d of 1: hashes prove that its weights are
// ggml's.
func ofIndices(t blocks.Type, x []byte) (y []Weight) {
	d := f32.FromF16(scaleOf(t, x))
	x = bytes.Clone(x)
	PutScale(t, x, ScaleBytes(t)[0], 0x3c00)
	weights := make([]float32, t.Traits().Inputs)
	blocks.Decode(t, weights, x)
	unit := t.Traits().Form().Unit
	for _, w := range weights {
		y = append(y, Weight{D: float64(d * unit), Scale: 1, N: int64(w / unit)})
	}
	return y
}

// scaleOf reads the scale of a type of indices.
func scaleOf(t blocks.Type, x []byte) (d uint16) {
	if t != blocks.IQ1_M {
		return binary.LittleEndian.Uint16(x)
	}
	for i := range 4 {
		d |= uint16(x[49+2*i]>>4) << (4 * i)
	}
	return d
}

// PutScale sets a scale in F16, which ScaleBytes has: IQ1_M's lies in four nibbles.
func PutScale(t blocks.Type, block []byte, at int, scale uint16) {
	if t != blocks.IQ1_M {
		binary.LittleEndian.PutUint16(block[at:], scale)
		return
	}
	for i := range 4 {
		b := &block[49+2*i]
		*b = *b&15 | byte(scale>>(4*i)&15<<4)
	}
}

// plus adds the same number to all weights.
func plus(m float64, y []Weight) []Weight {
	for i := range y {
		y[i].Dmin, y[i].Min = -m, 1
	}
	return y
}

// ofFiveBits decodes integers of five bits, one of which is stored separately.
func ofFiveBits(d float64, fifth, low []byte) []Weight {
	y, qh := make([]Weight, 32), binary.LittleEndian.Uint32(fifth)
	for j, q := range low {
		first, second := qh>>j<<4&0x10, qh>>(j+12)&0x10
		y[j] = Weight{D: d, Scale: 1, N: int64(uint32(q&0xf) | first)}
		y[j+16] = Weight{D: d, Scale: 1, N: int64(uint32(q>>4) | second)}
	}
	return y
}

// ofXS decodes IQ4_XS.
func ofXS(x []byte) []Weight {
	levels := []int64{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	y, d, high := make([]Weight, 256), halfAt(x), binary.LittleEndian.Uint16(x[2:])
	for ib := range 8 {
		ls := int64(x[4+ib/2]>>(4*(ib%2))&0xf) | int64(high>>(2*ib)&3)<<4
		for j, q := range x[8+16*ib:][:16] {
			y[32*ib+j] = Weight{D: d, Scale: ls - 32, N: levels[q&0xf]}
			y[32*ib+j+16] = Weight{D: d, Scale: ls - 32, N: levels[q>>4]}
		}
	}
	return y
}

// ofTwoBits decodes Q2_K.
func ofTwoBits(x []byte) (y []Weight) {
	scales, q, d, dmin := x[:16], x[16:80], halfAt(x[80:]), halfAt(x[82:])
	is := 0
	for n := 0; n < 256; n += 128 {
		for shift := 0; shift < 8; shift += 2 {
			for half := range 2 {
				sc := scales[is]
				is++
				for l := range 16 {
					y = append(y, Weight{d, dmin, int64(sc & 0xf), int64(q[16*half+l] >> shift & 3),
						int64(sc >> 4)})
				}
			}
		}
		q = q[32:]
	}
	return y
}

// ofThreeBits decodes Q3_K.
func ofThreeBits(x []byte) (y []Weight) {
	hm, q, d := x[:32], x[32:96], halfAt(x[108:])
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(x[96+4*i:]) }
	const kmask1, kmask2 = 0x03030303, 0x0f0f0f0f
	aux := [4]uint32{word(0)&kmask2 | word(2)&kmask1<<4, word(1)&kmask2 | word(2)>>2&kmask1<<4,
		word(0)>>4&kmask2 | word(2)>>4&kmask1<<4, word(1)>>4&kmask2 | word(2)>>6&kmask1<<4}
	is, m := 0, byte(1)
	for n := 0; n < 256; n += 128 {
		for shift := 0; shift < 8; shift += 2 {
			for half := range 2 {
				scale := int64(aux[is/4]>>(is%4*8)&0xff) - 32
				is++
				for l := 16 * half; l < 16*half+16; l++ {
					e := int64(q[l] >> shift & 3)
					if hm[l]&m == 0 {
						e -= 4
					}
					y = append(y, Weight{D: d, Scale: scale, N: e})
				}
			}
			m <<= 1
		}
		q = q[32:]
	}
	return y
}

// ofNVFP4 decodes NVFP4.
func ofNVFP4(x []byte) []Weight {
	levels := []int64{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
	y := make([]Weight, 64)
	for s := range 4 {
		exponent, fraction := int(x[s]>>3&0xf), float64(x[s]&7)
		d := math.Ldexp(1+fraction/8, exponent-7)
		if exponent == 0 {
			d = math.Ldexp(fraction, -9)
		}
		for j, q := range x[4+8*s:][:8] {
			y[16*s+j] = Weight{D: d / 2, Scale: 1, N: levels[q&0xf]}
			y[16*s+j+8] = Weight{D: d / 2, Scale: 1, N: levels[q>>4]}
		}
	}
	return y
}

// ofTrits decodes TQ1_0.
func ofTrits(x []byte) (y []Weight) {
	pow3 := [5]uint8{1, 3, 9, 27, 81}
	digits := func(q []byte, count int) {
		for n := range count {
			for _, e := range q {
				xi := int64(uint16(e*pow3[n]) * 3 >> 8)
				y = append(y, Weight{D: halfAt(x[52:]), Scale: 1, N: xi - 1})
			}
		}
	}
	digits(x[:32], 5)
	digits(x[32:48], 5)
	digits(x[48:52], 4)
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

// ScaleBytes returns the offsets of a block's scales in F16, of IQ1_M 0.
func ScaleBytes(t blocks.Type) []int {
	of := t.Traits()
	switch {
	case of.PowerOf2 || of.Scaling == blocks.Floats:
		return nil
	case of.HasMinima():
		return []int{of.At.D, of.At.D + 2}
	}
	return []int{of.At.D}
}

// File returns the bytes of a file with random bits, but scales that are finite and not too large
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
			PutScale(t, data[at:], s, d)
		}
		if of.Scaling == blocks.Floats {
			for i := range of.Inputs / 16 {
				data[at+i] = min(data[at+i]&0x7f, 0x7e)
			}
		}
		if of.PowerOf2 {
			data[at] = byte(110 + r.IntN(20))
			if r.IntN(50) == 0 {
				data[at] = []byte{0, 1, 2, 3, 220}[r.IntN(5)]
			}
		}
	}
	return data
}

// WeightsOf decodes all weights of a file, output by output.
func WeightsOf(t blocks.Type, data []byte) (y []Weight) {
	for size := t.Traits().Bytes; len(data) > 0; data = data[size:] {
		y = append(y, weightsOf(t, data[:size])...)
	}
	return y
}

// AnyBlocks calls its function with blocks of each type, with random bits and with a repeated byte,
// and an output into whose place to pack them.
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
