package f32

import "math"

// The constants of exp. The generators of assembly read them, and those of
// Tanh, from this file.
//
// exp(x) = 2ⁿ·exp(r), n = round(x/ln 2), r = x − n·ln 2. Adding expBias to
// x/ln 2 rounds it to an integer and leaves n+127, the biased exponent of 2ⁿ,
// in the low bits of the sum. ln 2 is split in two so that n·ln2Hi is exact.
// The polynomial is the minimax one for the relative error of exp(r) on
// |r| ≤ ln 2/2 with the first two coefficients fixed to 1; error 2⁻²⁸.
const (
	log2E = 0x1.715476p+0
	ln2Hi = 0x1.62e4p-1
	ln2Lo = 0x1.7f7d1cp-20

	expBias = 0x1.8p+23 + 127

	expC2 = 0x1.fffffcp-2
	expC3 = 0x1.555492p-3
	expC4 = 0x1.5558f2p-5
	expC5 = 0x1.123a20p-7
	expC6 = 0x1.6a23d0p-10

	// expMin is the least x for which exp(x) ≥ 2⁻¹²⁶, the least normal number.
	expMin = -0x1.5d589ep+6

	// ExpInf: from here on exp(x) is +Inf.
	ExpInf = 89

	// expZero: up to here exp(x) is +0.
	expZero = -104
)

// expReduced returns the polynomial's exp(r) and the rounded t = n + expBias.
func expReduced(x float32) (p, t float32) {
	t = fma(x, log2E, expBias)
	n := t - expBias
	r := fma(n, -ln2Hi, x)
	r = fma(n, -ln2Lo, r)
	p = fma(expC6, r, expC5)
	p = fma(p, r, expC4)
	p = fma(p, r, expC3)
	p = fma(p, r, expC2)
	p = fma(p, r, 1)
	p = fma(p, r, 1)
	return p, t
}

// The constants of Exp2: half the coefficients of the minimax polynomial of degree 5 for 2^f on |f|
// ≤ ½ with the constant term 1.
const (
	exp2C0 = 0x1p-1
	exp2C1 = 0x1.62e42ap-2
	exp2C2 = 0x1.ebf9b4p-4
	exp2C3 = 0x1.c6b732p-6
	exp2C4 = 0x1.3cec7ap-8
	exp2C5 = 0x1.5ba6e4p-11

	// exp2Bias rounds to an integer, ties to even because it is even, and leaves n + 128 in the low
	// bits: the exponent of 2ⁿ⁺¹.
	exp2Bias = 0x1.8p+23 + 128

	// exp2Zero is t, see Exp2, up to which 2^(x·c) counts as 0: from 2⁻¹²⁵·⁵ down.
	exp2Zero = exp2Bias - 126
)

// Log2E makes powers of 2 of powers of e.
const Log2E = 1.44269504088896340735992468100189214

// Exp2 is 2^(x·c), the exponential of attention: x ≤ 0 or NaN, c ≥ 0. Where x·c rounds to an
// integer n ≤ −126, it is +0.
//
// 2^(x·c) = 2ⁿ·2^f, n = rint(x·c), f = x·c − n; computed as 2ⁿ⁺¹·(2^f/2), which is the same,
// because halving is exact.
func Exp2(x, c float32) float32 {
	t := fma(x, c, exp2Bias)
	if t <= exp2Zero {
		return 0
	}
	n := t - exp2Bias
	f := fma(x, c, -n)
	p := fma(exp2C5, f, exp2C4)
	p = fma(p, f, exp2C3)
	p = fma(p, f, exp2C2)
	p = fma(p, f, exp2C1)
	p = fma(p, f, exp2C0)
	return float32(p * math.Float32frombits(math.Float32bits(t)<<23))
}

// ExpFlush is exp of x ≤ 88.37 or NaN; results below 2⁻¹²⁶ are +0.
func ExpFlush(x float32) float32 {
	if x < expMin {
		return 0
	}
	p, t := expReduced(x)
	return float32(p * math.Float32frombits(math.Float32bits(t)<<23))
}

// Exp is exp over all of float32, with gradual underflow.
func Exp(x float32) float32 {
	if x > ExpInf {
		x = ExpInf
	}
	if x < expZero {
		x = expZero
	}
	return timesPower(expReduced(x))
}

// timesPower is p·2ⁿ, t = n + expBias, in two halves: each half's exponent is one of a float32.
func timesPower(p, t float32) float32 {
	n := int32(math.Float32bits(t)) - int32(math.Float32bits(expBias))
	h := n >> 1
	p = float32(p * math.Float32frombits(uint32(h+127)<<23))
	return float32(p * math.Float32frombits(uint32(n-h+127)<<23))
}

// Tanh is odd. Each half ends in a sum whose first term is exact and the
// larger one, so that little but its own rounding is left: below 1 a polynomial
// a + a³·P(a²), from 1 on 1 − 2/(1+e²ᵃ). P is the minimax one for the relative
// error of the whole, 2⁻²⁷·⁴. The result is within 0.96 ULP, the worst near 1.
func Tanh(x float32) float32 {
	const (
		// tanhOne is where tanh is 1 for long; the exponent of e²ᵃ fits a float32.
		tanhOne = 10

		tanhC0 = -0x1.55553cp-2
		tanhC1 = 0x1.110be4p-3
		tanhC2 = -0x1.b9623ap-5
		tanhC3 = 0x1.6009b6p-6
		tanhC4 = -0x1.0460d8p-7
		tanhC5 = 0x1.2da716p-9
		tanhC6 = -0x1.77ecc4p-12
	)
	a := math.Float32frombits(math.Float32bits(x) &^ (1 << 31))
	var y float32
	if a < 1 {
		z := float32(a * a)
		p := fma(tanhC6, z, tanhC5)
		p = fma(p, z, tanhC4)
		p = fma(p, z, tanhC3)
		p = fma(p, z, tanhC2)
		p = fma(p, z, tanhC1)
		p = fma(p, z, tanhC0)
		y = fma(float32(a*z), p, a)
	} else {
		if a > tanhOne {
			a = tanhOne
		}
		p, t := expReduced(a + a)
		d := fma(p, math.Float32frombits(math.Float32bits(t)<<23), 1)
		y = 1 - float32(2/d)
	}
	return math.Float32frombits(math.Float32bits(y) | math.Float32bits(x)&(1<<31))
}

// Log is the natural logarithm, evaluated in float64 by operations that IEEE
// 754 defines (so it is the same everywhere) and rounded once at the end. It
// runs once a row, never in an inner loop.
//
// x = 2ᵏ·f with f in [√½, √2); ln f = 2·atanh(s), s = (f−1)/(f+1), |s| < 0.172,
// by its Taylor series up to s¹⁷: the next term is below 2⁻⁵⁰.
func Log(x float32) float32 {
	switch {
	case x != x || x < 0:
		return float32(math.NaN())
	case x == 0:
		return float32(math.Inf(-1))
	case x > math.MaxFloat32:
		return x
	}
	f, k := math.Frexp(float64(x)) // exact; f in [½, 1)
	if f < math.Sqrt2/2 {
		f, k = f*2, k-1
	}
	s := float64(f-1) / float64(f+1)
	z := float64(s * s)
	p := 0.0
	for n := 17; n >= 1; n -= 2 {
		p = float64(p*z) + 1/float64(n)
	}
	const ln2 = 0x1.62e42fefa39efp-1
	return float32(float64(2*float64(s*p)) + float64(float64(k)*ln2))
}
