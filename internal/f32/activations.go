package f32

import "math"

// Activations. Softplus must be monotonic. It is computed in float64 and rounded once: there a step
// of x changes it by far more than the errors of float64, and a smooth error of 2⁻³⁰ of an
// approximation changes no order. GELUs, in float32, are in gelu.go.

// Sigmoid is 1/(1 + exp(−x)), each operation rounded.
func Sigmoid(x float32) float32 { return 1 / float32(1+Exp(-x)) }

// SiLU is x/(1 + exp(−x)) + 0, each operation rounded: +0 for −Inf.
func SiLU(x float32) float32 {
	if x < -math.MaxFloat32 {
		x = -math.MaxFloat32
	}
	return x/float32(1+Exp(-x)) + 0
}

// QuickAlpha is the factor of QuickGELU.
const QuickAlpha float32 = 1.702

// QuickGELU is x·σ(1.702·x) + 0, each operation rounded: +0 for −Inf.
func QuickGELU(x float32) float32 {
	if x < -math.MaxFloat32 {
		return 0
	}
	return float32(x*Sigmoid(float32(QuickAlpha*x))) + 0
}

// The constants of Pow2. Adding pow2Bias to w rounds it to an integer n and leaves n + 1023, the
// biased exponent of 2ⁿ, in the low bits of the sum. The polynomial is the minimax one for the
// relative error of 2^f on |f| ≤ ½ with the constant term 1; error 2⁻³⁴.
const (
	pow2Bias = 0x1.8p+52 + 1023

	pow2C1 = 0x1.62e42ff0e196ap-01
	pow2C2 = 0x1.ebfbe07788cb3p-03
	pow2C3 = 0x1.c6b08ac06560dp-05
	pow2C4 = 0x1.3b29f39b9f3f2p-07
	pow2C5 = 0x1.5d8a860131182p-10
	pow2C6 = 0x1.445c85794c3f4p-13
	pow2C7 = 0x1.fde60036459b7p-17
)

// pow2 is 2^w for |w| ≤ 1000: 2ⁿ·2^f, n = rint(w), f = w − n, which is exact.
func pow2(w float64) float64 {
	t := w + pow2Bias
	n := t - pow2Bias
	f := w - n
	p := math.FMA(pow2C7, f, pow2C6)
	p = math.FMA(p, f, pow2C5)
	p = math.FMA(p, f, pow2C4)
	p = math.FMA(p, f, pow2C3)
	p = math.FMA(p, f, pow2C2)
	p = math.FMA(p, f, pow2C1)
	p = math.FMA(p, f, 1)
	return float64(p * math.Float64frombits(math.Float64bits(t)<<52))
}

// magnitude returns |x|, at most some limit, and the positive part of x.
func magnitude(x float32, limit float64) (a, positive float64) {
	a, positive = math.Abs(float64(x)), float64(x)
	if a > limit {
		a = limit
	}
	if positive < 0 {
		positive = 0
	}
	return a, positive
}

// The constants of Softplus: ln(1 + e)/e on 0 ≤ e ≤ 1, the minimax polynomial for the relative
// error; error 2⁻³⁰.
const (
	// softplusMost: from here on exp(−a) is +0 in float32.
	softplusMost = 110

	softplusLog2 = -Log2E

	softplusC0  = 0x1.fffffff99f339p-01
	softplusC1  = -0x1.fffff38b15769p-02
	softplusC2  = 0x1.55534e2a239e1p-02
	softplusC3  = -0x1.ffbd4447d9d23p-03
	softplusC4  = 0x1.975cd2a80db39p-03
	softplusC5  = -0x1.49d843763b26cp-03
	softplusC6  = 0x1.fca8ef4dfbaedp-04
	softplusC7  = -0x1.51aea70040e6cp-04
	softplusC8  = 0x1.53ca698cedcfdp-05
	softplusC9  = -0x1.b756de38e7b75p-07
	softplusC10 = 0x1.0a1bc6c853f34p-09
)

// Softplus is ln(1 + exp(x)): max(x, 0) + ln(1 + e), e = exp(−|x|).
func Softplus(x float32) float32 {
	a, positive := magnitude(x, softplusMost)
	e := pow2(float64(a * softplusLog2))
	p := math.FMA(softplusC10, e, softplusC9)
	p = math.FMA(p, e, softplusC8)
	p = math.FMA(p, e, softplusC7)
	p = math.FMA(p, e, softplusC6)
	p = math.FMA(p, e, softplusC5)
	p = math.FMA(p, e, softplusC4)
	p = math.FMA(p, e, softplusC3)
	p = math.FMA(p, e, softplusC2)
	p = math.FMA(p, e, softplusC1)
	p = math.FMA(p, e, softplusC0)
	return float32(math.FMA(e, p, positive))
}
