// Package f32 holds float32 functions that Go's math package lacks: FMA, and the
// elementary functions of the numeric contract, whose every rounding is written down.
package f32

import "math"

// fma is FMA. Neither a nor b may be the constant 2, which compilers turn into an addition, and not
// both may be constants.
func fma(a, b, c float32) float32 {
	if fuses {
		return a*b + float32(c) // the conversion keeps c, if it is a product, from being fused instead
	}
	return emulated(a, b, c)
}

// emulated computes FMA by float64.
func emulated(a, b, c float32) float32 {
	s, rare := sumInFloat64(float64(a), b, c)
	if rare < 0 {
		return emulatedSlowly(a, b, c)
	}
	return float32(s)
}

// sumInFloat64 returns a·b + c in float64, and something negative if that, rounded to float32,
// might not be FMA.
//
// The product of two float32 is exact in float64, so one float64 addition and one conversion nearly
// do it. The conversion rounds a second time, which matters only where the float64 sum lies halfway
// between two float32 (its low 29 bits are then 1 followed by zeros: exclusive or leaves 0, and 0 −
// 1 is negative) or where the result is subnormal in float32, whose spacing is then wider:
// exponents from 1 to 1022 − 126, but not 0, so 1 is subtracted before. The difference is negative
// for these.
func sumInFloat64(a float64, b, c float32) (s float64, rare int64) {
	s = a*float64(b) + float64(c)
	bits := math.Float64bits(s)
	halfway := int64(bits&(1<<29-1) ^ 1<<28 - 1)
	subnormal := int64((bits<<1-1)>>1 - (1023-126)<<52)
	return s, halfway | subnormal
}

// emulatedSlowly computes FMA in float64, rounded to odd.
func emulatedSlowly(a, b, c float32) float32 { return float32(sumToOdd(a, b, c)) }

// sumToOdd rounds p + c, p = a·b, to odd in float64: if the sum s is inexact its last bit becomes
// 1, so that a conversion to float32 sees on which side of a halfway point the true sum lies (Boldo
// and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
// odd", 2008).
func sumToOdd(a, b, c float32) float64 {
	p, c64 := float64(a)*float64(b), float64(c)
	s := float64(p + c64)
	// Knuth's TwoSum: p + c = s + e exactly. The conversions forbid fusing.
	t := float64(s - p)
	e := float64(float64(p-float64(s-t)) + float64(c64-t))
	bits := math.Float64bits(s)
	if e == 0 || e != e || bits&1 != 0 { // exact, not finite, or odd already
		return s
	}
	if (e > 0) == (s > 0) {
		bits++ // the true sum is larger in magnitude
	} else {
		bits--
	}
	return math.Float64frombits(bits)
}
