package blocks

import (
	"encoding/binary"
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
)

// Decode writes the weights of consecutive blocks of a file, each weight rounded once: d·scale·n −
// dmin·minimum, or d·n + m.
func Decode(t Type, dst []float32, data []byte) {
	x := decoder{Traits: *t.Traits()}
	for code := range x.levels {
		x.levels[code] = float32(code - int(x.Less))
		if x.Levels != nil {
			x.levels[code] = float32(x.Levels[code%len(x.Levels)])
		}
	}
	for len(data) > 0 {
		x.block(dst, data[:x.Bytes])
		dst, data = dst[x.Inputs:], data[x.Bytes:]
	}
}

// decoder decodes blocks of a type. Factors of weights, and products by them, are exact in float32,
// except where minima are subtracted.
type decoder struct {
	Traits
	levels [64]float32 // values of codes of up to six bits
	scales [8]uint16   // of the current block
	codes  [Inputs]byte
}

// block decodes a block.
func (x *decoder) block(dst []float32, block []byte) {
	codes := block[x.At.Codes:]
	switch {
	case x.Codes == EightBits:
		x.bytes(dst, codes, x.half(block[x.At.D:]))
		return
	case x.Codes == Indices:
		x.indices(dst, block)
		return
	case x.Codes == FourBits && x.Scaling == One:
		x.nibbles(dst, codes[:Inputs/2], x.half(block[x.At.D:]))
		return
	case x.Traits.Scales() > 0:
		x.scalesOf(&x.scales, block)
	}
	d, other := x.halves(block[x.At.D:])
	for i := range x.Inputs / Inputs {
		to := dst[i*Inputs:][:Inputs]
		if x.Codes == FourBits && !x.HasMinima() {
			x.nibblesOf(to, codes[Inputs/2*i:][:Inputs/2], d, i)
			continue
		}
		x.codesOf(codes, block[x.At.Upper:], i)
		for half := range 2 {
			scale, less := x.factors(d, other, i, half)
			x.weights(to[half*Inputs/2:], x.codes[half*Inputs/2:][:Inputs/2], scale, less)
		}
	}
}

// half returns d.
func (x *decoder) half(from []byte) float32 {
	if x.PowerOf2 { // of levels that are doubled; 2^128 is infinite
		return float32(math.Ldexp(1, int(from[0])-127)) / 2
	}
	return f32.FromF16(binary.LittleEndian.Uint16(from))
}

// halves returns d, and dmin or m. d is 1 if the scales include it.
func (x *decoder) halves(from []byte) (d, other float32) {
	switch {
	case x.Scaling == Floats:
		return 1, 0
	case x.HasMinima():
		return x.half(from), x.half(from[2:])
	}
	return x.half(from), 0
}

// factors returns the factor of the integers of a half of part i, and the number that is subtracted
// or added then.
func (x *decoder) factors(d, other float32, i, half int) (scale, less float32) {
	first, second := byte(x.scales[i]), byte(x.scales[i]>>8)
	this := first
	if half == 1 {
		this = second
	}
	switch x.Scaling {
	case Scaled:
		return d * float32(int8(first)), 0
	case Minima:
		return d * float32(first), other * float32(second)
	case Halves:
		return d * float32(int8(this)), 0
	case Pairs:
		return d * float32(this&15), other * float32(this>>4)
	case Floats:
		return d * HalfOfFloat(this&0x7f), 0
	}
	return d, other
}

// HalfOfFloat returns half of a number with four bits of exponent and three of fraction, which has
// the bits of a 256th in F16.
func HalfOfFloat(e byte) float32 { return f32.FromF16(uint16(e)<<7) * 128 }

// bytes decodes 32 codes of eight bits.
func (x *decoder) bytes(to []float32, codes []byte, d float32) {
	to = to[:Inputs]
	for j, n := range codes[:Inputs] {
		to[j] = d * float32(int8(n))
	}
}

// indices decodes a block of indices.
func (x *decoder) indices(dst []float32, block []byte) {
	var n Numbers
	d := f32.FromF16(x.dOf(block)) * x.Form().Unit
	for i := range x.Inputs / Inputs {
		from := x.indicesOf(block, i)
		x.numbers(&n, &from)
		for j := range Inputs {
			scale := d * float32(n.Scales[j/16])
			dst[i*Inputs+j] = scale * float32(int8(n.Bytes[j/8]>>(j%8*8)))
		}
	}
}

// nibblesOf decodes the codes of part i, with Floats half by half.
func (x *decoder) nibblesOf(to []float32, codes []byte, d float32, i int) {
	first, _ := x.factors(d, 0, i, 0)
	if x.Scaling != Floats {
		x.nibbles(to, codes, first)
		return
	}
	second, _ := x.factors(d, 0, i, 1)
	x.nibbles(to, codes[:Inputs/4], first)
	x.nibbles(to[Inputs/2:], codes[Inputs/4:], second)
}

// nibbles decodes codes. The upper halves of bytes are the inputs after the lower halves' inputs.
func (x *decoder) nibbles(to []float32, codes []byte, d float32) {
	upper := to[len(codes):][:len(codes)]
	to = to[:len(codes)]
	for j, c := range codes {
		to[j], upper[j] = d*x.levels[c&15], d*x.levels[c>>4]
	}
}

// weights converts codes to weights.
func (x *decoder) weights(to []float32, codes []byte, scale, less float32) {
	to = to[:len(codes)]
	switch {
	case x.Scaling == Offset:
		for k, c := range codes {
			to[k] = float32(float64(float64(scale)*float64(c)) + float64(less))
		}
	case x.HasMinima():
		for k, c := range codes {
			to[k] = float32(float64(float64(scale)*float64(c)) - float64(less))
		}
	default:
		for k, c := range codes {
			to[k] = scale * x.levels[c&63]
		}
	}
}

// codesOf reads the codes of part i, eight at a time where the layout allows it.
func (x *decoder) codesOf(codes, upper []byte, i int) {
	to := x.codes[:]
	switch x.Codes {
	case FourBits, FiveBits:
		switch {
		case x.Codes == FiveBits && x.Shared:
			readNibbles(to, codes[i/2*Inputs:], upper, i%2*4, i, 1)
		case x.Shared:
			readBits(to, codes[i/2*Inputs:], i%2*4, 15)
		case x.Codes == FiveBits:
			withFifths(to, codes, binary.LittleEndian.Uint32(upper))
		default:
			withFifths(to, codes[Inputs/2*i:], 0)
		}
	case SixBits:
		half, k := i/4, i%4
		readNibbles(to, codes[half*64+k%2*32:], upper[half*32:], k/2*4, 2*k, 3)
	case OneBit:
		for j := range to {
			to[j] = codes[4*i+j/8] >> (j % 8) & 1 << 1
		}
	case TwoBits:
		if x.InOrder {
			for j := range to {
				to[j] = codes[8*i+j/4] >> (j % 4 * 2) & 3
			}
			break
		}
		readBits(to, codes[i/4*32:], i%4*2, 3)
	case ThreeBits:
		readBits(to, codes[i/4*32:], i%4*2, 3)
		for j := 0; j < Inputs; j += 8 {
			bits := binary.LittleEndian.Uint64(upper[j:]) >> i & ofTwo << 2
			binary.LittleEndian.PutUint64(to[j:], binary.LittleEndian.Uint64(to[j:])|bits)
		}
	case Trits:
		for j := 0; j < Inputs; j += 4 {
			at, digit := trit(i*Inputs + j)
			digits(to[j:], codes[at:], powers[digit])
		}
	}
}

// readBits reads bits of 32 bytes.
func readBits(to, from []byte, by int, mask uint64) {
	for j := 0; j < Inputs; j += 8 {
		x := binary.LittleEndian.Uint64(from[j:]) >> by & (mask * ofTwo)
		binary.LittleEndian.PutUint64(to[j:], x)
	}
}

// readNibbles reads nibbles of 32 bytes, and upper bits of 32 others.
func readNibbles(to, low, upper []byte, lowBy, upperBy int, mask uint64) {
	for j := 0; j < Inputs; j += 8 {
		x := binary.LittleEndian.Uint64(low[j:]) >> lowBy & lowNibbles
		x |= binary.LittleEndian.Uint64(upper[j:]) >> upperBy & (mask * ofTwo) << 4
		binary.LittleEndian.PutUint64(to[j:], x)
	}
}

// withFifths reads the nibbles of 16 bytes, and a fifth bit of each.
func withFifths(to, low []byte, fifths uint32) {
	first, second := to[:Inputs/2], to[Inputs/2:][:Inputs/2]
	for j, c := range low[:Inputs/2] {
		first[j] = c&15 | byte(fifths&1)<<4
		second[j] = c>>4 | byte(fifths>>(Inputs/2)&1)<<4
		fifths >>= 1
	}
}

// powers of 3 are the factors of a byte that make each digit the first one.
var powers = [...]uint64{1, 3, 9, 27, 81}

// digits reads the first digits of products of four bytes: three times a byte, divided by 256.
func digits(to, from []byte, power uint64) {
	const lower = 0x00ff00ff // every other byte
	x := uint64(binary.LittleEndian.Uint32(from))
	even := (x & lower * power & lower) * 3 >> 8 & lower
	odd := (x >> 8 & lower * power & lower) * 3 >> 8 & lower
	binary.LittleEndian.PutUint32(to, uint32(even|odd<<8))
}

// trit returns the byte with the digit of an input of 256, and the number of the digit: bytes have
// five digits, 32 bytes for the first 160 inputs and 16 for the next 80; the last 4 bytes have
// four.
func trit(input int) (at, digit int) {
	switch {
	case input >= 240:
		return 48 + input%4, (input - 240) / 4
	case input >= 160:
		return 32 + input%16, (input - 160) / 16
	}
	return input % 32, input / 32
}
