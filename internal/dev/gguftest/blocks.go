package gguftest

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/seed-1415985d/attn/internal/blocks"
)

// Types are the numbers of the types that Encode supports, by name.
var Types = map[string]uint32{"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7,
	"Q8_0": 8, "Q2_K": 10, "Q3_K": 11, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14, "IQ4_NL": 20, "IQ4_XS": 23,
	"BF16": 30, "TQ1_0": 34, "TQ2_0": 35, "MXFP4": 39, "NVFP4": 40,
	"Q1_0": 41, "Q2_0": 42}

// Encode returns numbers near x in blocks of a type, and their exact values. Rows are whole blocks.
func Encode(kind string, x []float32) (data []byte, exact []float64) {
	size := 1
	for _, t := range blocks.Integers() {
		if t.String() == kind {
			size = t.Traits().Inputs
		}
	}
	for block := range slices.Chunk(x, size) {
		bytes, values := encoders[kind](block)
		data, exact = append(data, bytes...), append(exact, values...)
	}
	return data, exact
}

var encoders = map[string]func([]float32) ([]byte, []float64){
	"F32": func(x []float32) ([]byte, []float64) {
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(x[0])), []float64{float64(x[0])}
	},
	"F16": func(x []float32) ([]byte, []float64) {
		data, value := half(float64(x[0]))
		return data, []float64{value}
	},
	"BF16": func(x []float32) ([]byte, []float64) {
		bits := math.Float32bits(x[0]) >> 16
		return []byte{byte(bits), byte(bits >> 8)}, []float64{float64(math.Float32frombits(bits << 16))}
	},
	"Q8_0":   encodeQ8,
	"Q4_0":   encodeQ4,
	"IQ4_NL": encodeIQ4,
	"MXFP4":  encodeMXFP4,
	"Q4_K":   func(x []float32) ([]byte, []float64) { return encodeScaled(x, 15) },
	"Q5_K":   func(x []float32) ([]byte, []float64) { return encodeScaled(x, 31) },
	"Q6_K":   encodeQ6K,
	"Q5_0":   encodeQ5,
	"Q4_1":   func(x []float32) ([]byte, []float64) { return encodeFrom(x, 15) },
	"Q5_1":   func(x []float32) ([]byte, []float64) { return encodeFrom(x, 31) },
	"Q3_K":   encodeQ3K,
	"Q2_K":   encodeQ2K,
	"IQ4_XS": encodeIQ4XS,
	"NVFP4":  encodeNVFP4,
	"TQ1_0":  encodeTQ1,
	"TQ2_0":  encodeTQ2,
	"Q1_0":   encodeQ1,
	"Q2_0":   encodeQ2,
}

// half returns a number near x with 10 bits after the first, and its bytes.
func half(x float64) ([]byte, float64) {
	fraction, exponent := math.Frexp(math.Abs(x)) // fraction·2^exponent, from ½ to 1
	n := int(fraction * 2048)                     // 1024 to 2047
	bits := uint16(exponent+14)<<10 | uint16(n-1024)
	if x == 0 || exponent < -13 { // less than the smallest normal half
		n = int(math.Ldexp(math.Abs(x), 24))
		bits = uint16(n)
		exponent = -13
	}
	value := math.Ldexp(float64(n), exponent-11)
	if x < 0 {
		bits, value = bits|1<<15, -value
	}
	return []byte{byte(bits), byte(bits >> 8)}, value
}

func largest(x []float32) (m float64) {
	for _, e := range x {
		m = max(m, math.Abs(float64(e)))
	}
	return m
}

// nearest returns the integer from least to most that is nearest to x.
func nearest(x, least, most float64) int { return int(min(max(math.Round(x), least), most)) }

func encodeQ8(x []float32) ([]byte, []float64) {
	data, d := half(largest(x) / 127)
	var values []float64
	for _, e := range x {
		n := nearest(float64(e)/d, -128, 127)
		data, values = append(data, byte(n)), append(values, d*float64(n))
	}
	return data, values
}

// levels encodes numbers by the nearest of 16 levels, times d.
func levels(data []byte, x []float32, d float64, all []float64) ([]byte, []float64) {
	values, codes := make([]float64, 32), make([]byte, 32)
	for i, e := range x {
		best := 0
		for j, level := range all {
			if math.Abs(d*level-float64(e)) < math.Abs(d*all[best]-float64(e)) {
				best = j
			}
		}
		codes[i], values[i] = byte(best), d*all[best]
	}
	for i := range 16 {
		data = append(data, codes[i]|codes[i+16]<<4)
	}
	return data, values
}

func encodeQ4(x []float32) ([]byte, []float64) {
	data, d := half(largest(x) / -8)
	return levels(data, x, d, []float64{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7})
}

var levelsIQ4 = []float64{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

var levelsMXFP4 = []float64{0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6}

func encodeIQ4(x []float32) ([]byte, []float64) {
	data, d := half(largest(x) / 120)
	return levels(data, x, d, levelsIQ4)
}

func encodeMXFP4(x []float32) ([]byte, []float64) {
	_, exponent := math.Frexp(largest(x) / 6)
	return levels([]byte{byte(exponent + 127)}, x, math.Ldexp(1, exponent), levelsMXFP4)
}

// encodeScaled encodes Q4_K or Q5_K, with integers from 0 to most.
func encodeScaled(x []float32, most float64) ([]byte, []float64) {
	var scales, minima [8]float64
	for i := range 8 {
		part := x[32*i:][:32]
		minima[i] = max(0, -float64(slices.Min(part)))
		scales[i] = (float64(slices.Max(part)) + minima[i]) / most
	}
	dBytes, d := half(slices.Max(scales[:]) / 63)
	leastBytes, least := half(max(slices.Max(minima[:]), 1e-4) / 63)
	var s, m [8]byte
	var low, fifth [256]byte
	values := make([]float64, 256)
	for i := range 8 {
		s[i] = byte(nearest(scales[i]/d, 1, 63))
		m[i] = byte(nearest(minima[i]/least, 0, 63))
		for j, e := range x[32*i:][:32] {
			n := nearest((float64(e)+least*float64(m[i]))/(d*float64(s[i])), 0, most)
			values[32*i+j] = d*float64(s[i])*float64(n) - least*float64(m[i])
			low[32*i+j], fifth[32*i+j] = byte(n%16), byte(n/16)
		}
	}
	data := slices.Concat(dBytes, leastBytes, sixBits(s, m))
	if most > 15 {
		for j := range 32 {
			b := byte(0)
			for i := range 8 {
				b |= fifth[32*i+j] << i
			}
			data = append(data, b)
		}
	}
	for i := 0; i < 8; i += 2 {
		for j := range 32 {
			data = append(data, low[32*i+j]|low[32*i+32+j]<<4)
		}
	}
	return data, values
}

// sixBits packs 8 scales and 8 minima into 12 bytes: the upper two bits of the last four are above
// the first four.
func sixBits(s, m [8]byte) []byte {
	b := make([]byte, 12)
	for i := range 4 {
		b[i] = s[i] | s[i+4]>>4<<6
		b[i+4] = m[i] | m[i+4]>>4<<6
		b[i+8] = s[i+4]&15 | m[i+4]&15<<4
	}
	return b
}

func encodeQ6K(x []float32) ([]byte, []float64) {
	dBytes, d := half(largest(x) / 31 / 127)
	low, high, scales := make([]byte, 128), make([]byte, 64), make([]byte, 16)
	values := make([]float64, 256)
	for i := range 16 {
		part := x[16*i:][:16]
		s := nearest(largest(part)/31/d, 1, 127)
		if i%3 == 1 {
			s = -s // scales have a sign
		}
		scales[i] = byte(s)
		for j, e := range part {
			at := 16*i + j
			n := nearest(float64(e)/(d*float64(s)), -32, 31)
			values[at] = d * float64(s) * float64(n)
			code := byte(n + 32)
			// 128 numbers are 4 rows of 32: two rows in the lower halves of bytes, two in the upper
			row, column, upper := at%128/32, at%32, at/128
			low[64*upper+32*(row%2)+column] |= code & 15 << (4 * (row / 2))
			high[32*upper+column] |= code >> 4 << (2 * row)
		}
	}
	return slices.Concat(low, high, scales, dBytes), values
}

// fifths writes 32 integers of 5 bits: the fifth bits of all come first.
func fifths(data []byte, codes []int) []byte {
	high := uint32(0)
	for i, c := range codes {
		high += uint32(c/16) << i
	}
	return halfBytes(binary.LittleEndian.AppendUint32(data, high), codes)
}

// halfBytes writes the lower four bits of 32 integers, the second 16 above the first.
func halfBytes(data []byte, codes []int) []byte {
	for i := range 16 {
		data = append(data, byte(codes[i]%16+codes[i+16]%16*16))
	}
	return data
}

func encodeQ5(x []float32) ([]byte, []float64) {
	data, d := half(largest(x) / -16)
	codes, values := make([]int, 32), make([]float64, 32)
	for i, e := range x {
		n := nearest(float64(e)/d, -16, 15)
		codes[i], values[i] = n+16, d*float64(n)
	}
	return fifths(data, codes), values
}

// encodeFrom encodes Q4_1 or Q5_1: a scale, a minimum, and integers from 0 to most.
func encodeFrom(x []float32, most float64) ([]byte, []float64) {
	low := float64(slices.Min(x))
	dBytes, d := half((float64(slices.Max(x)) - low) / most)
	lowBytes, low := half(low)
	codes, values := make([]int, 32), make([]float64, 32)
	for i, e := range x {
		codes[i] = nearest((float64(e)-low)/d, 0, most)
		values[i] = d*float64(codes[i]) + low
	}
	data := slices.Concat(dBytes, lowBytes)
	if most > 15 {
		return fifths(data, codes), values
	}
	return halfBytes(data, codes), values
}

// encodeQ3K writes integers from -4 to 3: a bit that says that an integer is not negative, then the
// other two bits, a scale of 6 bits less 32 for each 16 integers, and a scale of scales.
func encodeQ3K(x []float32) ([]byte, []float64) {
	dBytes, d := half(largest(x) / 4 / 31)
	signs, low, scales := make([]byte, 32), make([]byte, 64), make([]byte, 12)
	values := make([]float64, 256)
	for i := range 16 {
		part := x[16*i:][:16]
		s := nearest(largest(part)/4/d, 1, 31)
		if i%3 == 1 {
			s = -s
		}
		code := byte(s + 32)
		scales[i%8] |= code % 16 << (i / 8 * 4) // 8 in lower halves, 8 in upper ones
		scales[8+i%4] |= code / 16 << (i / 4 * 2)
		for j, e := range part {
			at := 16*i + j
			n := nearest(float64(e)/(d*float64(s)), -4, 3)
			values[at] = d * float64(s) * float64(n)
			row, column := at/32, at%32
			if n >= 0 {
				signs[column] |= 1 << row
			}
			low[32*(row/4)+column] |= byte(n+4) % 4 << (row % 4 * 2)
		}
	}
	return slices.Concat(signs, low, scales, dBytes), values
}

// encodeQ2K writes integers from 0 to 3, and for each 16 a scale and a minimum of 4 bits.
func encodeQ2K(x []float32) ([]byte, []float64) {
	var scales, minima [16]float64
	for i := range 16 {
		part := x[16*i:][:16]
		minima[i] = max(0, -float64(slices.Min(part)))
		scales[i] = (float64(slices.Max(part)) + minima[i]) / 3
	}
	dBytes, d := half(slices.Max(scales[:]) / 15)
	leastBytes, least := half(max(slices.Max(minima[:]), 1e-4) / 15)
	head, low, values := make([]byte, 16), make([]byte, 64), make([]float64, 256)
	for i := range 16 {
		s, m := nearest(scales[i]/d, 1, 15), nearest(minima[i]/least, 0, 15)
		head[i] = byte(s + 16*m)
		for j, e := range x[16*i:][:16] {
			at := 16*i + j
			n := nearest((float64(e)+least*float64(m))/(d*float64(s)), 0, 3)
			values[at] = d*float64(s)*float64(n) - least*float64(m)
			low[32*(at/128)+at%32] |= byte(n) << (at / 32 % 4 * 2)
		}
	}
	return slices.Concat(head, low, dBytes, leastBytes), values
}

// encodeIQ4XS writes levels of IQ4_NL, and for each 32 a scale of 6 bits. Some scales are negative.
func encodeIQ4XS(x []float32) ([]byte, []float64) {
	head, d := half(largest(x) / 120 / 31)
	var codes, low []byte
	high, values := 0, []float64(nil)
	for i := range 8 {
		part := x[32*i:][:32]
		s := nearest(largest(part)/120/d, 1, 31)
		if i%3 == 1 {
			s = -s
		}
		high += (s + 32) / 16 << (2 * i)
		if i%2 == 0 {
			low = append(low, byte((s+32)%16))
		} else {
			low[i/2] += byte((s + 32) % 16 * 16)
		}
		var exact []float64
		codes, exact = levels(codes, part, d*float64(s), levelsIQ4)
		values = append(values, exact...)
	}
	return slices.Concat(head, []byte{byte(high), byte(high >> 8)}, low, codes), values
}

// encodeNVFP4 writes levels of MXFP4, and for each 16 a scale with three bits after the first.
func encodeNVFP4(x []float32) ([]byte, []float64) {
	var scales, codes []byte
	var values []float64
	for part := range slices.Chunk(x, 16) {
		fraction, exponent := math.Frexp(largest(part) / 6) // from ½ to 1
		eighths := min(max(math.Ceil(fraction*16), 8), 15)
		biased := min(max(exponent-1+7, 1), 15)
		d := math.Ldexp(eighths/8, biased-7)
		scales = append(scales, byte(biased*8+int(eighths)-8))
		padded := slices.Concat(part[:8], make([]float32, 8), part[8:], make([]float32, 8))
		eight, exact := levels(nil, padded, d, levelsMXFP4) // its first 8 bytes have all codes
		codes = append(codes, eight[:8]...)
		values = append(values, slices.Concat(exact[:8], exact[16:24])...)
	}
	return append(scales, codes...), values
}

// thirds returns codes for −1, 0 and 1 near x, and their scale.
func thirds(x []float32) (codes []int, values []float64, head []byte) {
	head, d := half(largest(x))
	for _, e := range x {
		n := nearest(float64(e)/d, -1, 1)
		codes, values = append(codes, n+1), append(values, d*float64(n))
	}
	return codes, values, head
}

// encodeTQ1 packs five codes into a byte, as a fraction of 3⁵ with the first code first.
func encodeTQ1(x []float32) ([]byte, []float64) {
	codes, values, d := thirds(x)
	var data []byte
	fraction := func(from, step, count int) {
		q := 0
		for n := range 5 {
			q *= 3
			if n < count {
				q += codes[from+n*step]
			}
		}
		data = append(data, byte((q*256+242)/243))
	}
	for m := range 32 {
		fraction(m, 32, 5)
	}
	for m := range 16 {
		fraction(160+m, 16, 5)
	}
	for m := range 4 {
		fraction(240+m, 4, 4)
	}
	return append(data, d...), values
}

// encodeTQ2 packs four codes into a byte.
func encodeTQ2(x []float32) ([]byte, []float64) {
	codes, values, d := thirds(x)
	data := make([]byte, 64)
	for at, c := range codes {
		data[32*(at/128)+at%32] |= byte(c) << (at / 32 % 4 * 2)
	}
	return append(data, d...), values
}

// encodeQ1 packs eight signs into a byte.
func encodeQ1(x []float32) ([]byte, []float64) {
	data, d := half(largest(x) / 2)
	values := make([]float64, len(x))
	for i, e := range x {
		if i%8 == 0 {
			data = append(data, 0)
		}
		values[i] = -d
		if e >= 0 {
			values[i] = d
			data[len(data)-1] |= 1 << (i % 8)
		}
	}
	return data, values
}

// encodeQ2 packs four codes into a byte.
func encodeQ2(x []float32) ([]byte, []float64) {
	data, d := half(largest(x) / 2)
	values := make([]float64, len(x))
	for i, e := range x {
		if i%4 == 0 {
			data = append(data, 0)
		}
		n := nearest(float64(e)/d, -1, 2)
		values[i] = d * float64(n)
		data[len(data)-1] |= byte(n+1) << (i % 4 * 2)
	}
	return data, values
}
