package f32

import "math"

// Conversions between float32 and formats of 16 bits. Widening is exact; narrowing rounds to
// nearest, ties to even. A NaN stays one: its upper payload bits are kept, and it becomes quiet.

// FromBF16 widens the upper half of a float32.
func FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// ToBF16 rounds to the upper half of a float32.
func ToBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// FromF16 widens IEEE half precision. The bits without the sign, as bits of a float32, are the
// number times 2⁻¹¹², subnormal numbers included, and a multiplication by a power of 2 is exact.
func FromF16(h uint16) float32 {
	bits := uint32(h&0x7fff) << 13
	x := math.Float32bits(math.Float32frombits(bits) * 0x1p112)
	if bits >= 0x0f800000 { // ±Inf, or NaN, which becomes quiet
		if x = bits | 0x7f800000; bits > 0x0f800000 {
			x |= 0x00400000
		}
	}
	return math.Float32frombits(x | uint32(h&0x8000)<<16)
}

// ToF16 rounds to IEEE half precision: ±Inf from 65520 on.
func ToF16(x float32) uint16 {
	b := math.Float32bits(x)
	sign, a := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case a > 0x7f800000:
		return sign | 0x7e00 | uint16(a>>13&0x3ff)
	case a >= 0x477ff000:
		return sign | 0x7c00
	case a < 0x38800000: // below the least normal number, 2⁻¹⁴
		// Adding ½ leaves multiples of 2⁻²⁴, rounded.
		r := math.Float32frombits(a) + 0.5
		return sign | uint16(math.Float32bits(r)-math.Float32bits(0.5))
	}
	return sign | uint16((a+0xfff+a>>13&1)>>13-(127-15)<<10)
}
