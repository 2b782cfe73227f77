package nn

import "math"

// π/2 in three parts: the sum of the first two has 106 bits, the third is the rest of 159.
const (
	halfPi0 = 0x1.921fb54442d18p+0
	halfPi1 = 0x1.1a62633145c07p-54
	halfPi2 = -0x1.f1976b7ed8fbcp-110

	twoOverPi = 0x1.45f306dc9c883p-1

	// rounding makes an integer of a number below 2⁵¹, in the low bits of the sum.
	rounding = 0x1.8p+52
)

// maxAngle is what sincos is for.
const maxAngle = 1 << 40

// sincos is the sine and the cosine of 0 ≤ a ≤ maxAngle, within 1 unit of the last place. Each
// rounding is spelled, so that it is the same everywhere; the functions of Go's math are not.
//
// a = n·π/2 + r + tail, |r| ≤ π/4, with an error below 2⁻¹²⁰: the first product is exact in a fused
// operation, since a and π/2's first part have no bits below 2⁻⁵².
func sincos(a float64) (sine, cosine float64) {
	t := float64(a*twoOverPi) + rounding
	n := t - rounding
	r0 := math.FMA(-n, halfPi0, a)
	p := float64(n * halfPi1)
	e := math.FMA(n, halfPi1, -p)
	r, tail := twoDifference(r0, p)
	tail = tail - math.FMA(n, halfPi2, e)
	r, tail = fastTwoSum(r, tail)
	sine, cosine = sineOf(r, tail), cosineOf(r, tail)
	switch math.Float64bits(t) & 3 {
	case 1:
		return cosine, -sine
	case 2:
		return -sine, -cosine
	case 3:
		return -cosine, sine
	}
	return sine, cosine
}

// twoDifference is a − b = d + e exactly, by Knuth.
func twoDifference(a, b float64) (d, e float64) {
	d = a - b
	v := d - a
	return d, float64(a-float64(d-v)) - float64(b+v)
}

// fastTwoSum is a + b = s + e exactly, for |a| ≥ |b|, by Dekker.
func fastTwoSum(a, b float64) (s, e float64) {
	s = a + b
	return s, b - float64(s-a)
}

// The minimax polynomials of fdlibm, by Sun Microsystems: sine and cosine on |r| ≤ π/4.
const (
	sineC0 = -1.66666666666666324348e-01
	sineC1 = 8.33333333332248946124e-03
	sineC2 = -1.98412698298579493134e-04
	sineC3 = 2.75573137070700676789e-06
	sineC4 = -2.50507602534068634195e-08
	sineC5 = 1.58969099521155010221e-10

	cosineC0 = 4.16666666666666019037e-02
	cosineC1 = -1.38888888888741095749e-03
	cosineC2 = 2.48015872894767294178e-05
	cosineC3 = -2.75573143513906633035e-07
	cosineC4 = 2.08757232129817482790e-09
	cosineC5 = -1.13596475577881948265e-11
)

// sineOf is sin(r + tail) = r + (r³·P(r²) + tail·(1 − r²/2)).
func sineOf(r, tail float64) float64 {
	z := float64(r * r)
	p := math.FMA(sineC5, z, sineC4)
	p = math.FMA(p, z, sineC3)
	p = math.FMA(p, z, sineC2)
	p = math.FMA(p, z, sineC1)
	p = math.FMA(p, z, sineC0)
	return r + math.FMA(float64(z*r), p, math.FMA(float64(z*-0.5), tail, tail))
}

// cosineOf is cos(r + tail) = w + (rounded off from w + (r⁴·P(r²) − r·tail)), w = 1 − r²/2.
func cosineOf(r, tail float64) float64 {
	z := float64(r * r)
	p := math.FMA(cosineC5, z, cosineC4)
	p = math.FMA(p, z, cosineC3)
	p = math.FMA(p, z, cosineC2)
	p = math.FMA(p, z, cosineC1)
	p = math.FMA(p, z, cosineC0)
	half := float64(0.5 * z)
	w := 1 - half
	lost := float64(1-w) - half
	return w + (lost + math.FMA(float64(z*z), p, -float64(r*tail)))
}
