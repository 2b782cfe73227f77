package f32

import "math"

// Arithmetic of sums in bfloat16, without subnormal numbers. Operands below 2⁻¹²⁶ count as zeros. A
// result becomes a zero of its sign if its magnitude, rounded to 24 bits as if exponents had no
// end, is below 2⁻¹²⁶: what MXCSR's FTZ and DAZ do on x86, and TDPBF16PS always.

const (
	leastNormal = 0x1p-126

	// leastKept is the least magnitude that 24 bits round to leastNormal or more, without an end of
	// exponents: halfway to the number before, and ties go to even.
	leastKept = leastNormal - 0x1p-151
)

// Flushed is x, or a zero of its sign if its magnitude is below 2⁻¹²⁶.
func Flushed(x float32) float32 {
	if bits := math.Float32bits(x); bits&0x7f800000 == 0 {
		return math.Float32frombits(bits & (1 << 31))
	}
	return x
}

// FlushedFMA is FMA without subnormal numbers.
func FlushedFMA(a, b, c float32) float32 {
	a, b, c = Flushed(a), Flushed(b), Flushed(c)
	s, rare := sumInFloat64(float64(a), b, c)
	if rare < 0 { // of all results below 2⁻¹²⁶, too
		if s = sumToOdd(a, b, c); math.Abs(s) < leastKept {
			s = math.Copysign(0, s)
		}
	}
	return float32(s)
}

// FlushedAdd is a + b without subnormal numbers: such a sum is exact.
func FlushedAdd(a, b float32) float32 { return Flushed(Flushed(a) + Flushed(b)) }

// FlushedBF16 rounds a number without subnormal numbers: those below 2⁻¹²⁶ are zeros before they
// are rounded, and from 2¹²⁸ − 2¹¹⁹ on they are infinite.
func FlushedBF16(x float32) uint16 { return ToBF16(Flushed(x)) }
