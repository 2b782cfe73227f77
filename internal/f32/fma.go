// Package f32 holds float32 functions that Go's math package lacks: FMA, and the
// elementary functions of the numeric contract, whose every rounding is written down.
package f32

import "math"

// FMA returns a·b + c rounded once to float32, as IEEE 754 fusedMultiplyAdd
// and the hardware instructions VFMADD and FMLA do.
//
// The product of two float32 is exact in float64, so one float64 addition and
// one conversion nearly do it. The conversion rounds a second time, which
// matters only where the float64 sum lies halfway between two float32 (its low
// 29 bits are then 1 followed by zeros) or where the result is subnormal in
// float32 (its spacing is then wider). Those cases take the slow path.
func FMA(a, b, c float32) float32 {
	p := float64(a) * float64(b) // exact: 24 + 24 bits
	s := float64(p + float64(c))
	bits := math.Float64bits(s)
	if bits&(1<<29-1) != 1<<28 && bits>>52&0x7ff > 1023-126 {
		return float32(s)
	}
	return fmaSlow(p, float64(c), s)
}

// fmaSlow rounds p + c to odd in float64 first: where the sum s is inexact its
// last bit is made 1, so that the conversion to float32 sees on which side of
// a halfway point the true sum lies (Boldo and Melquiond, "Emulation of FMA and
// correctly rounded sums: proved algorithms using rounding to odd", 2008).
func fmaSlow(p, c, s float64) float32 {
	// Knuth's TwoSum: p + c = s + e exactly. The conversions forbid fusing.
	t := float64(s - p)
	e := float64(float64(p-float64(s-t)) + float64(c-t))
	bits := math.Float64bits(s)
	if e == 0 || e != e || bits&1 != 0 { // exact, not finite, or odd already
		return float32(s)
	}
	if (e > 0) == (s > 0) {
		bits++ // the true sum is larger in magnitude
	} else {
		bits--
	}
	return float32(math.Float64frombits(bits))
}
