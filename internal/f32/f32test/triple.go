// Package f32test makes operands that are hard to multiply and add with one rounding.
package f32test

import (
	"math"
	"math/rand/v2"
)

// Triple returns operands of FMA for tests: some have random bits, others are hard to round.
func Triple(r *rand.Rand) (a, b, c float32) {
	a, b = significand(r), significand(r)
	p := float64(a) * float64(b)
	switch r.IntN(6) {
	case 0:
		return math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32()),
			math.Float32frombits(r.Uint32())
	case 1: // c is many times the product, or a fraction of it
		c = float32(p) * power(r.IntN(61)-30)
	case 2: // cancellation
		c = -float32(p)
		if r.IntN(2) == 0 {
			c = math.Float32frombits(math.Float32bits(c) + uint32(r.IntN(5)-2))
		}
	case 3: // a subnormal result
		a, b = a*power(-70), b*power(-64-r.IntN(20))
		c = math.Float32frombits(r.Uint32() & (1<<31 | 1<<(1+r.IntN(24)) - 1))
	case 4: // near overflow, or ties of few bits
		if r.IntN(2) == 0 {
			return a * power(63), b * power(63+r.IntN(2)),
				math.Float32frombits(0x7f000000 + r.Uint32N(0x800000) | r.Uint32()&(1<<31))
		}
		a, b = float32(1+r.IntN(1<<12)), float32(1+r.IntN(1<<13))
		c = float32(r.IntN(1<<24)) * power(r.IntN(30))
	case 5: // halfway between two float32, except a part of the product that float64 drops
		i := float32(1 + r.IntN(1<<10))
		a, b = 1+i*0x1p-23, 1-i*0x1p-23 // the product is 1 − i²·2⁻⁴⁶
		c = float32(1<<23+r.IntN(1<<23)) * float32(2-4*r.IntN(2))
		if r.IntN(2) == 0 { // the same with the spacing of subnormal numbers
			a, b = a*power(-75), b*power(-75)
			c = math.Float32frombits(r.Uint32() & (1<<31 | 1<<23 - 1))
		}
	}
	return a, b, c
}

// significand is in ±[1, 2), often with few bits.
func significand(r *rand.Rand) float32 {
	bits := r.Uint32() & (1<<31 | 1<<23 - 1)
	if r.IntN(2) == 0 {
		bits &^= 1<<r.IntN(23) - 1
	}
	return math.Float32frombits(bits | 127<<23)
}

func power(n int) float32 { return float32(math.Ldexp(1, n)) }
