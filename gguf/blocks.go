package gguf

import (
	"encoding/binary"
	"math"

	"github.com/seed-1415985d/attn/internal/modelfile"
)

// Blocks are as ggml's headers describe them.

// halfAt is the half that bytes begin with.
func halfAt(data []byte) float32 { return modelfile.F16(data) }

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

// decodeQ41: a scale, a minimum, and 32 integers of 4 bits.
func decodeQ41(to []float32, b []byte) { decodeFive(to, b[4:], 0, b, 0, halfAt(b[2:])) }

// decodeQ50: a scale, the fifth bits of 32 integers less 16, and the other four. What is added is
// −0, which leaves zeros their sign.
func decodeQ50(to []float32, b []byte) {
	none := float32(math.Copysign(0, -1))
	decodeFive(to, b[6:], binary.LittleEndian.Uint32(b[2:]), b, 16, none)
}

// decodeQ51: a scale, a minimum, the fifth bits of 32 integers, and the other four.
func decodeQ51(to []float32, b []byte) {
	decodeFive(to, b[8:], binary.LittleEndian.Uint32(b[4:]), b, 0, halfAt(b[2:]))
}

// decodeFive decodes integers of five bits less some, times a scale, plus a minimum.
func decodeFive(to []float32, low []byte, fifth uint32, scale []byte, less float64, least float32) {
	d := float64(halfAt(scale))
	for i, x := range low {
		for half, n := range [2]byte{x & 15, x >> 4} {
			at := i + 16*half
			n |= byte(fifth>>at&1) << 4
			to[at] = float32(d*(float64(n)-less) + float64(least))
		}
	}
}

// decodeQ3K: for each of 256 integers a bit that says that it is not negative, and the other two; a
// scale of 6 bits less 32 for each 16, and one of those.
func decodeQ3K(to []float32, b []byte) {
	signs, low, scales, d := b[:32], b[32:96], b[96:108], halfAt(b[108:])
	for i := range to {
		group, row, j := i/16, i/32, i%32
		scale := int(scales[group%8]>>(group/8*4)&15|scales[8+group%4]>>(group/4*2)&3<<4) - 32
		n := int(low[row/4*32+j]>>(row%4*2)&3) - 4 + int(signs[j]>>row&1)*4
		to[i] = d * float32(scale) * float32(n)
	}
}

// decodeQ2K: a scale and a minimum of 4 bits for each 16 integers of 2, and what these are
// multiplied by.
func decodeQ2K(to []float32, b []byte) {
	scales, low := b[:16], b[16:80]
	d, least := float64(halfAt(b[80:])), float64(halfAt(b[82:]))
	for i := range to {
		s, row, j := scales[i/16], i/32, i%32
		n := low[row/4*32+j] >> (row % 4 * 2) & 3
		to[i] = float32(d*float64(s&15)*float64(n) - least*float64(s>>4))
	}
}

// decodeIQ4XS: a scale of 6 bits less 32 for each 32 of the levels of IQ4_NL.
func decodeIQ4XS(to []float32, b []byte) {
	d, high := halfAt(b), binary.LittleEndian.Uint16(b[2:])
	for i := range 8 {
		scale := d * float32(int(b[4+i/2]>>(i%2*4)&15|byte(high>>(2*i)&3)<<4)-32)
		for j, x := range b[8+16*i:][:16] {
			to[32*i+j], to[32*i+16+j] = scale*levelsIQ4[x&15], scale*levelsIQ4[x>>4]
		}
	}
}

// decodeNVFP4: a scale of four bits of exponent and three of fraction for each 16 of the levels of
// MXFP4.
func decodeNVFP4(to []float32, b []byte) {
	for i, e := range b[:4] {
		d := math.Ldexp(float64(8+e&7), int(e>>3&15)-10)
		if e>>3&15 == 0 {
			d = math.Ldexp(float64(e&7), -9)
		}
		for j, x := range b[4+8*i:][:8] {
			to[16*i+j] = float32(d) * levelsMXFP4[x&15]
			to[16*i+8+j] = float32(d) * levelsMXFP4[x>>4]
		}
	}
}

// decodeTQ1: digits of base 3 less 1, the first five of which a byte has as a fraction of 256.
func decodeTQ1(to []float32, b []byte) {
	d := halfAt(b[52:])
	for _, part := range [][]byte{b[:32], b[32:48], b[48:52]} {
		for n := 0; n < 5 && len(to) > 0; n++ {
			for j, x := range part {
				for range n {
					x *= 3
				}
				to[j] = d * (float32(int(x)*3>>8) - 1)
			}
			to = to[len(part):]
		}
	}
}

// decodeTQ2: integers of 2 bits less 1.
func decodeTQ2(to []float32, b []byte) {
	d := halfAt(b[64:])
	for i := range to {
		row, j := i/32, i%32
		to[i] = d * (float32(b[row/4*32+j]>>(row%4*2)&3) - 1)
	}
}
